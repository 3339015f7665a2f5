"""What is launched: a plan that needs neither MXNet nor a compiler to be run.

A plan is plain data (it goes into JSON): the PTX that ``mx.rtc`` would hand to the driver, and for every case and pass
the kernel, its arguments in order, grid and block, and the bytes that it has to move, all as ``gluonops/cuda/rtc.py``
has them.
"""
import math
from collections.abc import Iterable

import gluonops as gops
import numpy as np
from gluonops.contract import registry
from gluonops.contract.declarations import accumulator
from gluonops.cuda import cuda_source, nvrtc, record, rtc

from ..harness.cases import Case

PASSES = ("forward", "backward")


def make(chosen: Iterable[Case]) -> dict:
    """The plan of these cases; compiles their kernels.

    An OpError is raised if one does not compile, or without NVRTC.
    """
    compiler, programs, entries = nvrtc.Compiler(), {}, []
    for case in chosen:
        op = registry.get(case.op).op
        types = types_of(case)
        key = f"{case.op} {' '.join(types.values())}"
        if key not in programs:
            programs[key] = _compile(compiler, op, types)
        entries.append({"op": case.op, "name": case.name, "shape": list(case.shape), "dtype": case.dtype,
                        "request": case.request, "offset": case.offset,
                        **_launches(op, case, types, programs[key]["names"])})
    return {"gluonops": gops.__version__, "cases": entries, "programs": {
        key: {"ptx": program["ptx"], "kernels": list(program["names"].values())} for key, program in programs.items()}}


def types_of(case: Case) -> dict[str, str]:
    """The dtype of each type variable."""
    return {variable: case.label if variable == "L" else case.dtype for variable in registry.get(case.op).op.types}


def _compile(compiler, op, types):
    names = [rtc.export_name(op, direction, types) for direction in PASSES]
    program = compiler.compile(cuda_source.source(op), names, rtc.OPTIONS)
    if not program.compiled or program.messages:
        raise op.error(f"the kernels {', '.join(names)} do not compile: {program.messages}", "See `make cuda-check`")
    return {"ptx": program.ptx.decode(), "names": {name: lowered for lowered, name in program.names.items()}}


def _launches(op, case, types, lowered):
    """What a case consists of. Integers have no gradient.

    ``classes``: input of class indices -> how many there are. ``arrays``: name -> shape and dtype; of these ``tables``
    are tuples in Python, and ``zeros`` are 0 before the first launch (see ``contract.Array``).
    """
    attrs = op.parse(case.attrs)
    shapes = op.infer_shape(attrs, {op.inputs[0].name: case.shape, **case.more})
    variables = op.type_vars(attrs)
    dtypes = {**types, "A": accumulator(case.dtype)}
    arrays = {t.name: (shapes[t.name], dtypes[variables[t.name]]) for t in op.tensors}
    if op.reads_head_gradient:
        arrays["output_grad"] = arrays["output"]
    arguments = record.plan(op, "forward", attrs, shapes, case.dtype).arguments
    tables = {name: list(values) for name, values in arguments.items() if isinstance(values, tuple)}
    table_dtypes = record.table_dtypes(op, dtypes)
    arrays.update({name: ((len(values),), table_dtypes[name]) for name, values in tables.items()})
    passes, zeros = {}, []
    for direction in PASSES if case.dtype.startswith("float") else PASSES[:1]:
        kernel = lowered[rtc.export_name(op, direction, types)]
        passes[direction] = {"kernel": kernel, **_pass(op, case, direction, attrs, shapes, arrays)}
        zeros += [f"{direction}_{array.name}" for array in record.scratch(op, direction) if array.kept]
    return {
        "attrs": attrs._asdict(),
        "inputs": [arg.name for arg in op.inputs],
        "classes": op.index_sizes(attrs, shapes),
        "arrays": {name: [list(shape), dtype] for name, (shape, dtype) in arrays.items()},
        "tables": tables,
        "zeros": zeros,
        "passes": passes,
    }


def _pass(op, case, direction, attrs, shapes, arrays):
    """The launches of one pass; adds the arrays that it writes to ``arrays``."""
    reads, writes, requests = record.read(op, direction), [], []
    for tensor in record.written(op, direction):
        name = tensor.name if direction == "forward" else f"{tensor.name}_grad"
        wanted = direction == "forward" or tensor.has_gradient(attrs)
        arrays[name] = arrays[tensor.name] if wanted else ((1,), arrays[tensor.name][1])
        writes.append(name)
        requests.append(rtc.REQUESTS[case.request if wanted else "null"])

    planned = record.plan(op, direction, attrs, shapes, case.dtype)
    scratch = {f"{direction}_{name}": ((size,), "float64") for name, size in planned.scratch.items()}
    arrays.update(scratch)

    tensors = [("array", name) for name in [*reads, *writes, *scratch]]
    tensors += [("int32", request) for request in requests]
    arguments = [("array", name) if isinstance(value, tuple)
                 else ("float64" if isinstance(value, float) else "int64", value)
                 for name, value in planned.arguments.items()]
    launches = [[*tensors, *([("int64", step)] if op.cuda.steps else []), *arguments] for step in planned.steps]

    written = [name for name, request in zip(writes, requests) if request]
    moved = [arrays[name] for name in reads + written]
    grid, block = rtc.geometry(planned.launch)
    return {
        "grid": grid,
        "block": block,
        "scratch": list(scratch),
        "written": written,
        "bytes": sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in moved),
        "launches": launches,
    }
