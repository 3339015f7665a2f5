"""Compile every CUDA kernel for every generation of GPUs, without a GPU: `make cuda-check`.

NVRTC 11.8 compiles each operator's kernels, for every combination of dtypes, as mx.rtc does and for sm_60 to sm_90.
Where a ptxas on the PATH knows GPUs newer than that, it compiles for them what mx.rtc hands to the driver, as the
driver will. A warning or a spilled register is a failure.
"""
import argparse
import collections
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

import gluonops as gops
from gluonops.core import nvrtc

DEFAULT = "as mx.rtc"
NEWER = ("sm_100", "sm_120")   # than NVRTC 11.8: one of each generation

# ``kernels`` are nvrtc.Usages, ``problem`` is empty where all is well.
Result = collections.namedtuple("Result", "op architecture kernels problem")


def with_nvrtc(compiler, name, architecture=None):
    """(Result, Program) of an operator's kernels."""
    program = nvrtc.compile_op(compiler, name, architecture)
    return Result(name, architecture or DEFAULT, program.kernels, program.messages or spills(program.kernels)), program


def with_ptxas(ptxas, name, program, architecture):
    """The Result of compiling a Program's PTX for a GPU that NVRTC does not know."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as source:
        source.write(program.ptx)
        source.flush()
        done = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", os.devnull, source.name],
                              capture_output=True, encoding="utf-8")
    log = done.stdout + done.stderr
    kernels = nvrtc.usages(log, program.names)
    return Result(name, architecture, kernels, nvrtc.remarks(log) or spills(kernels))


def spills(kernels):
    """What to say of kernels that run out of registers."""
    return "\n".join(f"{usage.kernel} spills {usage.spilled} bytes" for usage in kernels if usage.spilled)


def newer(ptxas):
    """Which of NEWER a ptxas knows; it may be None."""
    if not ptxas:
        return []
    known = subprocess.run([ptxas, "--help"], capture_output=True, encoding="utf-8").stdout
    return [architecture for architecture in NEWER if f"'{architecture}'" in known]


def check(names, ptxas=None):
    """The Results for these operators: as mx.rtc compiles them, for nvrtc.ARCHITECTURES, and for what ptxas adds."""
    compiler = nvrtc.Compiler()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        default = dict(zip(names, pool.map(lambda name: with_nvrtc(compiler, name), names)))
        jobs = [pool.submit(lambda *job: with_nvrtc(compiler, *job)[0], name, architecture)
                for name in names for architecture in nvrtc.ARCHITECTURES]
        jobs += [pool.submit(with_ptxas, ptxas, name, default[name][1], architecture)
                 for name in names if default[name][1].compiled for architecture in newer(ptxas)]
        return [result for result, _ in default.values()] + [job.result() for job in jobs]


def table(results, every):
    """Lines: registers per thread on each GPU, and the most shared memory, stack and spills over all of them.

    A kernel is a line, with the most over its dtypes; with ``every`` each instance of its template is one.
    """
    architectures = list(dict.fromkeys(result.architecture for result in results if result.kernels))
    rows = collections.defaultdict(lambda: collections.defaultdict(int))
    for result in results:
        for usage in result.kernels:
            row = rows[usage.kernel if every else usage.kernel.split("<")[0]]
            row[result.architecture] = max(row[result.architecture], usage.registers)
            for key in ("shared", "stack", "spilled"):
                row[key] = max(row[key], getattr(usage, key))
    heads = [*architectures, "shared", "stack", "spilled"]
    width = max(map(len, rows), default=0)
    yield f"{'registers':{width}} " + " ".join(f"{head:>7}" for head in heads)
    for kernel, row in rows.items():
        yield f"{kernel:{width}} " + " ".join(f"{row[head]:>7}" for head in heads)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=gops.ops.list(), help="only this operator; may be repeated")
    parser.add_argument("--dtypes", action="store_true", help="a line for every combination of dtypes")
    args = parser.parse_args(argv)
    ptxas = shutil.which("ptxas")
    results = check(args.op or gops.ops.list(), ptxas)
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
