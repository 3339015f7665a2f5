"""The library: found, checked, loaded once and silently; and built, or not, with a clear message."""
import os
import pathlib
import re
import subprocess
import sys

import fresh
import pytest
from gluonops.backends import native
from gluonops.native import build
from native_cases import require_library

LIBRARY = native.library_path()
ROOT = pathlib.Path(__file__).parents[2]


def python(code, **env):
    done = fresh.python("-c", code, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_loads_once_and_silently():
    require_library()
    code = ("import gluonops\nfrom gluonops.backends import native\nassert native.loaded()\n"
            "assert native.loaded() and native.reason() is None")
    assert python(code) == ("", "")


def test_makes_functions_for_its_own_operators_alone():
    """Both packages have them, where mx.library.load puts them; MXNet's own functions stay the ones they were."""
    require_library()
    code = """
import mxnet as mx
packages = (mx.nd, mx.sym)
before = [(package.relu, package._internal._plus_scalar) for package in packages]
import gluonops
assert before == [(package.relu, package._internal._plus_scalar) for package in packages]
for package in packages:
    for op in gluonops.ops.list():
        function = getattr(package, f"gluonops_{op}")
        assert function is getattr(package.op, f"gluonops_{op}") and function.__module__ == package.relu.__module__
        assert hasattr(package._internal, f"_backward_gluonops_{op}")
"""
    python(code)


def test_says_its_instruction_set():
    require_library()
    assert native.instruction_set() in native.TARGETS
    code = "from gluonops.backends import native; native.loaded(); print(native.instruction_set())"
    out, _ = python(code, GLUONOPS_NATIVE_TARGET="base")
    assert out.strip() == "base"


def test_an_unknown_instruction_set_is_a_line():
    """The import says so, and the doctor."""
    line = ("gluonops.native: GLUONOPS_NATIVE_TARGET is 'sse9'; expected base, avx2, avx512. Set it to one of these, "
            "or unset it.")
    env = {**os.environ, native.TARGET: "sse9"}
    done = fresh.python("-c", "import gluonops", env=env)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith(line)
    done = fresh.python(str(ROOT / "tools" / "gluonops"), "doctor", env=env)
    assert done.returncode == 1 and f"Problems:\n  - {line}\n" in done.stdout


def test_loads_without_gluonops():
    require_library()
    code = (
        f"{fresh.WITHOUT_GLUONOPS}import warnings\nwarnings.simplefilter('ignore')\n"
        f"import mxnet as mx\nmx.library.load({LIBRARY!r}, False)\n"
        "print(mx.nd.gluonops_abs(mx.nd.array([-1, 2])).asnumpy().tolist())")
    assert python(code)[0].strip() == "[1.0, 2.0]"


@pytest.mark.parametrize("name, content, text", [
    ("missing.so", None, "is missing; run: python -m gluonops.native.build"),
    ("broken.so", b"no library", "is damaged: it is cut off, or gluonops did not build it; run: python -m gluonops"),
])
def test_says_why_it_is_not_loaded(name, content, text, tmp_path):
    path = tmp_path / name
    if content:
        path.write_bytes(content)
    assert text in native.mismatch_reason(str(path))


def test_refuses_a_damaged_library(tmp_path):
    """It is cut off, which would end the process with SIGBUS, or has a changed byte."""
    require_library()
    content, path = pathlib.Path(LIBRARY).read_bytes(), tmp_path / "damaged.so"
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    for damaged, text in ((content[:-5], "is cut off"), (content[:len(content) // 2], "is cut off"),
                          (changed, "does not fit its checksum"), (b"", "is cut off")):
        path.write_bytes(damaged)
        assert text in native.mismatch_reason(str(path))


def test_refuses_a_library_for_other_versions(monkeypatch):
    require_library()
    monkeypatch.setattr(native, "__version__", "9.9.9")
    assert "and this is gluonops 9.9.9; run: python -m gluonops.native.build" in native.mismatch_reason(LIBRARY)


def test_can_be_switched_off():
    code = ("import gluonops\nfrom gluonops.backends import native\nassert not native.loaded()\nprint(native.reason())")
    assert python(code, GLUONOPS_NATIVE="0")[0].strip() == "GLUONOPS_NATIVE=0 switches it off"


def test_no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.BuildError, match="found no C\\+\\+ compiler, looked for g\\+\\+, clang\\+\\+, c\\+\\+"):
        build.build()


def test_one_line_says_why_it_cannot_be_built(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CXX", "/no/such -O9")
    assert build.main([]) == 1
    assert capsys.readouterr().err == ("gluonops.native: the compiler /no/such, named in CXX, does not exist. Correct "
                                       "CXX, or unset it.\n")
    monkeypatch.delenv("CXX")
    (tmp_path / "file").touch()
    for output, text in ((tmp_path / "file" / "a.so", "cannot write to "), (tmp_path, "is a folder. Choose another")):
        assert build.main(["--output", str(output)]) == 1
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1


def test_no_mxnet(tmp_path):
    with pytest.raises(build.BuildError, match="lacks include/mxnet/lib_api.h"):
        build.find_mxnet(tmp_path)


@pytest.mark.slow
def test_builds_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "gluonops.native.build", "--output", str(tmp_path / "a.so")]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    progress = re.compile(r"Compiling the C\+\+ library .*|\d+ of \d+ files are compiled, .*")
    assert done.returncode == 0 and all(map(progress.fullmatch, done.stderr.splitlines())), done.stderr
    assert [path.name for path in pathlib.Path(tmp_path).iterdir()] == ["a.so"]
    assert native.mismatch_reason(str(tmp_path / "a.so")) is None


@pytest.mark.slow
def test_a_library_that_counts_its_lines(tmp_path):
    """A process that uses an operator leaves the counts of gcov beside the object files."""
    library = build.build(tmp_path / "counting.so", generated=tmp_path / "generated", operators=["abs"],
                          coverage=tmp_path / "objects")
    code = "import gluonops, mxnet; gluonops.backend('native'); gluonops.ops.abs(mxnet.nd.ones(3)).asnumpy()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "GLUONOPS_LIBRARY": str(library)}, check=True)
    counted = {path.stem for path in (tmp_path / "objects").glob("*.gcda")}
    assert {"kernels0_base", "pool", "runtime"} <= counted


@pytest.mark.slow
def test_the_python_of_operators_is_traced_in_the_threads_of_mxnet():
    code = ("import sys, threading; import engine_threads; seen = set(); "
            "threading.settrace(lambda frame, *_: seen.add((frame.f_code.co_name, threading.get_ident()))); "
            "import gluonops, mxnet; gluonops.backend('custom'); gluonops.ops.abs(mxnet.nd.ones(3)).asnumpy(); "
            "print({thread == threading.get_ident() for name, thread in seen.copy() if name == 'forward_entry'})")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])})
    assert done.stdout == "{False}\n", done.stderr


