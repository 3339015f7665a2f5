"""A first hour: what the README says, typed line by line in a fresh clone of the last commit, from `make demo` on."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
END = "----- exit code"
RESNET = """python -c '
import mxnet as mx
net = mx.gluon.model_zoo.vision.resnet18_v1(prefix="resnetv10_")
net.initialize(mx.init.Xavier())
net.hybridize()
net(mx.nd.ones((1, 3, 224, 224)))
net.export("resnet")'"""   # A reader who has no files takes this.
CLASSIFIER = "out/finetune_classifier/classifier"
PICTURE = "out/finetune_classifier/example.png"


def commands():
    """Each command, with a part of what it prints."""
    old_script, ten_lines = re.findall(r"```python\n(.*?)```", README, re.S)
    check, export = re.search(r"```sh\n(gluonops files check .*?)```", README, re.S)[1].splitlines()[:2]
    return {
        "make demo": "of the held-out digits correctly",
        "source .venv/bin/activate": "",
        "gluonops doctor": "gluonops works here.",
        "python -c 'import gluonops'": "",
        f"cat > old.py << 'END'\n{old_script}END": "",
        "python old.py": "accuracy: 0.",
        f"cat > net.py << 'END'\n{ten_lines}END": "",
        "python net.py": "e-0",
        RESNET: "",
        check: "nothing is wrong",
        export: "resnet.onnx",
        "python examples/make_shapes.py": "60 pictures to train on and 20 held out",
        "gluonops train out/shapes/classification --epochs 3": "of 20 held-out images correctly",
        f"gluonops classify {CLASSIFIER} {PICTURE}": "circle",
        f"gluonops clasify {CLASSIFIER} {PICTURE}": "Perhaps you mean 'classify'",
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_first_hour(tmp_path):
    """It creates an environment, and downloads what `make demo` needs. The last command is mistyped."""
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no clone")
    clone = tmp_path / "gluonops"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    script = "".join(f"{command}\necho '{END}' $?\n" for command in commands())
    of_others = ("VIRTUAL_ENV", "MAKELEVEL", "MAKEFLAGS", "PYTHONPATH")   # make prints its folder if make runs it
    environment = {name: value for name, value in os.environ.items() if name not in of_others}
    done = subprocess.run(["bash", "-c", script], cwd=clone, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    steps = re.split(rf"{END} (\d+)\n", done.stdout)
    for (command, part), text, code in zip(commands().items(), steps[:-1:2], steps[1::2], strict=True):
        assert part in text and int(code) == (2 if "clasify" in command else 0), f"$ {command}\n{text}"
