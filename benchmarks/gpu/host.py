"""Time what the host does for a CustomOp node: MXNet's own share, and gluonops's.

    python -m benchmarks.gpu.host                      # on an NVIDIA GPU, through mx.rtc
    python -m benchmarks.gpu.host --device cpu         # without one: the C++ kernels instead of CUDA's

Tensors are small, so a GPU's own work does not count. Each operator runs in ``NODES`` nodes. They follow one another
where the output has the shape of the data. Beside it runs an operator that does nothing, with the same tensors: its
time is MXNet's share. ``body`` is a call of ``forward`` or ``backward`` by hand, with arrays that exist already. It
needs none of MXNet's own CUDA operators, which a new GPU lacks.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.core import custom, registry, rtc

NODES = 16
TARGET_US = 25   # of a node's forward or backward, beyond MXNet's share


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator on a small tensor."""
    op: str
    shape: tuple
    attrs: dict = dataclasses.field(default_factory=dict)


CASES = (
    Case("abs", (4, 8)),
    Case("softmax", (4, 8)),
    Case("tile", (4, 8), {"tiles": 2}),
    Case("reorg", (1, 4, 4, 4)),
    Case("softmax_output", (4, 8)),
    Case("softmax_cross_entropy", (4, 8)),
    Case("center_loss", (4, 8)),
    Case("region_loss", (1, 125, 2, 2)),
)
MORE = {"center_loss": {"centers": (3, 8)}, "region_loss": {"truth": (1, 4, 5)}}


class DoNothing(mx.operator.CustomOp):
    """Writes nothing; the engine and the callbacks are all that its time is spent on."""

    def forward(self, is_train, req, in_data, out_data, aux):
        pass

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        pass


def register_nothing(case: Case, shapes: dict) -> str:
    """Register an operator that does nothing, with the tensors of a case; returns its ``op_type``."""
    op = registry.get(case.op).op

    class Properties(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=op.reads_head_gradient)

        def list_arguments(self):
            return [arg.name for arg in op.inputs]

        def list_outputs(self):
            return [out.name for out in op.outputs]

        def infer_shape(self, in_shape):
            return in_shape, [shapes[out.name] for out in op.outputs], []

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return DoNothing()

        declare_backward_dependency = custom.Properties.declare_backward_dependency

    Properties.op = op
    name = f"nothing_like_{case.op}"
    mx.operator.register(name)(Properties)
    return name


class Nodes(mx.gluon.HybridBlock):
    """``NODES`` nodes of an operator: one behind another where ``chained``, else each on inputs of its own."""

    def __init__(self, op_type: str, attrs: dict, inputs: int, chained: bool):
        super().__init__()
        self.op_type, self.attrs, self.inputs, self.chained = op_type, attrs, inputs, chained

    def hybrid_forward(self, F, *arrays):
        if self.chained:
            result, = arrays
            for _ in range(NODES):
                result = F.Custom(result, op_type=self.op_type, **self.attrs)
            return result
        results = []
        for first in range(0, len(arrays), self.inputs):
            node = F.Custom(*arrays[first:first + self.inputs], op_type=self.op_type, **self.attrs)
            results.append(_first(node))
        return results


def _first(result: mx.nd.NDArray | mx.sym.Symbol | list) -> mx.nd.NDArray | mx.sym.Symbol:
    """The first output of a node."""
    if isinstance(result, mx.nd.NDArray):
        return result
    return result[0]


def microseconds(function: Callable, samples: int, calls: int = 10) -> float:
    """The median time of a call, until the engine has nothing left to do."""
    function()
    times = []
    for _ in range(samples):
        mx.nd.waitall()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        mx.nd.waitall()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e6


