"""What is installed, from a wheel, a source distribution and in place; and the choice of a Python."""
import ast
import importlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import fresh
import gluonops as gops
import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parent.parent
ASK = """
import importlib.util, json, gluonops, gluonops.models, mxnet as mx
net = gluonops.models.get_model("mlp"); net.initialize()
print(json.dumps({"gluonops": gluonops.__file__, "models": gluonops.models.__file__, "version": gluonops.__version__,
                  "top_level_models": importlib.util.find_spec("models") is not None,
                  "output": net(mx.nd.ones((2, 1, 28, 28))).shape}))
"""


def copy_of_repository(target, compiled=False):
    """Return the sources, without what was built, installed or put out; ``compiled``: with what Python has compiled."""
    def skipped(folder, names):
        return [name for name in names if name in {".git", "build", "dist", "out", ".hypothesis"}
                or name == "__pycache__" and not compiled
                or name.startswith(".venv") or name.endswith((".egg-info", "_cache"))
                or (pathlib.Path(folder) / name / "pyvenv.cfg").is_file()]

    return pathlib.Path(shutil.copytree(ROOT, target, ignore=skipped))


def run(*command, cwd):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GLUONOPS_"))}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True,
                          encoding="utf-8")


def succeed(*command, cwd):
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(source distribution, wheel that `make wheels` makes from it).

    It installs the wheel without a compiler, runs an operator of its library, and runs pip check.
    """
    folder = tmp_path_factory.mktemp("built")
    copy = copy_of_repository(folder / "copy")
    succeed(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, copy, cwd=folder)
    sdist, = folder.glob("*.tar.gz")
    succeed("tar", "-xf", sdist, cwd=folder)
    sources = pathlib.Path(str(sdist)[:-len(".tar.gz")])
    succeed(sys.executable, sources / "tools" / "wheels.py", "--machine", platform.machine(), "-o", folder / "dist",
            cwd=folder)
    wheel, = (folder / "dist").iterdir()
    return sdist, wheel


@pytest.fixture
def environment(tmp_path):
    """A new virtual environment that sees the packages of this one behind its own."""
    home = tmp_path / "environment"
    succeed(sys.executable, "-m", "venv", "--without-pip", home, cwd=tmp_path)
    own = pathlib.Path(succeed(home / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                               cwd=tmp_path).strip())
    own.joinpath("zz_outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return home


def install(environment, *what, cwd):
    succeed(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-deps",
            "--no-index", "--no-build-isolation", *what, cwd=cwd)


def check_installed(environment, gluonops, models, cwd):
    """It runs from a folder of its own, and every part comes from where it should."""
    elsewhere = cwd / "elsewhere"
    elsewhere.mkdir()
    answer = json.loads(succeed(environment / "bin" / "python", "-c", ASK, cwd=elsewhere).splitlines()[-1])
    assert pathlib.Path(answer["gluonops"]).parent == gluonops
    assert pathlib.Path(answer["models"]).parent == models
    assert not answer["top_level_models"]
    assert answer["version"] == gops.__version__ and answer["output"] == [2, 10]
    report = json.loads(succeed(environment / "bin" / "gluonops", "doctor", "--json", cwd=elsewhere))
    assert report["ok"] and pathlib.Path(report["path"]) == gluonops


def packaged(*suffixes):
    """Paths inside the installed package, as the repository has them."""
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gluonops").rglob("*") if path.suffix in suffixes}
    return files | {f"gluonops/{path.relative_to(ROOT).as_posix()}"
                    for path in (*(ROOT / "models").rglob("*"), *(ROOT / "examples").glob("*"))
                    if path.suffix in (".py", ".params")}


def test_setup_names_the_weights():
    """Files that are not Python are installed only if setup.py names them."""
    patterns = re.search(r'"gluonops.models": (\[.*?\])', (ROOT / "setup.py").read_text()).group(1)
    named = {path for pattern in json.loads(patterns) for path in (ROOT / "models").glob(pattern)}
    assert named == set((ROOT / "models").rglob("*.params")) != set()


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(built):
    names = {entry.filename for entry in zipfile.ZipFile(built[1]).infolist()
             if ".dist-info/" not in entry.filename and not entry.is_dir()}
    assert names == packaged(".py", ".cu", ".cuh", ".cc", ".h", ".inl", ".txt") | {
        f"gluonops-{gops.__version__}.data/scripts/gluonops", "gluonops/native/libgluonops.so"}
    assert {"gluonops/models/__init__.py", "gluonops/cuda/prelude.cuh", "gluonops/ops/abs/kernel.cu"} <= names


@pytest.mark.slow
def test_wheel_is_for_old_systems(built):
    """RHEL 8 has glibc 2.28."""
    tags = re.findall(r"manylinux_2_(\d+)_", built[1].name)
    assert tags and int(tags[0]) <= 28


@pytest.mark.slow
def test_wheel_says_what_it_needs(built):
    with zipfile.ZipFile(built[1]) as wheel:
        metadata, = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/METADATA"))
        top_level, = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/top_level.txt"))
    lines = metadata.splitlines()
    assert f"Version: {gops.__version__}" in lines
    pythons, = (line.partition(": ")[2] for line in lines if line.startswith("Requires-Python: "))
    assert sorted(pythons.split(",")) == ["<3.16", ">=3.9"]   # setuptools decides on the order
    assert {f"Provides-Extra: {extra}" for extra in ("cpu", "cu117", "examples", "test", "dev")} <= set(lines)
    assert any("mxnet-cu117==1.9.1" in line for line in lines)
    assert top_level.split() == ["gluonops"]


@pytest.mark.slow
def test_source_distribution_holds_what_it_takes_to_test_it(built):
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run", "models/__init__.py",
            "tests/op_suite.py", "tests/golden/reorg.npz", "tools/new_op.py", "tools/gluonops",
            "examples/train_digits.py", "gluonops/cuda/prelude.cuh", "gluonops/ops/abs/kernel.cu"} <= names
    assert not any("__pycache__" in name or name.startswith("gluonops/models") for name in names)


@pytest.mark.slow
def test_an_installed_wheel_runs(built, environment, tmp_path):
    install(environment, built[1], cwd=tmp_path)
    package, = environment.glob("lib/python*/site-packages/gluonops")
    check_installed(environment, package, package / "models", tmp_path)


# What an editable installation adds to the import system is taken away: as after `pip install .`.
NOT_EDITABLE = "import sys; sys.meta_path = [finder for finder in sys.meta_path if 'editable' not in repr(finder)]; "


def test_python_in_the_root_of_a_clone_finds_its_parts(tmp_path):
    """It finds the folder gluonops there before what is installed, and models and examples beside it."""
    for name in ("gluonops", "models", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("generated"))
    answer = json.loads(fresh.python("-c", NOT_EDITABLE + ASK, cwd=tmp_path).stdout)
    assert pathlib.Path(answer["gluonops"]) == tmp_path / "gluonops" / "__init__.py"
    assert pathlib.Path(answer["models"]) == tmp_path / "models" / "__init__.py" and answer["output"] == [2, 10]
    doctor = "import runpy; sys.argv = ['gluonops', 'doctor']; runpy.run_module('gluonops', run_name='__main__')"
    done = fresh.python("-c", NOT_EDITABLE + doctor, cwd=tmp_path)
    assert done.stdout.endswith("gluonops works here.\n"), done.stdout
    shutil.rmtree(tmp_path / "models")
    done = fresh.python("-c", NOT_EDITABLE + "import gluonops", cwd=tmp_path)
    assert done.returncode == 1 and "lacks its models, and they do not lie beside it" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_an_editable_install_runs(environment, tmp_path):
    copy = copy_of_repository(tmp_path / "copy")
    install(environment, "--editable", copy, cwd=tmp_path)
    check_installed(environment, copy / "gluonops", copy / "models", tmp_path)


def script(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 16, 0)])
def test_setup_refuses_other_pythons_at_once(version, tmp_path):
    """It does before it imports anything that such a Python may lack."""
    code = f"import runpy, sys; sys.version_info = {version}; runpy.run_path({str(ROOT / 'setup.py')!r})"
    done = run(sys.executable, "-S", "-c", code, cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("gluonops needs Python 3.9 to 3.15. ")
    assert f"This is Python 3.{version[1]}." in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_build_needs_no_numpy():
    """An isolated build that required MXNet would get NumPy 1, which pip compiles for a new Python."""
    listed = re.search(r"^requires = (\[.+\])$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M).group(1)
    assert {Requirement(text).name for text in ast.literal_eval(listed)} == {"setuptools", "wheel", "pip"}


def test_a_python_that_suits_is_found(tmp_path):
    """Behind one that exists and does not run, as pyenv's shims do, and one that is too new."""
    shim = script(tmp_path / "python3.11", "echo 'python3.11: command not found' >&2", "exit 127")
    new = script(tmp_path / "python3.16", 'case "$2" in *platform*) echo 3.16.0;; *) test "$1" = -c;; esac')
    done = run("sh", ROOT / "tools" / "venv.sh", tmp_path / "venv", shim, new, tmp_path / "absent", cwd=tmp_path)
    assert done.returncode == 1 and not (tmp_path / "venv").exists()
    assert "gluonops needs Python 3.9 to 3.15" in done.stderr
    assert f"{shim}: does not run" in done.stderr and f"{new}: 3.16.0" in done.stderr
    assert f"{tmp_path / 'absent'}: does not run" in done.stderr


