"""What tests of other people's files share: parameters for a symbol, and its outputs in MXNet."""
import json
import os
from unittest import mock

import mxnet as mx
import numpy as np

LEAST_VARIANCE = 0.1


def arrays_of(symbol, shapes, rng):
    """Random parameters and calibrated states for a symbol, and inputs of these shapes, by name.

    The states are the statistics of a training pass, so that no output of a deep net is beyond float32.
    """
    arguments, _, states = symbol.infer_shape(**shapes)
    arrays = {}
    for name, shape in zip(symbol.list_arguments(), arguments):
        if name in shapes:
            value = rng.normal(size=shape)
        elif name.endswith("gamma"):
            value = rng.uniform(0.5, 1.5, shape)
        elif len(shape) > 1:
            value = rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
            if "pred" in name:   # a head behind sums of many layers
                value *= 0.002
        else:
            value = rng.uniform(-0.3, 0.3, shape)
        arrays[name] = mx.nd.array(value)
    for name, shape in zip(symbol.list_auxiliary_states(), states):
        arrays[name] = mx.nd.zeros(shape) if name.endswith("mean") else mx.nd.ones(shape)
    for name in [name for name in shapes if name.endswith("label")]:
        arrays[name] = mx.nd.zeros(shapes[name])

    content = json.loads(symbol.tojson())
    for node in content["nodes"]:
        if node["op"] == "BatchNorm":   # takes the statistics as they are
            node["attrs"] = {**node.get("attrs", {}), "momentum": "0", "use_global_stats": "False"}
    executor = bound(mx.sym.load_json(json.dumps(content)), arrays)
    for output in executor.forward(is_train=True):
        output.wait_to_read()
    for name, value in executor.aux_dict.items():
        arrays[name] = mx.nd.maximum(value, LEAST_VARIANCE) if name.endswith("var") else value.copy()
    return arrays


def bound(symbol, arrays):
    return symbol.bind(mx.cpu(), {name: arrays[name] for name in symbol.list_arguments()}, grad_req="null",
                       aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()})


def outputs_of(symbol, arrays):
    """The outputs at inference, without MXNet's fusion of operators, which computes some nets wrongly."""
    with mock.patch.dict(os.environ, MXNET_SUBGRAPH_BACKEND="NONE"):
        executor = bound(symbol, arrays)
    return [output.asnumpy() for output in executor.forward(is_train=False)]


def save(prefix, text, arrays, states, inputs=()):
    """Write prefix-symbol.json and prefix-0000.params."""
    with open(f"{prefix}-symbol.json", "w", encoding="utf-8") as file:
        file.write(text)
    mx.nd.save(f"{prefix}-0000.params", {f"{'aux' if name in states else 'arg'}:{name}": value
                                         for name, value in arrays.items() if name not in inputs})


def in_module(prefix, arrays, inputs):
    """The outputs in Module, which may fuse operators."""
    symbol, arguments, states = mx.model.load_checkpoint(str(prefix), 0)
    names = [name for name in symbol.list_arguments() if name in inputs]
    module = mx.mod.Module(symbol, names, None, context=mx.cpu())
    module.bind([(name, arrays[name].shape) for name in names], for_training=False)
    module.set_params(arguments, states)
    module.forward(mx.io.DataBatch([arrays[name] for name in names]), is_train=False)
    return [output.asnumpy() for output in module.get_outputs()]


def in_gluon(prefix, arrays, inputs):
    """The outputs in a SymbolBlock."""
    symbol = mx.sym.load(f"{prefix}-symbol.json")
    names = [name for name in symbol.list_arguments() if name in inputs]
    block = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", names, f"{prefix}-0000.params")
    found = block(*[arrays[name] for name in names])
    return [output.asnumpy() for output in (found if isinstance(found, list) else [found])]


def close(found, expected, tolerance):
    """Every output, relative to its largest value."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= tolerance * max(np.abs(other).max(), 1e-3)
