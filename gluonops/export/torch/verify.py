"""Compares the written net with MXNet in float64: outputs, gradients, and the parameters after some steps of SGD."""
from __future__ import annotations

import contextlib
import importlib.util
import math
import pathlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ...core import registry
from ...core.errors import OpError
from ...core.progress import over
from ...runtime import importing
from ...runtime.memory import available_memory
from ..graph import Entry, Graph, is_ours, our_name
from ..model import ExportedModel
from ..sizes import Shapes, Sizes
from ..warning import ExportWarning

if importing.is_imported():
    from .reference import MOMENTUM, Reference, head_gradient

# The largest difference of outputs, gradients, and parameters after the steps, of the largest number of each.
OUTPUTS, GRADIENTS, TRAINED = 1e-12, 1e-11, 1e-9
# Where a rounding of the inputs alone changes outputs by about the tolerance, as in a deep net in training mode whose
# batch norms have few numbers, outputs may differ by several times that change.
CHANGES, MOST_GROWTH = 3, 10
LEAST_SCALE = 1e-2  # A gradient's scale is at least this share of the largest gradient of all.
# Below this share of the largest gradient are rounding errors only, as for a bias in front of a batch norm, whose
# gradient is a sum of many numbers that is 0. Such a gradient is compared with 0, on the scale of the whole net.
ZERO = 1e-12
STEPS = 20          # the second one is the first with a momentum
NOISE = 0.1
# How far the largest gradient, and the decay of a weight of 1, move a weight in the first step. It is far enough: a
# step without one of them is 100 tolerances off. Larger steps leave the neighbourhood in which a net is smooth: its
# gradients then double the differences of rounding at every step, or the numbers grow beyond bounds.
FIRST_STEP = 1e-7
# A domain bounds the numbers of inputs, and says how many classes labels have. The later ones are for nets that have no
# number otherwise, such as a logarithm of the data, or a loss of one class.
DOMAINS = (-2.0, 2.0, 2), (0.0, 1.0, 2), (-2.0, 2.0, 1)
# What may make the numbers of an input another shape or type.
MOVING = ("Reshape", "Flatten", "expand_dims", "transpose", "SwapAxis", "Cast", "tile", "repeat", "broadcast_axis",
          "broadcast_like", "broadcast_to")
SAMPLE = 64         # numbers of an output or a gradient that are recorded


def compare(model: ExportedModel, folder: pathlib.Path, keys: dict[str, str], shapes: Shapes,
            multipliers: dict[str, tuple[float, float]]) -> dict[str, np.ndarray]:
    """Compare the net in a folder with a model. An OpError if a difference is too large.

    - ``keys``: name in torch -> name in MXNet.
    - ``shapes``: of the inputs in training. In evaluation mode the model's own are compared as well.
    - ``multipliers``: what MXNet multiplies the rate and the decay of each parameter by that it trains.

    Returns what test_net.py compares with: the inputs, and a sample of MXNet's outputs and gradients.
    """
    reference = Reference(model)
    with _explained():
        module = load(folder)
        net = module.load(torch.float64)
    _prepare(net)
    sizes = Sizes(model.graph, shapes, model.parameters, model.metadata["dtype"], False).shape
    domain = next((domain for domain in DOMAINS if not any(
        np.isnan(output).any() for output in reference.outputs(_inputs(model, shapes, domain)))), DOMAINS[0])
    if _lacks_memory(model, sizes):
        return _compare_outputs(net, reference, _inputs(model, model.inputs, domain))
    inputs, recorded = _inputs(model, shapes, domain), {}
    can_train = not _has_single_numbers(model.graph, sizes)
    modes = ("evaluation", "training") if can_train else ("evaluation",)
    try:
        for mode in modes:
            largest = _compare_gradients(net, reference, keys, inputs, mode, recorded)
    except OpError as error:
        _add_noise(net, reference, keys, multipliers)
        _explain_rounding(error, lambda: [_compare_gradients(net, reference, keys, inputs, mode, {}) for mode in modes])
        raise
    if shapes != model.inputs:
        _compare_outputs(net, reference, _inputs(model, model.inputs, domain))
    if multipliers and largest and can_train:
        rate, decay = (float(np.float32(value)) for value in (FIRST_STEP / largest, largest))
        _add_noise(net, reference, keys, multipliers)
        reference.train(inputs, STEPS, rate, decay, multipliers)
        reference.forget_gradients()
        _train(module, net.train(), inputs, rate, decay)
        _check_trained(net, reference, keys, multipliers, model.graph)
    return recorded


