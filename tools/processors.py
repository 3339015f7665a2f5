"""Run the core tests as on other processors, and the first steps on emulated ones: `make test-processors`.

MXNet's oneDNN, its OpenBLAS and our library each choose among the instruction sets of the processor. ``SETTINGS``
lowers all three, and varies threads and random numbers with them: each run of the tests is that of another machine.
The variables that lower them do not show an instruction that a processor lacks. For that, ``MODELS`` run in qemu, whose
package Debian calls qemu-user; root gets it where it is missing. All of it takes 20 minutes on two cores at most.
"""
from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

import python_matrix
from debian import tools_problem
from gluonops.runtime import processor

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))   # benchmarks/ is no installed package
from benchmarks.harness import machine, results  # noqa: E402

LIMIT = 1200   # seconds that everything may take
EMULATOR = {"qemu-x86_64": "qemu-user"}
CHECKS = ROOT / "tests" / "emulated" / "on_processor.py"
# The tests of what computes with instructions that are chosen, sums in an order that depends on them or on threads, or
# trains.
TESTS = ("tests/ops", "tests/loss", "tests/nn", "tests/native/test_native_kernels.py",
         "tests/native/test_native_inference.py", "tests/darknet/test_golden.py",
         "tests/darknet/test_losses.py", "tests/darknet/test_training.py", "tests/train/test_run.py",
         "tests/train/test_precision.py", "tests/export/test_symbol.py", "tests/export/test_quantize.py",
         "tests/export/quantization", "tests/deploy/test_ssd.py", "tests/test_region_detector.py")
FEW_TESTS = ("tests/ops/region_loss", "tests/ops/softmax_cross_entropy", "tests/ops/group_norm", "tests/ops/gelu",
             "tests/native/test_native_kernels.py", "tests/train/test_precision.py", "tests/export/test_quantize.py")
# CUDA's kernels run in an emulator that is compiled anew. The others compute no numbers, or those of other tests again.
UNCHANGED = ("cuda", "nvrtc", "refused", "inference", "empty_batch", "node_in_json", "builtin_graph", "offset_view",
             "test_module")
LEFT_OUT = ("-m", "not slow", "-k", " and ".join(f"not {word}" for word in UNCHANGED))
VARIABLES = {"library": "GLUONOPS_NATIVE_TARGET", "onednn": "DNNL_MAX_CPU_ISA", "blas": "OPENBLAS_CORETYPE",
             "threads": "OMP_NUM_THREADS", "seed": "GLUONOPS_TEST_SEED"}
NOT_HERE = "not run"


class Setting(NamedTuple):
    """The instruction sets that a processor would choose, the threads, and the seed of the tests' random numbers."""
    processor: str   # in words
    flag: str        # of gluonops.runtime.processor, without which this processor cannot run as that one
    library: str
    onednn: str
    blas: str
    threads: int
    seed: int

    def environment(self) -> dict[str, str]:
        return {variable: str(getattr(self, name)) for name, variable in VARIABLES.items()}


SETTINGS = (Setting("without AVX", "sse4_1", "base", "SSE41", "Nehalem", 1, 1),
            Setting("AVX", "avx", "base", "AVX", "Sandybridge", 4, 2),
            Setting("AVX2", "avx2", "avx2", "AVX2", "Haswell", 2, 3),
            Setting("AVX-512 without VNNI", "avx512bw", "avx512", "AVX512_CORE", "Haswell", 4, 4))


class Model(NamedTuple):
    """A processor that qemu knows, and what runs on it."""
    name: str
    library: str                # the instruction set that our library has to choose there
    checks: tuple[str, ...]     # of tests/emulated/on_processor.py
    numpy: str | None = None    # runs in the environment of `make test-matrix` with this NumPy and MXNet's own wheel


# MXNet's OpenBLAS, and so its linear algebra, needs AVX. The wheels of NumPy 2.5 need x86-64-v2, which begins with
# Nehalem. MXNet's own wheel beside NumPy 1 runs on the first 64-bit processors of AMD, of 2003.
FIRST = ("doctor", "first-operators", "training", "int8")
MODELS = (Model("Opteron_G1", "base", FIRST, "1.26"), Model("Nehalem", "base", FIRST),
          Model("Haswell", "avx2", ("linear-algebra", *FIRST)),
          Model("EPYC-Milan", "avx2", ("linear-algebra", *FIRST)))
