"""Install '.[cu117]' as a user does and check it without a GPU: `make cuda-import-check`.

It makes a virtual environment (4.3 GB, deleted afterwards), installs this clone with MXNet's CUDA wheel and the CUDA
libraries from PyPI, and puts a stub in the driver's place. Then `import gluonops` has to work with no LD_LIBRARY_PATH
but the stub's, the doctor has to name the stub's GPU, and MXNet's own mx.rtc has to compile every kernel. It also
has to fail with a clear error without the driver, and without one of the libraries.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
STUB = ROOT / "tests" / "stubs" / "libcuda.c"

PROBE = """
import json, time
start = time.perf_counter()
import gluonops
seconds = time.perf_counter() - start
from gluonops.runtime import cuda_libraries
from gluonops.contract import registry
from gluonops.cuda import record, rtc
compiled = 0
for name in rtc.operators():
    op = registry.get(name).op
    for types in rtc.type_combinations(op):
        for direction in ("forward", "backward"):
            whole = {**types, "A": rtc.accumulator(types["T"])}
            rtc._kernel(name, direction, tuple(types.items()), record.signature(op, direction, whole))
            compiled += 1
print(json.dumps({"import_seconds": round(seconds, 2), "loaded": cuda_libraries.preload(), "kernels": compiled,
                  "all_seconds": round(time.perf_counter() - start, 1)}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR",
                        help="make the environment in DIR, or use the one that is there, and keep it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = (args.keep or pathlib.Path(folder) / "venv").resolve()
        python = home / "bin" / "python"
        if not python.exists():
            install(home, python)
        return check(python, pathlib.Path(folder))


def install(home: pathlib.Path, python: pathlib.Path) -> None:
    start = time.perf_counter()
    run([sys.executable, "-m", "venv", home])
    run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"{ROOT}[cu117]"])
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"installed {size / 1e9:.1f} GB in {time.perf_counter() - start:.0f} s")


def check(python: pathlib.Path, folder: pathlib.Path) -> int:
    """Print the findings. Return 1 if a check fails, and 0 otherwise."""
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, STUB])
    driver = {"LD_LIBRARY_PATH": str(folder), "STUB_GPUS": "9.0", "STUB_CUDA": "12040"}
    probe = json.loads(ask(python, folder, driver, "-c", PROBE).stdout)
    print(f"import gluonops: {probe['import_seconds']} s; CUDA libraries found in wheels: {len(probe['loaded'])}; "
          f"kernels compiled by mx.rtc: {probe['kernels']} in {probe['all_seconds']} s")
    command = python.with_name("gluonops")
    report = ask(python, folder, driver, command, "doctor").stdout
    print(report)
    without_driver = ask(python, folder, {}, command, "ops").stderr
    print(f"without a driver: {without_driver}")
    hidden = hide(python, "libcudnn.so.8")
    try:
        without_cudnn = ask(python, folder, driver, command, "ops").stderr
    finally:
        hidden.rename(hidden.with_suffix(""))
    print(f"without cuDNN: {without_cudnn}")
    wrong = [what for what, right in {
        "not every library was found in a wheel": len(probe["loaded"]) == 10,
        "mx.rtc compiled nothing": probe["kernels"] > 0,
        "the doctor does not name the driver": "550.54.15, CUDA up to 12.4" in report,
        "the doctor does not name the GPU": "0: Stub GPU 0, compute capability 9.0, 80.0 GiB: gluonops's kernels only"
                                            in report,
        "a missing driver is not named": "libcuda.so.1 comes with the NVIDIA driver" in without_driver,
        "a missing library is not named": "libcudnn.so.8" in without_cudnn and "'.[cu117]'" in without_cudnn,
    }.items() if not right]
    for text in wrong:
        print(f"FAILED: {text}", file=sys.stderr)
    return 1 if wrong else 0


def ask(python: pathlib.Path, folder: pathlib.Path, environment: dict[str, str],
        *arguments: str | pathlib.Path) -> subprocess.CompletedProcess:
    """Run Python with a minimal environment: PATH, HOME and ``environment``."""
    return subprocess.run([python, *arguments], cwd=folder, capture_output=True, encoding="utf-8", env={
        "PATH": os.environ["PATH"], "HOME": str(folder), **environment})


def hide(python: pathlib.Path, library: str) -> pathlib.Path:
    """Rename a library so that it is not found, and return its new path."""
    path, = python.parent.parent.glob(f"lib/python*/site-packages/nvidia/*/lib/{library}")
    return pathlib.Path(shutil.move(path, f"{path}.hidden"))


def run(command: list) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
