"""Runs the cases of ``benchmarks.gpu`` with our operators in MXNet."""
import gluonops as gops
import mxnet as mx
import numpy as np
from benchmarks.gpu.runners import Runner
from benchmarks.harness.cases import declared
from gluonops.backends import custom
from gluonops.contract import registry
from gluonops.cuda import rtc


class MXNet(Runner):
    """``gops.ops.<op>`` under autograd on a device, in the custom backend.

    It needs none of MXNet's own CUDA operators, which a new GPU lacks: every array is made on the CPU and copied, the
    gradients' as well, and every head gradient is given.
    """

    def __init__(self, device):
        self.device = device

    def to_gpu(self, array):
        return mx.nd.array(array, dtype=array.dtype).as_in_context(self.device)

    def to_cpu(self, array):
        return array.asnumpy()

    def run(self, outputs):
        """Compute as a user would. MXNet gives the outputs' memory, so only gradients can be added to.

        A user does not see hidden outputs: they are computed by a call of the CustomOp by hand.
        """
        case, entry = self.case, registry.get(self.case["op"])
        op = entry.op
        inputs = [self.arrays[arg.name] for arg in op.inputs]
        gradients = case["passes"].get("backward", {"written": []})["written"]
        attrs = {**case["attrs"], **declared(case["op"]).ALL_OUTPUTS}
        if gradients:
            mx.autograd.mark_variables([self.arrays[name.replace("_grad", "")] for name in gradients],
                                       [self.arrays[name] for name in gradients], case["request"])
        with gops.backend("custom"), mx.autograd.record():
            returned = getattr(gops.ops, case["op"])(*inputs, **attrs)
        returned = returned if isinstance(returned, tuple) else (returned,)
        if gradients:
            if "output_grad" not in self.arrays:   # an operator that ignores it; else MXNet would make one
                self.place("output_grad", np.ones(returned[0].shape, case["dtype"]))
            mx.autograd.backward([returned[0]], [self.arrays["output_grad"]])
        results = {out.name: array.asnumpy() for out, array in zip(op.outputs, returned)}
        results.update((name, self.arrays[name].asnumpy()) for name in gradients)
        hidden = [out.name for out in op.outputs if out.name not in results]
        if hidden:
            outputs = [self.arrays[out.name] for out in op.outputs]
            operator = custom.Operator(entry, rtc.BoundOp.of(op, op.parse(case["attrs"]), inputs))
            operator.forward(True, ["write"] * len(outputs), inputs, outputs, [])
            results.update((name, self.arrays[name].asnumpy()) for name in hidden)
        return results, {name: self.before[name] for name in gradients if name in self.before}

    def release(self):
        self.arrays = self.whole = None
        mx.nd.waitall()