def _lacks_memory(model: ExportedModel, sizes: dict[Entry, tuple[int, ...]]) -> bool:
    """Whether gradients need more memory than there is, for which the system would end the process. Warns of it."""
    outputs = sum(math.prod(shape) for (node, _), shape in sizes.items() if not node.is_variable)
    parameters = sum(math.prod(array.shape) for array in model.parameters.values())
    needed, available = 8 * (2 * outputs + 8 * parameters), available_memory()   # copies; an estimate
    if needed > available:
        warnings.warn("only the outputs in evaluation mode were compared with MXNet: gradients need about "
                      f"{needed / 1e9:.0f} GB of memory; there are {available / 1e9:.0f}", ExportWarning, stacklevel=6)
    return needed > available


def _has_single_numbers(graph: Graph, sizes: dict[Entry, tuple[int, ...]]) -> bool:
    """Whether a batch norm gets one number per channel, which torch refuses in training mode. Warns of it."""
    for node in graph.nodes():
        if "BatchNorm" in node.op and not node.flag("use_global_stats"):
            shape = sizes[node.inputs[0]]
            if math.prod(shape) == shape[int(node.attrs.get("axis", 1))]:
                warnings.warn("only evaluation mode was compared with MXNet: in training mode torch refuses "
                              f"{node.name!r}, a batch norm of one number per channel", ExportWarning, stacklevel=6)
                return True
    return False


