"""Compile every CUDA kernel for every generation of GPUs, without a GPU: `make cuda-check`.

NVRTC 11.8 compiles each operator's kernels, for every combination of dtypes, as mx.rtc does and for sm_60 to sm_90.
If a ptxas on the PATH knows newer GPUs, it compiles for them the PTX that mx.rtc passes to the driver, as the driver
does. A warning is a failure, and so are more than MOST_SPILLED bytes of spilled registers.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator

from gluonops.cuda import nvrtc, rtc

DEFAULT = "as mx.rtc"
NEWER = ("sm_100", "sm_120")   # NVRTC 11.8 is older. Each generation has one.
MOST_SPILLED = 64   # bytes. On an H100 a block less on a multiprocessor cost more: rms_norm, center_loss, ohem

# ``kernels`` are nvrtc.Usages, ``problem`` is empty where all is well.
Result = collections.namedtuple("Result", "op architecture kernels problem")


def with_nvrtc(name: str, architecture: str | None, every: bool) -> tuple[Result, nvrtc.Program]:
    """Return the Result and the Program of an operator's kernels."""
    program = nvrtc.compile_op(nvrtc.Compiler(), name, architecture, every)
    return Result(name, architecture or DEFAULT, program.kernels, program.messages or spills(program.kernels)), program


def with_ptxas(ptxas: str, name: str, program: nvrtc.Program, architecture: str) -> Result:
    """Return the Result of compiling a Program's PTX for a GPU that NVRTC does not know."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as source:
        source.write(program.ptx)
        source.flush()
        done = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", os.devnull, source.name],
                              capture_output=True, encoding="utf-8")
    log = done.stdout + done.stderr
    kernels = nvrtc.usages(log, program.names)
    return Result(name, architecture, kernels, nvrtc.remarks(log) or spills(kernels))


def spills(kernels: Iterable[nvrtc.Usage]) -> str:
    """Return a line for each kernel that spills too many registers."""
    too_many = [usage for usage in kernels if usage.spilled > MOST_SPILLED]
    return "\n".join(f"{usage.kernel} spills {usage.spilled} bytes" for usage in too_many)


def newer(ptxas: str | None) -> list[str]:
    """Return the architectures of NEWER that ptxas knows, or none without ptxas."""
    if not ptxas:
        return []
    help_text = subprocess.run([ptxas, "--help"], capture_output=True, encoding="utf-8").stdout
    return [architecture for architecture in NEWER if f"'{architecture}'" in help_text]


def compile_one(name: str, architecture: str | None, every: bool, ptxas: str | None) -> list[Result]:
    """Return the Results of an operator for an architecture.

    None stands for the target of mx.rtc, whose PTX is compiled by ptxas as well.
    """
    result, program = with_nvrtc(name, architecture, every)
    if architecture or not program.compiled:
        return [result]
    return [result, *(with_ptxas(ptxas, name, program, newer_one) for newer_one in newer(ptxas))]


def check(names: list[str], ptxas: str | None = None, every: bool = True, jobs: int = 1) -> list[Result]:
    """Return the Results of operators, compiled as mx.rtc does, for nvrtc.ARCHITECTURES, and for newer GPUs by ptxas.

    With ``every`` all combinations of dtypes are compiled, otherwise those of ``nvrtc.exports``.
    """
    work = [(name, architecture, every, ptxas) for name in names for architecture in (None, *nvrtc.ARCHITECTURES)]
    if jobs == 1:
        return [result for job in work for result in compile_one(*job)]
    # NVRTC compiles for one thread at a time, so there are processes. MXNet does not survive a fork, so they are fresh.
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return [result for results in pool.map(compile_one, *zip(*work)) for result in results]


def table(results: list[Result], every: bool) -> Iterator[str]:
    """Yield the lines of a table of registers per thread on each GPU, and of shared memory, stack and spills.

    The last three are the maximum over all GPUs. Each kernel has a line with the maximum over its dtypes. With
    ``every``, each instance of its template has a line.
    """
    compiled = {result.architecture for result in results if result.kernels}
    architectures = [architecture for architecture in (*nvrtc.ARCHITECTURES, *NEWER) if architecture in compiled]
    rows = collections.defaultdict(lambda: collections.defaultdict(int))
    for result in results:
        for usage in result.kernels:
            row = rows[usage.kernel if every else usage.kernel.split("<")[0]]
            row[result.architecture] = max(row[result.architecture], usage.registers)
            for key in ("shared", "stack", "spilled"):
                row[key] = max(row[key], getattr(usage, key))
    heads = [*architectures, "shared", "stack", "spilled"]
    width = max(map(len, [*rows, "registers"]))
    yield f"{'registers':{width}} " + " ".join(f"{head:>7}" for head in heads)
    for kernel, row in rows.items():
        yield f"{kernel:{width}} " + " ".join(f"{row[head]:>7}" for head in heads)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=rtc.operators(), help="only this operator; may be repeated")
    parser.add_argument("--quick", action="store_true", help="every dtype of the data once, and once with dense "
                        "labels, in place of every combination with the labels' (`make test` compiles all of them, as "
                        "mx.rtc does)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilations at a time (one "
                        "per core)")
    parser.add_argument("--dtypes", action="store_true", help="a line for every combination of dtypes")
    args = parser.parse_args(argv)
    ptxas = shutil.which("ptxas")
    results = check(args.op or rtc.operators(), ptxas, not args.quick, args.jobs)
    print("\n".join(table(results, args.dtypes)))
    if not newer(ptxas):
        print(f"{' and '.join(NEWER)} left out: no ptxas on the PATH knows them")
    failures = [result for result in results if result.problem]
    for result in failures:
        print(f"\n{result.op} for {result.architecture}:\n{result.problem}", file=sys.stderr)
    print(f"{len(results)} compilations, {sum(len(result.kernels) for result in results)} kernels, "
          f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