def test_what_is_built_already_is_copied(tmp_path, monkeypatch):
    """It is if the same compiler made it of the same sources, wherever these lie."""
    compiled = []

    def link(compiler, library, objects, digest):
        library.write_bytes(b"a library")
        build.STAMP["append_stamp"](library, digest)

    monkeypatch.setattr(build, "_compile", lambda commands, jobs: compiled.append(len(commands)))
    monkeypatch.setattr(build, "_link", link)

    def make(name, operators=("abs",), built=()):
        return build.build(tmp_path / f"{name}.so", generated=tmp_path / name / "generated", operators=list(operators),
                           built=built)

    first = make("first")
    again = make("again", built=[tmp_path / "absent.so", first])
    assert len(compiled) == 1 and again.read_bytes() == first.read_bytes()
    other = make("other", ["abs", "mish"], built=[first, again])
    assert len(compiled) == 2 and build.STAMP["digest_of"](other) != build.STAMP["digest_of"](first)
    first.write_bytes(first.read_bytes()[:-1])
    make("whole", built=[first])
    assert len(compiled) == 3, "a damaged library is not copied"


def test_without_a_terminal_the_build_says_how_far_it_is_in_lines(capsys):
    screen = build._Screen(sys.stderr, is_terminal=False)
    screen.begin(40)
    for done in range(1, 41):
        screen.show(done, 40, seconds=done / 2)
    first, *lines = capsys.readouterr().err.splitlines()
    assert "40 files" in first and "GLUONOPS_COMPILE=0" in first and len(lines) == 10
    assert lines[4] == "20 of 40 files are compiled, about 10 seconds left"
