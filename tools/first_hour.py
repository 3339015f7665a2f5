"""Type the commands of a first hour in a fresh clone of the last commit, and record them with what they print, in
docs/first_hour.txt: `make first-hour`. It takes five minutes on two cores, and downloads what `make demo` needs."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORDING = ROOT / "docs" / "first_hour.txt"
RESNET = """python -c '
import gluonops, mxnet as mx
net = mx.gluon.model_zoo.vision.resnet18_v1(prefix="resnetv10_")
net.initialize(mx.init.Xavier())
net.hybridize()
net(mx.nd.ones((1, 3, 224, 224)))
net.export("resnet")'"""   # A reader who has no files takes this.


def commands() -> list[str]:
    """Those of the README, and of the page about fine-tuning those that make and train a classifier."""
    readme, fine_tuning = (path.read_text(encoding="utf-8")
                           for path in (ROOT / "README.md", ROOT / "docs" / "fine_tuning.md"))
    ten_lines, = re.findall(r"```python\n(.*?)```", readme, re.S)
    files, = re.findall(r"```sh\n(.*?)```", readme, re.S)
    make, _, train = re.search(r"```sh\n(.*?)```", fine_tuning, re.S).group(1).splitlines()
    return ["make demo", "source .venv/bin/activate", "gluonops doctor", f"cat > net.py << END\n{ten_lines}END",
            "python net.py", RESNET, *files.splitlines(), make, train,
            "gluonops classify out/finetune_classifier/classifier out/finetune_classifier/example.png",
            "gluonops clasify out/finetune_classifier/classifier out/finetune_classifier/example.png"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder, "gluonops")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        script = "".join(f"cat << 'END OF COMMAND'\n$ {command}\nEND OF COMMAND\n{command}\n" for command in commands())
        of_others = ("VIRTUAL_ENV", "MAKELEVEL", "MAKEFLAGS")   # make says where it is if another make runs it
        environment = {name: value for name, value in os.environ.items() if name not in of_others}
        environment["PYTHON"] = "python3"   # It is the system's, or its path would be in the recording.
        done = subprocess.run(["bash", "-c", script], cwd=clone, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    text = re.sub(r"(?m)^WARNING: .*\n", "", done.stdout)   # pip's, about this machine
    text = text.replace(str(clone), "~/gluonops").replace(str(pathlib.Path.home()), "~")
    RECORDING.write_text(text, encoding="utf-8")
    if done.returncode != 2:   # It is the last command's, which is mistyped.
        sys.exit(f"The last command ended with {done.returncode}. See {RECORDING}")
    print(f"{RECORDING} is written.")


if __name__ == "__main__":
    main()
