"""Plants a fault in a copy of the source, one after another, and runs the tests that have to find it: ``make mutants``.

Each row of :data:`MUTANTS` is one fault of a kind that has happened or could: a wrong sign in one backend, an element
left out behind the last whole vector, an addition that overwrites. Whoever makes the daily tests fewer runs this before
and after, and the same mutants are found::

    tests/mutants.py [--only WORD] [pytest's arguments]

It prints the test that finds each of them, and the exit status is 1 if a mutant is missed. A fault in C++ compiles the
kernels of its operator again, which takes half a minute; all others need a few seconds.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
COPIED = ("gluonops", "tests", "benchmarks", "models", "pyproject.toml", "Makefile", "tools")
COMPILED = (".cc", ".h", ".inl")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fault: what stands once in a file below ``gluonops``, what takes its place, and whose tests find it."""
    name: str
    file: str
    old: str
    new: str
    operator: str                 # its tests run, and its kernels are compiled again
    tests: tuple[str, ...] = ()   # more tests than the folder of the operator
    only: str = ""                # pytest's -k: the backend where the fault is


KERNELS = ("tests/cuda/test_cuda_kernels.py",)
MUTANTS = (
    # The reference and its gradient, in MXNet's own operators.
    Mutant("reference_slope", "ops/mish/reference.py", "(1 - nd.square(t))", "(1 - t)", "mish"),
    Mutant("reference_constant", "ops/gelu/reference.py", "/ math.sqrt(2 * math.pi)", "/ 2.50662", "gelu"),
    Mutant("reference_smoothing", "ops/softmax_cross_entropy/reference.py",
           "    uniform = smoothing / classes\n    target = onehot", "    uniform = smoothing\n    target = onehot",
           "softmax_cross_entropy"),
    Mutant("reference_of_pairs", "ops/group_norm/reference.py", "if groups[2] <= 2:", "if groups[2] <= 1:",
           "group_norm"),
    Mutant("reference_of_doubled_centres", "ops/center_loss/reference.py",
           "nd._internal._backward_gather_nd(sample_grads.astype(\"float64\"), label.expand_dims(0),",
           "nd._internal._scatter_nd(sample_grads.astype(\"float64\"), label.expand_dims(0),", "center_loss"),
    Mutant("reference_of_ignored_rows", "ops/softmax_cross_entropy/reference.py",
           'return {"data": without_ignored(nd, nd.broadcast_mul(probabilities - target, grad_out), ignored)}',
           'return {"data": nd.broadcast_mul(probabilities - target, grad_out)}', "softmax_cross_entropy"),
    # The builtin graph: its forward pass is also what MXNet differentiates.
    Mutant("builtin_overflow", "ops/softmax_cross_entropy/reference.py", "SUM_SCALE = 2.0 ** -10", "SUM_SCALE = 1.0",
           "softmax_cross_entropy", ("tests/ops/_softmax",)),
    Mutant("builtin_gradient", "ops/gelu/reference.py",
           "return value + (value - F.BlockGrad(value)) * (ERF_SLOPE - 1)", "return F.BlockGrad(value)", "gelu"),
    Mutant("builtin_of_many_copies", "ops/tile/reference.py", "copies = [part] * MOST + [data] * rest",
           "copies = [part] * MOST", "tile"),
    Mutant("builtin_float16", "ops/group_norm/reference.py",
           "root = F.sqrt(variance + attrs.eps)", "root = F.sqrt(F.sqrt(F.square(variance * 100)) / 100 + attrs.eps)",
           "group_norm"),
    # What the backends do for every operator.
    Mutant("add_that_overwrites", "backends/custom.py", "array[:] = array.astype(values[name].dtype) + values[name]",
           "array[:] = values[name]", "rms_norm"),
    Mutant("add_that_doubles", "backends/custom.py",
           "array if request in WRITES else mx.nd.empty(array.shape, array.context, array.dtype)", "array", "rms_norm"),
    Mutant("labels_keep_their_gradient", "backends/custom.py", "            array[:] = 0\n", "            pass\n",
           "softmax_cross_entropy"),
    Mutant("a_hidden_output_too_few", "backends/custom.py", "for name in op.backward}\n        if any",
           "for name in op.backward[1:]}\n        if any", "rms_norm"),
    # Contracts: the C++ and the CUDA record follow from them.
    Mutant("contract_of_smoothing", "ops/softmax_cross_entropy/contract.py", '"uniform": "smoothing / classes"',
           '"uniform": "smoothing / 2"', "softmax_cross_entropy", only="cuda"),
    # C++: vectors, ragged tails, dtypes.
    Mutant("native_rest_of_a_row", "native/simd/rows.h",
           "sums[1] += lane_numbers<T>() < Index(end - i) ? rest : zero;", "sums[1] += zero;", "softmax",
           only="native"),
    Mutant("native_rest_of_a_maximum", "native/simd/rows.h", "if (i < length)\n        max1",
           "if (i > length)\n        max1", "softmax", ("tests/native/test_native_kernels.py",),
           only="native or exponential"),
    Mutant("shared_slope", "ops/_activation/formulas.inl", "const V factor = x < 0 ? e : e * e;",
           "const V factor = e * e;", "mish", only="native"),
    Mutant("native_float64", "ops/_activation/activation.h", "2.93714640249290962e-04", "2.93714640249290962e-03",
           "gelu", only="native"),
    Mutant("native_last_cells", "ops/reorg/kernel.cc", "x = x + N > width ? width - N : x;",
           "if (x + N > width) break;", "reorg", only="native"),
    Mutant("native_stride", "ops/reorg/kernel.cc", "case 3: return move<SHRINK, 3>", "case 3: return move<SHRINK, 2>",
           "reorg", only="native"),
    Mutant("native_columns", "ops/_rms/rms.h", "sums[c] += reduce_sum(sum);", "sums[c] = reduce_sum(sum);",
           "rms_norm", only="native"),
    # CUDA: loops over packs and the elements behind them, additions, labels, addresses.
    Mutant("cuda_rest_of_packs", "cuda/prelude.cuh", "i = packed + first_item(); i < size;",
           "i = packed + first_item(); i < size - 1;", "mish", only="cuda"),
    Mutant("cuda_add", "cuda/prelude.cuh", "to[i] = T(request == ADD ? load(to, i) + value : value);",
           "to[i] = T(value);", "softmax", KERNELS, only="every_type and softmax"),
    Mutant("cuda_add_in_packs", "cuda/prelude.cuh",
           "    if (request == ADD)\n        pack = load_pack<T, COUNT>(to, i);",
           "    if (request == 7)\n        pack = load_pack<T, COUNT>(to, i);", "mish", KERNELS,
           only="every_type and mish"),
    Mutant("cuda_alignment", "cuda/prelude.cuh",
           "return reinterpret_cast<size_t>(address) % 16 == 0 && aligned(others...);", "return aligned(others...);",
           "mish", KERNELS, only="cuda or (every_type and mish)"),
    Mutant("cuda_whole_labels", "ops/_labels/labels.cuh", "    number = value;\n", "    number = 0;\n",
           "softmax_cross_entropy", only="cuda"),
    Mutant("cuda_ignored_labels", "ops/_labels/labels.cuh", "number == ignore_label.value)", "number == 0)",
           "softmax_cross_entropy", only="cuda"),
    Mutant("cuda_float16", "cuda/prelude.cuh", "template <> struct Accumulator<__half> { typedef float type; };",
           "template <> struct Accumulator<__half> { typedef __half type; };", "softmax", only="cuda"),
    Mutant("cuda_ranges_of_splits", "ops/_softmax/rows.cuh", "? minimum(split_length, length - position) : 0};",
           "? split_length : 0};", "softmax", KERNELS,
           only="cuda or (every_type and softmax)"),
)