def _compare_outputs(net: Any, reference: Reference, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compare the outputs in evaluation mode. Returns what test_net.py compares with."""
    expected = reference.outputs(inputs)
    with torch.no_grad():
        outputs = _outputs(net.eval(), list(map(torch.from_numpy, inputs.values())))
    _check_outputs(outputs, expected, "evaluation")
    return _recorded(inputs, expected, "evaluation")


def _recorded(inputs: dict[str, np.ndarray], outputs: list[np.ndarray], mode: str) -> dict[str, np.ndarray]:
    return {**{f"input.{number}": array.astype(np.float32) for number, array in enumerate(inputs.values())},
            **{f"{mode}.output.{number}": sample(array) for number, array in enumerate(outputs)}}


def _compare_gradients(net: Any, reference: Reference, keys: dict[str, str], inputs: dict[str, np.ndarray],
                       mode: str, recorded: dict[str, np.ndarray]) -> float:
    """Compare outputs and gradients in a mode, and record them. Returns the largest gradient."""
    net.train(mode == "training")
    arrays = [torch.from_numpy(array).requires_grad_() for array in inputs.values()]
    with _restored(net, reference):
        expected, gradients = reference.run(inputs, mode == "training")
        outputs = _outputs(net, arrays)
        growth = _growth(net, arrays, outputs)
        _check_outputs(outputs, expected, mode, growth)
        _backward(outputs)
        found = {key: (value, gradients[keys[key]]) for key, value in net.named_parameters() if value.requires_grad}
        data = {name: (array, gradients[name]) for name, array in zip(inputs, arrays) if name in gradients}
        largest = _check_gradients({**found, **data}, mode, growth)
        recorded.update(_recorded(inputs, expected, mode))
        recorded.update({f"{mode}.gradient.{key}": sample(theirs.asnumpy()) for key, (_, theirs) in found.items()})
    return largest


@contextlib.contextmanager
def _restored(net: Any, reference: Reference) -> Iterator[None]:
    """Give both nets their states again, and torch's no gradients."""
    states = {key: value.clone() for key, value in net.named_buffers()}
    try:
        yield
    finally:
        net.zero_grad()
        for key, value in net.named_buffers():
            value.copy_(states[key])
        reference.reset()


def _explain_rounding(error: OpError, compare_again: Callable) -> None:
    """Say so if a net differs only while parameters are constant, as in one that is not trained.

    ``compare_again``: compares it with noise in these.
    """
    try:
        compare_again()
    except OpError:
        return
    raise OpError(error.where, f"{error.what}. With noise in its constant parameters it does not: without, the net has "
                  "numbers that are 0 but for rounding, such as the mean behind a norm whose beta is 0",
                  "Train the net first, or initialize its betas and biases with random numbers") from error


def check_shapes(folder: pathlib.Path, inputs: Shapes, outputs: list[tuple[int, ...]]) -> None:
    """Run the net in a folder, in a process without MXNet. An OpError if its outputs have other shapes."""
    with torch.no_grad(), _explained():
        found = _outputs(load(folder).load().eval(), [torch.zeros(shape) for shape in inputs.values()])
    shapes = [tuple(output.shape) for output in found]
    if shapes != outputs:
        raise _differs(f"the outputs have the shapes {shapes}; expected {outputs}")


def _prepare(net: Any) -> None:
    """Let dropout drop nothing, and batch norm use MXNet's momentum, which is a float32 even for float64."""
    for module in net.modules():
        for name in {"p", "dropout"}.intersection(vars(module)):   # a dropout, or a recurrent layer
            setattr(module, name, 0.0)
        if type(module).__name__.endswith("BatchNorm"):
            module.momentum = 1 - float(np.float32(round(1 - module.momentum, 12)))


def load(folder: pathlib.Path) -> types.ModuleType:
    """The module of net.py in a folder."""
    spec = importlib.util.spec_from_file_location("net", folder / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(model: ExportedModel, shapes: Shapes, domain: tuple[float, float, int]) -> dict[str, np.ndarray]:
    """Numbers of 32 bits within bounds for each input; indices and regions of interest where they are read; labels."""
    *bounds, classes = domain
    rng, drawn = np.random.RandomState(0), _draws(model, shapes, classes)
    return {name: drawn.get(name, _numbers(*bounds))(rng, shape)
            for name, shape in shapes.items()}


def _draws(model: ExportedModel, shapes: Shapes, classes: int) -> dict[str, Callable]:
    """What draws the inputs that do not take any number.

    MXNet reads beyond its data for other indices, and for other lengths of sequences.
    """
    sizes = Sizes(model.graph, shapes, model.parameters, model.metadata["dtype"], False).shape
    draws = dict.fromkeys(model.labels(), _labels(classes))
    for node in model.graph.nodes():
        if node.op == "Embedding":
            draws[_origin(node.inputs[0])] = _integers(0, int(node.attrs["input_dim"]))
        elif node.op == "gather_nd":
            indexed = sizes[node.inputs[0]][:sizes[node.inputs[1]][0]]
            draws[_origin(node.inputs[1])] = _integers(0, min(indexed))
        elif (node.op.startswith("Sequence") or node.op == "softmax") and len(node.inputs) > 1:
            longest = sizes[node.inputs[0]][int(node.attrs.get("axis", -1 if node.op == "softmax" else 0))]
            draws[_origin(node.inputs[1])] = _integers(1, 1 + longest)
        elif node.op == "_contrib_ROIAlign":
            draws[_origin(node.inputs[1])] = _regions(sizes[node.inputs[0]][0])
        elif is_ours(node):
            for entry, argument in zip(node.inputs, registry.get(our_name(node)).op.inputs):
                if argument.name in ("label", "truth") and argument.values is not None:
                    draws[_origin(entry)] = _labels(classes)
    return draws


def _origin(entry: Entry) -> str:
    """The name of the node that makes the numbers of an entry, which may have another shape there."""
    node, _ = entry
    while node.op in MOVING:
        node = node.source()
    return node.name


def _numbers(lowest: float, highest: float) -> Callable:
    return lambda rng, shape: rng.uniform(lowest, highest, shape).astype(np.float32).astype(np.float64)


def _integers(first: int, end: int) -> Callable:
    return lambda rng, shape: rng.randint(first, end, shape).astype(np.float64)


def _regions(images: int) -> Callable:
    """Rows of an image's number and two corners."""
    def draw(rng: np.random.RandomState, shape: tuple[int, ...]) -> np.ndarray:
        corner, side = (rng.randint(8, 512, (*shape[:-1], 2)) / 64 for _ in range(2))
        return np.concatenate([rng.randint(0, images, (*shape[:-1], 1)), corner, corner + side], axis=-1)
    return draw


def _labels(classes: int) -> Callable:
    """The first classes; behind the numbers of a box in rows of five."""
    def draw(rng: np.random.RandomState, shape: tuple[int, ...]) -> np.ndarray:
        labels = _integers(0, classes)(rng, shape)
        if len(shape) == 3 and shape[-1] == 5:
            labels[..., :4] = rng.randint(8, 40, labels[..., :4].shape) / 64
        return labels
    return draw


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Make an OpError of what net.py raises."""
    try:
        yield
    except OpError:
        raise
    except Exception as error:   # the source is wrong, in whatever way
        raise _differs(f"net.py fails: {type(error).__name__}: {error}") from error


def _outputs(net: Any, arrays: list) -> list:
    """The outputs of a net. An OpError if it fails."""
    with _explained():
        outputs = net(*arrays)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _backward(outputs: list) -> None:
    """Compute the gradients of what the outputs depend on: not of indices, nor of what is behind a BlockGrad."""
    outputs = [output for output in outputs if output.requires_grad]
    torch.autograd.backward(outputs, [torch.from_numpy(head_gradient(output.shape)) for output in outputs])


def _growth(net: Any, arrays: list, outputs: list) -> float:
    """What the tolerances of a net in which rounding errors grow are multiplied by; 1 for most nets.

    It is measured: each number of the inputs changes by a rounding. Whole ones stay, which may be indices or labels.
    """
    rng = np.random.RandomState(2)
    changed = []
    for array in arrays:
        numbers = array.detach().numpy()
        neighbours = np.nextafter(numbers, rng.choice([-np.inf, np.inf], numbers.shape))
        changed.append(torch.from_numpy(np.where(numbers == np.round(numbers), numbers, neighbours)))
    with torch.no_grad():
        others = _outputs(net, changed)
    changes = [_largest(_numbers_of(other) - _numbers_of(output)) / max(_largest(_numbers_of(output)), ZERO)
               for other, output in zip(others, outputs)]
    return min(max([1.0, *(CHANGES * change / OUTPUTS for change in changes)]), MOST_GROWTH)


def _numbers_of(tensor: Any) -> np.ndarray:
    """Float64 of an output, which may have whole numbers or booleans."""
    return tensor.detach().numpy().astype(np.float64)


def _check_outputs(outputs: list, expected: list[np.ndarray], mode: str, growth: float = 1.0) -> None:
    for number, (ours, theirs) in enumerate(zip(outputs, expected)):
        if tuple(ours.shape) != theirs.shape:
            raise _differs(f"output {number} in {mode} mode has the shape {tuple(ours.shape)}; MXNet's has "
                           f"{theirs.shape}")
        if not np.isfinite(theirs).all():
            raise OpError("export.torch", f"output {number} in {mode} mode has numbers that are not finite in MXNet, "
                          "and cannot be compared", "Run gluonops files check, which finds such parameters")
        _check(f"output {number} in {mode} mode", _numbers_of(ours), theirs, growth * OUTPUTS, _largest(theirs))


def _check_gradients(found: dict[str, tuple[Any, Any]], mode: str, growth: float) -> float:
    """Compare gradients: name -> torch's array that has one, and MXNet's. Returns the largest number of all."""
    scales = {name: _largest(theirs.asnumpy()) for name, (_, theirs) in found.items()}
    largest = max(scales.values(), default=0.0)
    for name, (array, theirs) in found.items():
        ours = np.zeros(array.shape) if array.grad is None else array.grad.numpy()
        scale = max(scales[name], LEAST_SCALE * largest) if scales[name] > ZERO * largest else largest
        _check(f"the gradient of {name} in {mode} mode", ours, theirs.asnumpy(), growth * GRADIENTS, scale)
    return largest


def _largest(array: np.ndarray) -> float:
    """The largest magnitude in an array."""
    return float(np.abs(array).max(initial=0))


def _train(module: types.ModuleType, net: Any, inputs: dict[str, np.ndarray], rate: float, decay: float) -> None:
    """Steps of torch's SGD, as a user of net.py makes them."""
    arrays = list(map(torch.from_numpy, inputs.values()))
    if hasattr(module, "parameter_groups"):
        groups = module.parameter_groups(net, rate, decay)
    else:
        groups = [{"params": [value for value in net.parameters() if value.requires_grad], "lr": rate,
                   "weight_decay": decay}]
    for group in groups:   # MXNet holds both as float32
        group.update({name: float(np.float32(group[name])) for name in ("lr", "weight_decay")})
    for value in net.parameters():   # torch leaves out what no output depends on; MXNet lets it decay
        value.grad = torch.zeros_like(value)
    optimizer = torch.optim.SGD(groups, momentum=MOMENTUM)
    for _ in over(range(STEPS), "training with torch", "step", leave=False):
        optimizer.zero_grad(set_to_none=False)
        _backward(_outputs(net, arrays))
        optimizer.step()


def _check_trained(net: Any, reference: Reference, keys: dict[str, str],
                   multipliers: dict[str, tuple[float, float]], graph: Graph) -> None:
    """Compare the running statistics, and all parameters that MXNet or torch has trained or could have trained.

    MXNet updates statistics in its backward pass. Those of a batch norm that is called several times may have had
    another order, of which the user is warned.
    """
    readers = {node.name: found for node, found in graph.readers().items()}
    reordered = []
    for key, value in net.state_dict(keep_vars=True).items():
        is_statistic = key.split(".")[-1].startswith("running_")
        if value.requires_grad or keys.get(key) in multipliers or is_statistic:
            theirs = reference.values[keys[key]].asnumpy()
            scale = max(_largest(theirs), FIRST_STEP)   # the gradient of a bias of 0 may be rounding
            try:
                _check(f"{key} after {STEPS} steps of SGD", value.detach().numpy(), theirs, TRAINED, scale)
            except OpError:
                if not is_statistic or len(readers[keys[key]]) == 1:
                    raise
                reordered.append(key)
    if reordered:
        warnings.warn(f"MXNet updates in another order: {', '.join(reordered)}. Each is of a batch norm that is called "
                      "several times", ExportWarning, stacklevel=6)


def _add_noise(net: Any, reference: Reference, keys: dict[str, str],
               multipliers: dict[str, tuple[float, float]]) -> None:
    """Add noise to constant parameters and running statistics, or two of them could be taken for each other."""
    rng = np.random.RandomState(1)
    for key, value in net.state_dict().items():
        is_changed = keys.get(key) in multipliers or key.split(".")[-1].startswith("running_")
        if is_changed and value.numel() > 1 and bool((value == value.reshape(-1)[0]).all()):
            with torch.no_grad():
                value += torch.from_numpy(rng.uniform(0, NOISE, value.shape))
            reference.values[keys[key]][:] = value.numpy()


def _check(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float, scale: float) -> None:
    difference = _largest(ours - theirs)
    if not difference <= tolerance * scale:
        raise _differs(f"{what} differs from MXNet's by {difference:.3g}, where the largest number is {scale:.3g}; "
                       f"expected at most {tolerance:.0e} of it")


def _differs(what: str) -> OpError:
    return OpError("export.torch", what, "Report it with the net; nothing was written")


def sample(array: np.ndarray) -> np.ndarray:
    """Some of the numbers of an array, evenly spaced."""
    flat = array.reshape(-1)
    return np.ascontiguousarray(flat[::max(1, flat.size // SAMPLE)][:SAMPLE])
