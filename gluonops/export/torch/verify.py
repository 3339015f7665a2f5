"""Compares the written net with MXNet in float64: outputs, gradients, and the parameters after some steps of SGD."""
from __future__ import annotations

import importlib.util
import pathlib
import types
from typing import Any

import numpy as np

from ...core.errors import OpError
from ..model import ExportedModel
from ..shapes import Shapes
from .reference import DECAY, MOMENTUM, Reference, head, rounds

# The largest difference of outputs, gradients, and parameters after the steps, of the largest number of each. The
# second values are for nets with an operator that MXNet computes in float32 whatever its data are.
OUTPUTS, GRADIENTS, TRAINED = "outputs", "gradients", "trained"
EXACT = {OUTPUTS: 1e-12, GRADIENTS: 1e-11, TRAINED: 1e-9}
ROUNDED = {OUTPUTS: 1e-5, GRADIENTS: 1e-4, TRAINED: 1e-4}
LEAST_SCALE = 1e-3  # of the largest gradient of all: a bias in front of a batch norm has one of rounding errors only
STEPS = 20
NOISE = 0.1
FIRST_STEP = 1e-3    # how far the first step moves the weight with the largest gradient
SAMPLE = 64         # numbers of an output or a gradient that are recorded


def compare(model: ExportedModel, folder: pathlib.Path, keys: dict[str, str], shapes: Shapes) -> dict[str, Any]:
    """Compare the net in a folder with a model. Returns the inputs, and MXNet's outputs and gradients.

    - ``keys``: name in torch -> name in MXNet.
    - ``shapes``: of the inputs in training. In evaluation mode the model's own are compared as well.

    An OpError if a difference is too large.
    """
    import torch
    reference = Reference(model)
    tolerances = EXACT if rounds(model.graph) is None else ROUNDED
    inputs = _inputs(model, shapes)
    net = load(folder).load(torch.float64)
    _prepare(net)
    arrays = [torch.from_numpy(array).requires_grad_() for array in inputs.values()]
    results = {"inputs": inputs}
    for mode in ("evaluation", "training"):
        is_training = mode == "training"
        net.train(is_training)
        states = {key: value.clone() for key, value in net.state_dict().items()}
        expected, gradients = reference.run(inputs, is_training)
        try:
            outputs = _flat(net(*arrays))
        except Exception as error:   # the source is wrong, in whatever way
            raise _differs(f"net.py fails: {type(error).__name__}: {error}") from error
        _check_outputs(outputs, expected, mode, tolerances[OUTPUTS])
        net.zero_grad()
        _backward(outputs)
        found = {key: value.grad for key, value in net.named_parameters() if value.requires_grad}
        results[mode] = expected, {key: gradients[keys[key]] for key in found}
        _check_gradients(found, results[mode][1], mode, tolerances[GRADIENTS])
        _check_gradients({name: array.grad for name, array in zip(inputs, arrays) if name in gradients}, gradients,
                         mode, tolerances[GRADIENTS])
        for array in arrays:
            array.grad = None
        net.load_state_dict(states)
        reference.reset()
    if shapes != model.inputs:
        net.eval()
        others = _inputs(model, model.inputs)
        with torch.no_grad():
            outputs = _flat(net(*[torch.from_numpy(array) for array in others.values()]))
        _check_outputs(outputs, reference.outputs(others), "evaluation", tolerances[OUTPUTS])
    _check_training(net, arrays, reference, inputs, keys, _largest(results["training"][1]), tolerances[TRAINED])
    return results


def _prepare(net: Any) -> None:
    """Let dropout drop nothing, and batch norm use MXNet's momentum, which is a float32 even for float64."""
    for module in net.modules():
        if "Dropout" in type(module).__name__:
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):   # of a recurrent layer
            module.dropout = 0.0
        elif type(module).__name__.endswith("BatchNorm"):
            module.momentum = 1 - float(np.float32(round(1 - module.momentum, 12)))