def test_the_newest_python_is_chosen(tmp_path):
    """It is on the PATH, or one of pyenv's that is not on the PATH."""
    pyenv = tmp_path / ".pyenv" / "versions" / "3.18.2" / "bin"
    pyenv.mkdir(parents=True)
    fails = script(tmp_path / "python3.19", "exit 1")
    pythons = [script(folder / name, '! test "$1" = -m')   # it suits, and makes no environment
               for folder, name in ((tmp_path, "python3.16"), (tmp_path, "python3.17"), (pyenv, "python"))]
    for expected in (pythons[2], "python3.17", "python3.16"):
        done = subprocess.run(["sh", ROOT / "tools" / "venv.sh", tmp_path / "venv"], capture_output=True, text=True,
                              env={"PATH": f"{tmp_path}:{os.defpath}", "HOME": str(tmp_path)}, check=False)
        assert done.stdout == f"{expected} -m venv {tmp_path / 'venv'}\n", done.stderr
        pythons.pop().unlink()
    assert fails.exists()


@pytest.mark.slow
def test_a_virtual_environment_is_made_once(tmp_path):
    command = "sh", ROOT / "tools" / "venv.sh", tmp_path / "venv", "no-such-python", sys.executable
    assert f"{sys.executable} -m venv" in succeed(*command, cwd=tmp_path)
    succeed(tmp_path / "venv" / "bin" / "python", "-m", "pip", "--version", cwd=tmp_path)
    assert succeed(*command, cwd=tmp_path) == ""


