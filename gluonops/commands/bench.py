"""``gluonops bench``: the operators of this installation, timed on this machine beside MXNet's own."""
from __future__ import annotations

import argparse
import functools
import json
import pathlib

import mxnet as mx
import numpy as np

from .. import ops
from ..backends.backend import backend, current_backend, resolve
from ..bench import timing
from ..bench.cases import Case, draw, typical
from ..bench.peers import peers
from ..contract import registry
from ..contract.errors import OpError
from ..io import files
from ..io.progress import over

OURS = "gluonops"
PASSES = {"forward": "forward", "both": "forward and backward"}
TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-8}   # the largest relative difference of an element
SAMPLES = 15


def run(args: argparse.Namespace) -> None:
    """Measure the operators, and print and write the times. An OpError is raised if a result is wrong."""
    if args.output:
        files.check_writable("bench", args.output)
    names = [registry.get(name).op.name for name in args.op or ops.list()]
    context = mx.gpu() if mx.context.num_gpus() else mx.cpu()
    records = [measure(typical(name, args.shape), args.dtype, context, args.seconds)
               for name in over(names, "measuring", "operator")]
    report = json.dumps({"context": str(context), "dtype": args.dtype, "operators": records}, indent=2)
    if args.output:
        files.replace("bench", {args.output: lambda path: pathlib.Path(path).write_text(report + "\n", "utf-8")})
    if args.json:
        print(report)
    else:
        print("\n\n".join(text(record) for record in records))
    wrong = [record for record in records if record["wrong"]]
    if wrong:
        raise OpError("bench", "; ".join(f"{record['op']} is wrong here: {record['wrong']}" for record in wrong),
                      "Report it with what `gluonops doctor` prints")


def measure(case: Case, dtype: str, context: mx.Context, seconds: float) -> dict:
    """Time an operator and its peers, after comparing their results.

    ``seconds`` is the time limit for each peer and pass. The result can be written as JSON. It has ``op``, ``shape``
    and ``backend``. ``wrong`` is the error in our result, or None. ``differ`` says, for each peer, how its result
    differs, or why it cannot run. ``times`` has a row for each peer and pass, with the median in milliseconds, the
    quartiles, and the ratio of its median to ours.
    """
    inputs = _inputs(case, dtype, context)
    shape = inputs[0].shape
    ours = _first(getattr(ops, case.op), case.attrs)
    theirs = peers(case.op, shape, **case.attrs)
    others = {peer: functools.partial(function, mx.nd) for peer, function in theirs.items()}
    functions = {OURS: ours, "builtin": _in_builtin(ours), **others, "identity": lambda data, *_: mx.nd.identity(data)}

    runners, wrong = {}, {}
    for peer, function in functions.items():
        try:
            runners[peer] = timing.MXNet(function, inputs)
        except mx.MXNetError as error:   # SoftmaxOutput takes labels of the data's type only
            if peer in (OURS, "builtin"):
                raise
            wrong[peer] = str(error).strip().splitlines()[-1]
    wrong.update(_differences(runners, inputs, TOLERANCES[dtype]))

    copy = mx.nd.empty(shape, context, dtype)
    runners["copyto"] = timing.MXNet(lambda data, *_: data.copyto(copy), inputs)
    steps = [(peer, step) for peer, runner in runners.items() for step in (runner.forward, runner.train)]
    measured = timing.interleaved(steps[:-1], SAMPLES, seconds)   # copyto has no gradient
    times = {key: timing.summary(values) for key, values in measured.items() if key[1] in PASSES}
    timing.give_back()

    rows = [{"peer": peer, "pass": part, "ms": ms, "low": low, "high": high, "samples": count,
             "over_ours": ms / times[OURS, part][0]} for (peer, part), (ms, low, high, count) in times.items()]
    return {"op": case.op, "shape": list(shape), "backend": resolve(current_backend()), "wrong": wrong.pop(OURS, None),
            "differ": wrong, "times": rows}


def _inputs(case, dtype, context):
    """The inputs as NDArrays, of which the first has a gradient. Data are of type ``dtype``, and labels are float32."""
    contract = registry.get(case.op).op
    variables = contract.type_vars(contract.parse(case.attrs))
    arrays = [mx.nd.array(values, context, dtype if variables[arg.name] == "T" else "float32")
              for arg, values in zip(contract.inputs, draw(case, np.random.RandomState(0)))]
    arrays[0].attach_grad()
    return arrays


def _first(function, attrs):
    """The first output of our operator for NDArrays."""
    def called(*inputs):
        result = function(*inputs, **attrs)
        return result[0] if isinstance(result, (tuple, list)) else result
    return called


def _in_builtin(function):
    """A function that runs another one in the builtin backend."""
    def called(*inputs):
        with backend("builtin"):
            return function(*inputs)
    return called


def _differences(runners, inputs, tolerance):
    """For each peer, how its result differs from that of the builtin backend in float32, or float64 for float64."""
    inputs = [array.astype("float32") if array.dtype == np.float16 else array for array in inputs]
    inputs[0].attach_grad()
    reference = timing.MXNet(runners["builtin"].function, inputs).results()
    differences = {}
    for peer, runner in runners.items():
        if peer == "identity":
            continue
        for got, expected, what in zip(runner.results(), reference, ("output", "gradient")):
            difference = timing.differs(got.astype(expected.dtype), expected, tolerance, what)
            if difference:
                differences[peer] = difference
                break
    return differences


def text(record: dict) -> str:
    """A table of one operator: the times of each peer, and their ratio to ours."""
    lines = [f"{record['op']} ({', '.join(map(str, record['shape']))}), gluonops by its {record['backend']} backend",
             f"  {'':16}" + "".join(f"{title:>26}" for title in PASSES.values())]
    rows = {(row["peer"], row["pass"]): row for row in record["times"]}
    for peer in dict.fromkeys([*(peer for peer, _ in rows), *record["differ"]]):
        cells = [_cell(rows.get((peer, part)), peer) for part in PASSES]
        note = f"   differs: {record['differ'][peer]}" if peer in record["differ"] else ""
        lines.append(f"  {peer:16}" + "".join(f"{cell:>26}" for cell in cells) + note)
    return "\n".join(line.rstrip() for line in lines)


def _cell(row, peer):
    if row is None:
        return ""
    time = f"{row['ms']:.3f} ms"
    return f"{time}         " if peer == OURS else f"{time} {row['over_ours']:6.2f} x"
