"""Check gluonops for aarch64 on another machine, without an Arm processor: `make arm-check`.

It makes a Debian for arm64 under `.venv-arm`, with Python, MXNet's wheel for aarch64 as `gluonops install-mxnet`
changes it, and the C++ library from a cross compiler. There it runs tests/emulated/on_processor.py in qemu, as on
processors with and without SVE. It takes about ten minutes and 2 GB of disk. It needs a Debian or Ubuntu, and root to
install the cross compiler, qemu and debootstrap where they are missing.
"""
from __future__ import annotations

import argparse
import pathlib
import shutil
import sys

from debian import debootstrap, install_tools, run

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"
PACKAGES = {COMPILER: "g++-aarch64-linux-gnu", EMULATOR: "qemu-user-static", "debootstrap": "debootstrap"}
CHECKS = (ROOT / "tests" / "emulated" / "on_processor.py", "linear-algebra", "operators", "training")
SUITE, PYTHON = "bookworm", "3.11"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
# The names are qemu's. The first processor has no SVE, like Graviton 2, and the second one has SVE of 128 bits, like
# Graviton 4.
PROCESSORS = ("neoverse-n1", "max,sme=off,sve256=off,sve512=off")
LIMIT = 900   # seconds that the checks of one processor may take


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=pathlib.Path, default=ROOT / ".venv-arm", help="where all of it is kept")
    home = parser.parse_args().home.resolve()
    install_tools(PACKAGES)
    system = make_system(home)
    site = install_packages(home)
    copy_package(site)
    run([sys.executable, ROOT / "gluonops" / "native" / "build.py", "--mxnet", site / "mxnet",
         "--output", site / "gluonops" / "native" / "libgluonops.so"], CXX=COMPILER)
    for processor in PROCESSORS:
        print(f"{processor}:", flush=True)
        run([EMULATOR, "-L", system, system / "usr" / "bin" / f"python{PYTHON}", *CHECKS],
            timeout=LIMIT, QEMU_CPU=processor, PYTHONPATH=site, OMP_NUM_THREADS=1, HOME=home)
    return 0


def make_system(home: pathlib.Path) -> pathlib.Path:
    """Make a Debian for arm64 with Python, and return its folder.

    Its packages are unpacked and not configured, because that needs no emulation.
    """
    system = home / SUITE
    if not (system / "usr" / "bin" / f"python{PYTHON}").exists():
        shutil.rmtree(system, ignore_errors=True)
        packages = home / "packages"
        shutil.rmtree(packages, ignore_errors=True)
        debootstrap(SUITE, packages, ("python3", "libgomp1", "libstdc++6", "libgfortran5"), "--arch=arm64", "--foreign")
        for package in sorted(packages.glob("var/cache/apt/archives/*.deb")):
            run(["dpkg", "-x", package, system])
        shutil.rmtree(packages)
    return system


def install_packages(home: pathlib.Path) -> pathlib.Path:
    """Install MXNet, and what it and the tests need, for aarch64, and return their folder."""
    wheels, site = home / "wheels", home / "site"
    if not (site / "mxnet").is_dir():
        run([sys.executable, ROOT / "gluonops" / "runtime" / "mxnet_wheel.py", "cpu", "--machine", "aarch64",
             "--output", wheels])
        run([sys.executable, "-m", "pip", "install", "--quiet", "--target", site, "--python-version", PYTHON,
             "--only-binary", ":all:", *[f"--platform={platform}" for platform in PLATFORMS], "--find-links", wheels,
             "mxnet==1.9.1", "numpy>=2", "pytest", "hypothesis"])
    return site


def copy_package(site: pathlib.Path) -> None:
    """Put gluonops into the folder, as an installation does."""
    package = site / "gluonops"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "generated", "__pycache__")
    shutil.copytree(ROOT / "gluonops", package, ignore=ignored)
    shutil.copytree(ROOT / "models", package / "models", ignore=ignored)


if __name__ == "__main__":
    sys.exit(main())