@pytest.fixture
def tool(monkeypatch):
    """Imports a file of tools/."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module


def test_a_wheel_for_new_systems_is_not_kept(tool, monkeypatch, tmp_path):
    """One that does not run is not kept either; and what was there stays."""
    wheels = tool("wheels")
    machine = platform.machine()
    before = tmp_path / f"gluonops-py3-none-manylinux_2_17_{machine}.whl"
    before.write_text("before")

    def tag_for(glibc):
        def run(command, **environment):
            if "auditwheel" in command:
                folder = command[command.index("--wheel-dir") + 1]
                folder.mkdir()
                (folder / f"gluonops-py3-none-manylinux_2_{glibc}_{machine}.whl").write_text("new")
            elif command[-1] == wheels.OPERATOR:
                sys.exit("it does not run")

        monkeypatch.setattr(wheels, "run", run)

    monkeypatch.setattr(wheels, "build", lambda machine, folder: folder / "built.whl")
    monkeypatch.setitem(wheels.COMPILERS, machine, sys.executable)
    monkeypatch.setattr(sys, "argv", ["wheels.py", "--machine", machine, "-o", str(tmp_path)])
    for glibc, text in ((34, "needs a newer glibc than 2.28"), (17, "it does not run")):
        tag_for(glibc)
        with pytest.raises(SystemExit, match=text):
            wheels.main()
        assert list(tmp_path.iterdir()) == [before] and before.read_text() == "before"


def test_the_quick_matrix_is_the_oldest_and_the_newest(tool, monkeypatch, capsys):
    matrix = tool("python_matrix")
    monkeypatch.setattr(matrix, "installed", {"3.10": "a", "3.11": "b", "3.13": "c"}.get)
    monkeypatch.setattr(matrix, "result", lambda python, numpy, tests, options: f"{len(tests)} {options}")
    monkeypatch.setattr(sys, "argv", ["python_matrix.py", "--quick", "-x"])
    with pytest.raises(SystemExit, match="False"):
        matrix.main()
    pairs = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    few = str(len(matrix.FEW_TESTS))
    assert pairs == [["3.10", "1.23", few, "['-x']"], ["3.13", "2.5", few, "['-x']"]]


def test_a_fresh_system_gets_the_settings_of_pip(tool, monkeypatch, tmp_path):
    """It gets the files that they name. The pages of an index refer to files beside its folder."""
    for name in ("wheels", "index/simple", "certificates"):
        (tmp_path / name).mkdir(parents=True)
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nextra-index-url = file://{tmp_path}/index/simple file:///absent/simple\n"
                        f"[install]\nfind-links = {tmp_path}/wheels\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path}/certificates")
    fresh_check = tool("fresh_check")
    settings = fresh_check.network_settings()
    assert settings["PIP_EXTRA_INDEX_URL"].split()[0] == f"file://{tmp_path}/index/simple"
    assert settings["SSL_CERT_DIR"] == f"{tmp_path}/certificates"
    paths = fresh_check.local_paths(settings)
    assert {tmp_path / name for name in ("wheels", "index", "certificates", "pip.conf")} <= set(paths)
    assert all(str(path) == place for path, place in paths.items())


def test_a_fresh_system_needs_root_and_debootstrap(tool, monkeypatch):
    debian = tool("debian")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(SystemExit, match="debootstrap is missing, and there is no apt-get"):
        debian.install_tools({"debootstrap": "debootstrap"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="needs root"):
        debian.install_tools({})
    monkeypatch.setattr(shutil, "which", lambda command: command if command == "apt-get" else None)
    assert debian.tools_problem({"qemu-x86_64": "qemu-user"}) == (
        "qemu-user is missing. Run: sudo apt-get install qemu-user")