QUICK_SETTINGS, QUICK_MODELS = SETTINGS[::2], MODELS[1:2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two settings, fewer tests, and one emulated processor")
    parser.add_argument("--only", action="append", metavar="PROCESSOR", help="this row alone; may be repeated")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS",
                        help="how long everything may take (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="put the rows there, for the page's tables")
    chosen, options = parser.parse_known_args()
    end = time.monotonic() + chosen.limit
    settings, models = (QUICK_SETTINGS, QUICK_MODELS) if chosen.quick else (SETTINGS, MODELS)
    tests = FEW_TESTS if chosen.quick else TESTS
    if chosen.only:
        settings, models = ([row for row in part if row[0] in chosen.only] for part in (settings, models))
    # The emulated processors come first. They need their time, and the tests get what is left.
    rows = {"emulated": [shown(emulated(model, end)) for model in models]}
    rows["settings"] = [shown(tested(setting, [*options, *tests], end)) for setting in settings]
    if chosen.json:
        write(chosen.json, rows)
    return any(row["result"].startswith("FAILED") for part in rows.values() for row in part)


def shown(row: dict) -> dict:
    """Print a row when it is there."""
    print("; ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return row


def tested(setting: Setting, arguments: list[str], end: float) -> dict:
    """Return the row of the tests under a setting."""
    row = {name: getattr(setting, name) for name in ("processor", *VARIABLES)}
    if setting.flag not in processor.instructions():
        return {**row, "result": f"{NOT_HERE}: this processor has no {setting.flag}"}
    start = time.monotonic()
    text = python_matrix.last_line(sys.executable, [*LEFT_OUT, *arguments], left(end), setting.environment())
    if text.startswith("FAILED"):
        print("To repeat it:", *(f"{name}={value}" for name, value in setting.environment().items()),
              "python -m pytest TEST", file=sys.stderr)
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|error)", text)}
    return {**row, "passed": counts.get("passed", 0), "failed": counts.get("failed", 0) + counts.get("error", 0),
            "seconds": round(time.monotonic() - start), "result": text}


def left(end: float) -> float:
    """Return the seconds that are left for everything."""
    return max(1.0, end - time.monotonic())


def emulated(model: Model, end: float) -> dict:
    """Return the row of the checks on an emulated processor."""
    start, row = time.monotonic(), {"processor": model.name, "library": model.library, "checks": list(model.checks)}
    problem = tools_problem(EMULATOR)
    python = None if problem else interpreter(model)
    if problem or python is None:
        return {**row, "result": f"FAILED: {problem or f'no Python for NumPy {model.numpy} is installed'}"}
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES.values()}
    command = [*EMULATOR, "-cpu", model.name, python, CHECKS, *model.checks]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=left(end),
                              env={**environment, "OMP_NUM_THREADS": "1"})
        problem = emulation_problem(model, done)
    except subprocess.TimeoutExpired:
        problem = "the checks did not end in time"
    return {**row, "numpy": version_of(python), "seconds": round(time.monotonic() - start),
            "result": f"FAILED: {problem}" if problem else "passed"}


def interpreter(model: Model) -> str | pathlib.Path | None:
    """Return the Python of a model, or None if none that the NumPy has wheels for is installed."""
    if model.numpy is None:
        return sys.executable
    installed = {python: python_matrix.installed(python) for python in reversed(python_matrix.NUMPYS[model.numpy])}
    return next((python_matrix.environment(path, python, model.numpy) for python, path in installed.items() if path),
                None)


def version_of(python: str | pathlib.Path) -> str:
    """Return the NumPy of an interpreter."""
    code = "import importlib.metadata; print(importlib.metadata.version('numpy'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def emulation_problem(model: Model, done: subprocess.CompletedProcess) -> str | None:
    """Return what went wrong on an emulated processor, after printing it, or None if all is well."""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "TCG doesn't support" not in line]
    chosen = re.search(r"instruction set (\w+)", done.stdout)
    if done.returncode == 0 and chosen and chosen[1] == model.library:
        return None
    print("\n".join(lines[-40:]), file=sys.stderr)
    if done.returncode == 0:
        return f"the library chose {chosen and chosen[1]}, not {model.library}; qemu has AVX from 7.2 on"
    last = re.findall(r"^([\w-]+) \.\.\.$", done.stdout, re.M)
    return f"{lines[-1]} (in {last[-1] if last else 'import'})"


def write(path: pathlib.Path, rows: dict[str, list[dict]]) -> None:
    """Put rows into a JSON file, in the place of the old ones of the same processors."""
    old = results.load(path) if path.exists() else {}
    order = {one[0]: place for place, one in enumerate((*SETTINGS, *MODELS))}
    merged = {}
    for part, new in rows.items():
        by_name = {row["processor"]: row for row in (*old.get(part, ()), *new)}
        merged[part] = sorted(by_name.values(), key=lambda row: order[row["processor"]])
    results.save(path, {"date": datetime.date.today().isoformat(), "command": "make test-processors",
                        "machine": machine.describe(), **merged})


if __name__ == "__main__":
    sys.exit(main())
