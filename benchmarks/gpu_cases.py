"""What benchmarks/gpu.py launches: cases, the bytes that they have to move, and a plan that needs no MXNet to be run.

A plan is plain data (it goes into JSON): the PTX that ``mx.rtc`` would hand to the driver, and for every case and pass
the kernel, its arguments in order, grid and block, all as ``gluonops/core/rtc.py`` has them.
"""
import dataclasses
import math

import gluonops as gops
import numpy as np
from gluonops.core import nvrtc, registry, rtc
from gluonops.core.contract import accumulator

PASSES = ("forward", "backward")


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator at one shape and dtype of its data."""
    op: str
    shape: tuple
    dtype: str = "float32"
    attrs: dict = dataclasses.field(default_factory=dict)

    @property
    def name(self):
        return " ".join([self.op, *(str(value) for value in self.attrs.values())])


def cases(quick=False):
    """Every case; the quick ones are small, with odd sizes, for looking at memory errors rather than speed."""
    modes = ("darknet", "DCR", "CRD")
    if quick:
        return [Case(op, shape, dtype, attrs) for dtype in ("float32", "float16", "float64") for op, shape, attrs in (
            *(("reorg", (3, 4, 6, 10), {"mode": mode}) for mode in modes),
            ("reorg", (1, 8, 4, 514), {"mode": "CRD"}), ("reorg", (2, 9, 9, 6), {"stride": 3, "mode": "DCR"}),
            ("abs", (7, 149), {}), ("tile", (7, 13), {"tiles": 3}), ("tile", (5, 3, 7), {"tiles": 2, "axis": 1}),
            *((op, shape, {}) for op in ("softmax", "softmax_cross_entropy", "softmax_output")
              for shape in ((37, 7), (5, 1031), (2, 20011))))]
    rows = ((8192, 1000), (65536, 1000), (1048576, 64), (8192, 32000), (256, 131072))
    return [
        *(Case("reorg", (size, 64, 64, 64), attrs={"mode": mode}) for size in (64, 256, 1024) for mode in modes),
        *(Case("abs", (size, 64, 64, 64)) for size in (64, 256, 1024)),
        *(Case("tile", (size, 64, 64, 64), attrs={"tiles": 2, "axis": axis}) for size in (64, 256) for axis in (1, -1)),
        *(Case(op, (512, 64, 64, 64), "float16", attrs) for op, attrs in (
            ("reorg", {"mode": "CRD"}), ("abs", {}), ("tile", {"tiles": 2, "axis": 1}))),
        *(Case(op, shape) for op in ("softmax", "softmax_cross_entropy") for shape in rows),
        *(Case(op, (8192, 32000), "float16") for op in ("softmax", "softmax_cross_entropy")),
        Case("softmax_output", (65536, 1000)),
    ]


def plan(chosen):
    """The plan of these cases; compiles their kernels.

    Raises
    ------
    OpError
        NVRTC is not installed, or a kernel does not compile.
    """
    compiler, programs, entries = nvrtc.Compiler(), {}, []
    for case in chosen:
        op = registry.get(case.op).op
        types = {variable: "float32" if variable == "L" else case.dtype for variable in op.types}
        key = f"{case.op} {' '.join(types.values())}"
        if key not in programs:
            programs[key] = _compile(compiler, op, types)
        entries.append({"op": case.op, "name": case.name, "attrs": case.attrs, "shape": list(case.shape),
                        "dtype": case.dtype, **_launches(op, case, types, programs[key]["names"])})
    return {"gluonops": gops.__version__, "cases": entries, "programs": {
        key: {"ptx": program["ptx"], "kernels": list(program["names"].values())} for key, program in programs.items()}}


def _compile(compiler, op, types):
    names = [rtc.export_name(op, direction, types) for direction in PASSES]
    program = compiler.compile(rtc.source(op), names, rtc.OPTIONS)
    if not program.compiled or program.messages:
        raise op.error(f"the kernels {', '.join(names)} do not compile: {program.messages}", "See `make cuda-check`")
    return {"ptx": program.ptx.decode(), "names": {name: lowered for lowered, name in program.names.items()}}


def _launches(op, case, types, lowered):
    """``arrays`` (name -> shape and dtype) and ``passes`` (what to launch, and the bytes that it has to move)."""
    attrs = op.parse(case.attrs)
    shapes = op.infer_shape(attrs, {"data": case.shape})
    kinds, whole = op.kinds(attrs), {**types, "A": accumulator(case.dtype)}
    arrays = {t.name: (shapes[t.name], whole[kinds[t.name]]) for t in op.tensors}
    if op.reads_head_gradient:
        arrays["output_grad"] = arrays["output"]
    scalars = op.cuda.scalars(attrs, shapes)
    passes = {}
    for direction in PASSES:
        reads, writes, requests = rtc.read(op, direction), [], []
        for tensor in rtc.written(op, direction):
            name = tensor.name if direction == "forward" else f"{tensor.name}_grad"
            wanted = direction == "forward" or tensor.has_gradient(attrs)
            arrays[name] = arrays[tensor.name] if wanted else ((1,), arrays[tensor.name][1])
            writes.append(name)
            requests.append(rtc.REQUESTS["write" if wanted else "null"])
        steps = rtc.in_parts(op, direction)   # of two, no case needs the first
        scratch = ["partial"] * steps
        if steps:
            arrays["partial"] = ((rtc.PARTIALS,), "float64")
        grid, block = rtc.geometry(*getattr(op.cuda, direction)(attrs, shapes))
        written = [name for name, request in zip(writes, requests) if request]
        passes[direction] = {
            "kernel": lowered[rtc.export_name(op, direction, types)], "grid": grid, "block": block, "written": written,
            "bytes": sum(math.prod(arrays[name][0]) * np.dtype(arrays[name][1]).itemsize for name in reads + written),
            "arguments": [*(("array", name) for name in reads + writes + scratch),
                          *(("int32", value) for value in requests), *[("int64", 1)] * steps,
                          *(("float64" if isinstance(v, float) else "int64", v) for v in scalars.values())]}
    return {"arrays": {name: [list(shape), dtype] for name, (shape, dtype) in arrays.items()}, "passes": passes}
