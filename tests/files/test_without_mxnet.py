"""gluonops where MXNet is not installed: files are read as with it, and all else says what is missing."""
import json
import os
import shutil
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import no_mxnet
import pytest
from no_mxnet import ROOT

LEGACY = ROOT / "tests" / "golden" / "legacy"
PROGRAM = """
import json, sys
import gluonops as gops

assert dir(gops) == ["OpError", "__version__", "doctor", "export", "files"] == sorted(gops.__all__)
for name in ("nn", "ops", "loss", "models", "train", "darknet", "data", "backend", "tune_threads"):
    try:
        getattr(gops, name)
    except ImportError as error:
        assert str(error).startswith("gluonops: MXNet is not installed. Run: gluonops install-mxnet"), error
        assert str(error).endswith(f"gluonops.{name} needs MXNet."), error
    else:
        raise AssertionError(name)
try:
    from gluonops.export import onnx
except ImportError as error:
    assert str(error).endswith("gluonops.export.onnx needs MXNet."), error
try:
    gops.no_such_name
except AttributeError:
    pass
described = gops.files.describe("net")
gops.files.write("again.params", gops.files.read("net"))
gops.files.convert("net", "folder")
labels = [item.labels.tolist() for item in gops.files.records("a.rec")]
assert "mxnet" not in sys.modules
print(json.dumps([described, gops.files.check("net"), labels]))
"""


@pytest.fixture
def folder(tmp_path):
    """A net of MXNet 0.8, with arrays of its symbol's shapes, and records."""
    shutil.copy(LEGACY / "save000800-symbol.json", tmp_path / "net-symbol.json")
    symbol = mx.sym.load(str(tmp_path / "net-symbol.json"))
    arguments, _, states = symbol.infer_shape(data=(4, 20))
    shapes = dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), arguments + states))
    arrays = {name: mx.nd.random.normal(shape=shape) for name, shape in shapes.items() if shape[0] != 4}
    mx.nd.save(str(tmp_path / "net-0000.params"), arrays)
    file = mx.recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
    file.write(mx.recordio.pack(mx.recordio.IRHeader(0, [1.0, 0.5], 8, 0), b"something"))
    file.close()
    return tmp_path


def check(folder, python, environment):
    """Run the program and the command in a process, and compare with this one, which has MXNet."""
    def run(*words):
        return subprocess.run([python, *words], cwd=folder, env=environment, capture_output=True, encoding="utf-8")

    done = run("-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    net = folder / "net"
    assert json.loads(done.stdout) == [gops.files.describe(net), gops.files.check(net), [[1.0, 0.5]]]
    assert gops.files.check(net) == []
    assert (folder / "again.params").read_bytes() == (folder / "net-0000.params").read_bytes()
    assert (folder / "folder" / "symbol.json").is_file()

    done = run("-m", "gluonops", "files", "list", "net", "--json")
    assert json.loads(done.stdout) == gops.files.describe(net), done.stderr
    for command in (["ops"], ["export", "net", "out"], ["convert", "a.cfg", "a.weights", "out"], ["doctor", "--json"]):
        done = run("-m", "gluonops", *command)
        assert done.returncode == 1
        text = json.loads(done.stdout)["problems"][0] if command[0] == "doctor" else done.stderr
        assert text.startswith("gluonops: MXNet is not installed. Run: gluonops install-mxnet")


def test_where_mxnet_is_not_found(folder):
    check(folder, sys.executable, no_mxnet.environment(folder))


def test_the_command_does_not_import_mxnet(folder):
    """The import takes seconds, and reading files needs nothing of it."""
    (folder / "mxnet").mkdir()
    (folder / "mxnet" / "__init__.py").write_text("raise SystemExit('MXNet was imported')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    done = [subprocess.run([sys.executable, ROOT / "tools" / "gluonops", *words], cwd=folder, env=environment,
                           capture_output=True, encoding="utf-8") for words in (["files", "check", "net"], ["ops"])]
    assert done[0].returncode == 0 and done[0].stdout.startswith("nothing is wrong\n"), done[0].stderr
    assert done[1].stderr == "MXNet was imported\n"   # The test would see it.


@pytest.mark.slow
def test_an_environment_without_mxnet(folder, tmp_path_factory):
    """pip installs gluonops there from a copy of the sources, with NumPy alone."""
    home = tmp_path_factory.mktemp("home")
    copy = home / "copy"
    copy.mkdir()
    for name in ("examples", "gluonops", "models", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "generated"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GLUONOPS_"))}
    environment["GLUONOPS_COMPILE"] = "0"
    python = home / "venv" / "bin" / "python"
    for command in ([sys.executable, "-m", "venv", home / "venv"],
                    [python, "-m", "pip", "install", "--quiet", "setuptools>=68", "wheel"],
                    [python, "-m", "pip", "install", "--quiet", "--no-build-isolation", copy]):
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stdout + done.stderr
    check(folder, python, environment)