def load(folder: pathlib.Path) -> types.ModuleType:
    """The module of net.py in a folder."""
    spec = importlib.util.spec_from_file_location("net", folder / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(model: ExportedModel, shapes: Shapes) -> dict[str, np.ndarray]:
    """Numbers of 8 bits for each input; indices where an embedding reads them; labels."""
    rng = np.random.RandomState(0)
    counts = {node.source().name: int(node.attrs["input_dim"]) for node in model.graph.nodes()
              if node.op == "Embedding"}
    arrays = {}
    for name, shape in shapes.items():
        if name in counts:
            arrays[name] = rng.randint(0, counts[name], shape).astype(np.float64)
        elif name.endswith("label"):
            arrays[name] = _labels(rng, shape)
        else:
            arrays[name] = rng.randint(-128, 128, shape) / 64
    return arrays


def _labels(rng: np.random.RandomState, shape: tuple[int, ...]) -> np.ndarray:
    """The classes 0 and 1, which every loss takes; behind the numbers of a box in rows of five."""
    labels = rng.randint(0, 2, shape).astype(np.float64)
    if len(shape) == 3 and shape[-1] == 5:
        labels[..., :4] = rng.randint(8, 40, labels[..., :4].shape) / 64
    return labels


def _backward(outputs: list) -> None:
    """Add the gradients of the outputs, but of those behind a BlockGrad."""
    import torch
    outputs = [value for value in outputs if value.requires_grad]
    torch.autograd.backward(outputs, [torch.from_numpy(head(value.shape)) for value in outputs])


def _flat(outputs: Any) -> list:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _check_outputs(outputs: list, expected: list[np.ndarray], mode: str, tolerance: float) -> None:
    for number, (ours, theirs) in enumerate(zip(outputs, expected)):
        if tuple(ours.shape) != theirs.shape:
            raise _differs(f"output {number} in {mode} mode has the shape {tuple(ours.shape)}; MXNet's has "
                           f"{theirs.shape}")
        _check(f"output {number} in {mode} mode", ours.detach().numpy(), theirs, tolerance, 0)


def _check_gradients(found: dict, expected: dict[str, np.ndarray], mode: str, tolerance: float) -> None:
    largest = _largest(expected)
    for key, gradient in found.items():
        ours = np.zeros_like(expected[key]) if gradient is None else gradient.numpy()
        _check(f"the gradient of {key} in {mode} mode", ours, expected[key], tolerance, LEAST_SCALE * largest)


def _largest(arrays: dict[str, np.ndarray]) -> float:
    """The largest magnitude in some arrays."""
    return max((np.abs(array).max(initial=0) for array in arrays.values()), default=0.0)


def _check_training(net: Any, arrays: list, reference: Reference, inputs: dict[str, np.ndarray],
                    keys: dict[str, str], largest: float, tolerance: float) -> None:
    """Compare all parameters and buffers after some steps of SGD. ``largest``: the largest number of a gradient.

    Those that are constant get noise first, or two of them could be taken for each other.
    """
    import torch
    net.train()
    parameters = {key: value for key, value in net.named_parameters() if value.requires_grad}
    _add_noise(net, reference, keys, parameters)
    if not parameters or largest == 0:
        return
    rate = FIRST_STEP / largest
    optimizer = torch.optim.SGD(parameters.values(), rate, MOMENTUM, weight_decay=DECAY)
    velocity = {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        outputs = _flat(net(*arrays))
        _backward(outputs)
        optimizer.step()
        reference.step(inputs, velocity, rate, {keys[key] for key in parameters})
    for key, value in net.state_dict().items():
        if key in keys:
            theirs = reference.values[keys[key]].asnumpy()
            if key in parameters or key.split(".")[-1].startswith("running_"):
                _check(f"{key} after {STEPS} steps of SGD", value.numpy(), theirs, tolerance, 0)


def _add_noise(net: Any, reference: Reference, keys: dict[str, str], parameters: dict) -> None:
    """Add noise to the constant parameters and states, those that are trained and running statistics."""
    import torch
    rng = np.random.RandomState(1)
    for key, value in net.state_dict().items():
        is_changed = key in parameters or key.split(".")[-1].startswith("running_")
        if is_changed and value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
            with torch.no_grad():
                value += torch.from_numpy(rng.uniform(0, NOISE, value.shape))
            reference.values[keys[key]][:] = value.numpy()


def _check(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float, least_scale: float) -> None:
    scale = max(np.abs(theirs).max(initial=0), least_scale)
    difference = np.abs(ours - theirs).max(initial=0)
    if not difference <= tolerance * scale:
        raise _differs(f"{what} differs from MXNet's by {difference:.3g}, where the largest number is {scale:.3g}; "
                       f"expected at most {tolerance:.0e} of it")


def _differs(what: str) -> OpError:
    return OpError("export.torch", what, "Report it with the net; nothing was written")


def record(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """What test_net.py compares with: the inputs, and a sample of MXNet's outputs and gradients."""
    arrays = {f"input.{number}": np.round(array * 64).astype(np.int16)
              for number, array in enumerate(results["inputs"].values())}
    for mode in ("evaluation", "training"):
        outputs, gradients = results[mode]
        arrays.update({f"{mode}.output.{number}": sample(array) for number, array in enumerate(outputs)})
        arrays.update({f"{mode}.gradient.{key}": sample(array) for key, array in gradients.items()})
    return arrays


def sample(array: np.ndarray) -> np.ndarray:
    """Some of the numbers of an array, evenly spaced."""
    flat = array.reshape(-1)
    return np.ascontiguousarray(flat[::max(1, flat.size // SAMPLE)][:SAMPLE])
