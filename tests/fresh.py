"""Programs in processes of their own, without the seconds that each of them would take to import MXNet.

A server imports MXNet once. For every program it forks, and the child becomes the program. MXNet has run nothing in the
server, so the child is what a process is after ``import mxnet``. It imports gluonops itself, which reads the program's
environment. A program that sets what MXNet, OpenMP or malloc read when they are loaded needs ``subprocess.run``.
"""
from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The first lines of a program that imports MXNet without gluonops.
WITHOUT_GLUONOPS = f"""
import runpy
runpy.run_path({str(ROOT / "gluonops" / "runtime" / "numpy_view.py")!r})["install"]()
"""


def python(*words: str | os.PathLike, cwd: str | os.PathLike = ".", env: dict[str, str] | None = None
           ) -> subprocess.CompletedProcess:
    """Run a program, as ``subprocess.run([sys.executable, *words], capture_output=True, text=True)`` does.

    Parameters
    ----------
    words : str or path
        ``"-c", code``, ``"-m", module`` or the path of a script; then the program's arguments.
    cwd : str or path, optional
        The program's folder.
    env : dict, optional
        The program's whole environment; the caller's by default.

    Returns
    -------
    subprocess.CompletedProcess
        Its ``stdout`` and ``stderr`` are text.
    """
    words = [os.fspath(word) for word in words]
    with tempfile.TemporaryDirectory() as folder:
        output, errors = pathlib.Path(folder, "output"), pathlib.Path(folder, "errors")
        program = {"words": words, "cwd": os.path.abspath(cwd), "env": dict(os.environ if env is None else env),
                   "output": str(output), "errors": str(errors)}
        status = _ask(program)
        return subprocess.CompletedProcess([sys.executable, *words], status, output.read_text("utf-8"),
                                           errors.read_text("utf-8"))


def _ask(program: dict) -> int:
    """Return the exit status of a program that the server runs."""
    server = _server()
    try:
        print(json.dumps(program), file=server.stdin, flush=True)
        return int(server.stdout.readline())
    except BaseException:   # pytest's timeout is one: the program may run for ever
        _server.cache_clear()
        server.kill()
        raise


@functools.cache
def _server() -> subprocess.Popen:
    """This test process's server."""
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)   # it ends with its input
    return server


# -- the server --------------------------------------------------------------------------------------------
def _import_mxnet() -> None:
    """Import MXNet as ``import gluonops`` does; forget what it has imported of gluonops."""
    package = types.ModuleType("gluonops")
    package.__path__ = [str(ROOT / "gluonops")]
    sys.modules["gluonops"] = package
    importlib.import_module("gluonops.runtime.importing").import_mxnet()
    for name in list(sys.modules):
        if name.partition(".")[0] == "gluonops":
            del sys.modules[name]


def _next_program() -> dict:
    """Serve; in a child return the program that it shall become."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def _prepare(program: dict) -> None:
    """Give this process the program's folder, environment, input and output."""
    files = (os.open(os.devnull, os.O_RDONLY), *(os.open(program[name], os.O_WRONLY | os.O_CREAT)
                                                 for name in ("output", "errors")))
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(program["cwd"])
    os.environ.clear()
    os.environ.update(program["env"])


def _run(words: list[str]) -> None:
    """What ``python`` does with these words."""
    searched = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path] + sys.path[1:]
    kind, *rest = words
    if kind == "-c":
        code, *arguments = rest
        sys.argv, sys.path = ["-c", *arguments], ["", *searched]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    elif kind == "-m":
        sys.argv, sys.path = rest, [os.getcwd(), *searched]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path = words, [str(pathlib.Path(kind).resolve().parent), *searched]
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _import_mxnet()
    gc.collect()
    gc.freeze()   # a child need not look through what has been imported: it takes 0.2 s of the CPU when it ends
    asked = _next_program()
    _prepare(asked)
    _run(asked["words"])