class Setting:
    """The arrays of a case on a device, made on the CPU and copied."""

    def __init__(self, case: Case, device: mx.Context):
        self.case, self.device = case, device
        self.op = registry.get(case.op).op
        self.attrs = self.op.parse(case.attrs)
        self.shapes = self.op.infer_shape(self.attrs, {"data": case.shape, **MORE.get(case.op, {})})
        self.chained = len(self.op.inputs) == 1 and self.shapes[self.op.outputs[0].name] == self.shapes["data"]

    def array(self, name: str) -> mx.nd.NDArray:
        is_data = name == "data"
        values = np.random.RandomState(0).uniform(-1, 1, self.shapes[name]) if is_data else np.zeros(self.shapes[name])
        return mx.nd.array(values, dtype="float32").as_in_context(self.device)

    def steps(self, op_type: str) -> dict[str, Callable]:
        """What is timed, by name."""
        count = 1 if self.chained else NODES
        block = Nodes(op_type, self.attributes(op_type), len(self.op.inputs), self.chained)
        static = Nodes(op_type, self.attributes(op_type), len(self.op.inputs), self.chained)
        static.hybridize(static_alloc=True, static_shape=True)
        arrays = [self.array(arg.name) for _ in range(count) for arg in self.op.inputs]
        datas = arrays[::len(self.op.inputs)]
        mx.autograd.mark_variables(datas, [self.array("data") for _ in datas])
        heads = [self.array(self.op.outputs[0].name) for _ in range(count)]

        def forward(net):
            return lambda: net(*arrays)

        def both(net):
            def run():
                with mx.autograd.record():
                    results = net(*arrays)
                mx.autograd.backward(results if isinstance(results, list) else [results], heads)
            return run

        return {"imperative forward": forward(block), "imperative both": both(block),
                "hybridized forward": forward(static), "hybridized both": both(static)}

    def attributes(self, op_type: str) -> dict:
        return dict(self.op.strings(self.attrs)) if op_type == self.op.graph_name else {}

    def bodies(self) -> dict[str, Callable]:
        """Calls of our operator's methods by hand."""
        op, entry = self.op, registry.get(self.case.op)
        inputs = [self.array(arg.name) for arg in op.inputs]
        operator = custom.Operator(entry, self.attrs, rtc.Node.of(inputs))   # as MXNet makes it
        outputs = [self.array(out.name) for out in op.outputs]
        gradients = [self.array(arg.name) for arg in op.inputs]
        requests = ["write" if arg.has_gradient(self.attrs) and not i else "null" for i, arg in enumerate(op.inputs)]
        return {"body forward": lambda: operator.forward(True, ["write"] * len(outputs), inputs, outputs, []),
                "body backward": lambda: operator.backward(requests, outputs, inputs, outputs, gradients, [])}


def measure(case: Case, device: mx.Context, samples: int) -> dict:
    """Microseconds per node: step -> [MXNet's share, with gluonops]; and per call of a body."""
    setting = Setting(case, device)
    nothing = setting.steps(register_nothing(case, setting.shapes))
    ours = setting.steps(setting.op.graph_name)
    found = {}
    for name in ours:
        found[name] = [microseconds(nothing[name], samples) / NODES, microseconds(ours[name], samples) / NODES]
    for name, function in setting.bodies().items():
        found[name] = [0.0, microseconds(function, samples, NODES)]
    return found


def lines(case: Case, found: dict) -> list[str]:
    """A case as text."""
    return [f"{case.op:<22} {name:<19} MXNet {theirs:7.1f} us  gluonops {ours - theirs:7.1f} us"
            for name, (theirs, ours) in found.items()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--op", action="append", help="only this operator; may be repeated")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results")
    args = parser.parse_args(arguments)
    if args.device == "gpu" and not mx.context.num_gpus():
        print("no GPU to run on; choose --device cpu", file=sys.stderr)
        return 3
    records = {}
    for case in CASES:
        if args.op and case.op not in args.op:
            continue
        records[case.op] = measure(case, mx.Context(args.device), args.samples)
        print("\n".join(lines(case, records[case.op])), flush=True)
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))
    return 0


if __name__ == "__main__":
    with gops.backend("custom"):
        sys.exit(main(sys.argv[1:]))
