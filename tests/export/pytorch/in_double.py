"""A model in MXNet, in float64: what the written net is compared with."""
from __future__ import annotations

import mxnet as mx
import numpy as np
from double import FORMULAS, compute_in_double
from gluonops.export import passes
from gluonops.export.model import ExportedModel
from gluonops.export.operators import having
from gluonops.export.torch.reference import head_gradient

# Operators that return float32 unless an attribute says otherwise.
FLOATS = (*having("chooses_type"), "_zeros", "_ones")
MOMENTUM = float(np.float32(0.9))   # MXNet's SGD holds it so.


class Reference:
    """A model in MXNet, in float64 and without dropout."""

    def __init__(self, model: ExportedModel):
        self._labels, own = model.labels(), model.types()
        model = model.copy()
        compute_in_double(model.graph, {"erf"})   # That in our gelu has the right gradient.
        graph = passes.lower(model, "builtin").graph
        for node in graph.nodes():
            if node.is_variable:
                node.attrs = {}
            elif node.op in ("Dropout", "RNN"):
                node.attrs["p"] = "0"
            elif node.attrs.get("dtype", "float32" if node.op in FLOATS else "None") in own:
                node.attrs["dtype"] = "float64"
            elif node.op == "sort":   # MXNet's gradient does not know the default
                node.attrs.setdefault("axis", "-1")
            elif node.op in ("_contrib_SyncBatchNorm", "BatchNorm_v1"):   # They are batch norms in float32 only.
                node.op = "BatchNorm"
                node.attrs = {key: value for key, value in node.attrs.items() if key not in ("key", "ndev")}
        compute_in_double(graph, FORMULAS.keys() - {"erf"})
        symbol = graph.symbol()
        self._names = symbol.list_inputs()
        self._call = mx.nd.CachedOp(symbol)
        self.values = {name: mx.nd.array(value, dtype="float64") for name, value in model.parameters.items()}
        self._states = {name: self.values[name].asnumpy() for name in symbol.list_auxiliary_states()}
        self._trained = set(symbol.list_arguments()).intersection(self.values)

    def outputs(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in evaluation mode."""
        return [value.asnumpy() for value in self._outputs(_arrays(inputs))]

    def run(self, inputs: dict[str, np.ndarray],
            is_training: bool) -> tuple[list[np.ndarray], dict[str, mx.nd.NDArray]]:
        """The outputs, and the gradient of every parameter and input until the next run."""
        arrays = _arrays(inputs)
        # MXNet's losses have no gradient of labels.
        data = {name: array for name, array in arrays.items() if name not in self._labels}
        sources = {**data, **{name: self.values[name] for name in self._trained}}
        for array in sources.values():
            if array.grad is None:
                array.attach_grad()
        with mx.autograd.record(train_mode=is_training):
            outputs = self._outputs(arrays)
        # Whole numbers have no gradient, but MXNet gives a cast to them one.
        gradients = [mx.nd.array(head_gradient(value.shape) * (np.dtype(value.dtype).kind == "f"), dtype=value.dtype)
                     for value in outputs]
        mx.autograd.backward(outputs, gradients, train_mode=is_training)
        mx.nd.waitall()   # else MXNet and torch hold their memory at the same time
        return [value.asnumpy() for value in outputs], {name: array.grad for name, array in sources.items()}

    def train(self, inputs: dict[str, np.ndarray], steps: int, rate: float, decay: float,
              multipliers: dict[str, tuple[float, float]]) -> None:
        """Steps of MXNet's SGD. ``multipliers``: of the rate and the decay of each parameter that is trained."""
        optimizer = mx.optimizer.SGD(learning_rate=rate, momentum=MOMENTUM, wd=decay)
        optimizer.set_lr_mult({name: pair[0] for name, pair in multipliers.items()})
        optimizer.set_wd_mult({name: pair[1] for name, pair in multipliers.items()})
        update = mx.optimizer.get_updater(optimizer)
        for _ in range(steps):
            _, gradients = self.run(inputs, True)
            for name in multipliers:
                update(name, gradients[name], self.values[name])

    def forget_gradients(self) -> None:
        """Free their memory, as much as the parameters have."""
        self.values = {name: value.detach() for name, value in self.values.items()}

    def reset(self) -> None:
        """Give the states their first values again."""
        for name, array in self._states.items():
            self.values[name][:] = array

    def _outputs(self, arrays: dict[str, mx.nd.NDArray]) -> list[mx.nd.NDArray]:
        results = self._call(*[arrays[name] if name in arrays else self.values[name] for name in self._names])
        return results if isinstance(results, list) else [results]


def _arrays(inputs: dict[str, np.ndarray]) -> dict[str, mx.nd.NDArray]:
    return {name: mx.nd.array(array, dtype="float64") for name, array in inputs.items()}