def copied(folder: pathlib.Path) -> pathlib.Path:
    """Return a copy of the source in a folder."""
    copy = folder / "source"
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


def planted(mutant: Mutant, text: str) -> str:
    """Return the text of a file with the fault in it."""
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.file} has {mutant.old!r} {text.count(mutant.old)} times; expected "
                         "once. Correct the row in tests/mutants.py.")
    return text.replace(mutant.old, mutant.new)


def compiled(mutant: Mutant, copy: pathlib.Path) -> pathlib.Path | None:
    """Return a library with the operator's kernels, if the fault is one in C++."""
    if not mutant.file.endswith(COMPILED) or "native" not in mutant.only:
        return None
    library = copy / "mutant.so"
    code = ("import sys; sys.path.insert(0, 'gluonops/native'); import build; "
            f"build.build({str(library)!r}, operators=[{mutant.operator!r}])")
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, stderr=subprocess.DEVNULL)
    return library


def tried(mutant: Mutant, copy: pathlib.Path, options: list[str]) -> str:
    """Return the first test that finds a fault, which stands in the copy meanwhile, or nothing if none does."""
    path = copy / "gluonops" / mutant.file
    right = path.read_text(encoding="utf-8")
    path.write_text(planted(mutant, right), encoding="utf-8")
    try:
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        library = compiled(mutant, copy)
        if library:
            environment["GLUONOPS_LIBRARY"] = str(library)
        chosen = ["-m", "not slow", "-k", mutant.only] if mutant.only else ["-m", "not slow"]
        command = [sys.executable, "-m", "pytest", "-q", "-x", *chosen, *options, f"tests/ops/{mutant.operator}",
                   *mutant.tests]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    finally:
        path.write_text(right, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest ends with {done.returncode}:\n"
                         f"{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")


def main(arguments: list[str] | None = None) -> int:
    """Try every mutant, print which are found, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="the mutants whose names contain this word")
    options, others = parser.parse_known_args(arguments)
    missed = []
    with tempfile.TemporaryDirectory(prefix="gluonops-") as folder:
        copy = copied(pathlib.Path(folder))
        for mutant in MUTANTS:
            if options.only in mutant.name:
                finds = tried(mutant, copy, others)
                missed += [] if finds else [mutant.name]
                print(f"{'found' if finds else 'MISSED':7} {mutant.name} {finds.partition(' - ')[0]}", flush=True)
    print(f"{len(missed)} missed" + "".join(f": {', '.join(missed)}" for _ in missed[:1]))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
