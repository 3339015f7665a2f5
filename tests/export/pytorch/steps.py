"""Compares converters with MXNet in float64: outputs, gradients, and the parameters after some steps of SGD.

The export itself compares in float32. This is the sharper test of what it writes, with formulas in place of what MXNet
computes in float32 only.
"""
from __future__ import annotations

import contextlib
import pathlib
import tempfile
from unittest import mock

import numpy as np
import torch
from gluonops.export.draws import drawn
from gluonops.export.operators.forms import Single
from gluonops.export.torch import verify, write
from gluonops.export.torch.reference import head_gradient
from in_double import MOMENTUM, Reference

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


def check(net, data_shape=None, training=False):
    """Convert a net, and compare what is written. An AssertionError says what differs."""
    arguments = net, data_shape, None, training
    converted = write.Converted(*arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        converted.save(folder)
        (folder / "net.py").write_text(exact(*arguments), encoding="utf-8")
        compare(converted.model, folder, converted.keys, converted.inputs, converted.multipliers)
    return converted.source


def exact(*arguments):
    """The source of a net with the numbers that MXNet holds in float32 as it computes with them."""
    with mock.patch.object(Single, "__repr__", lambda number: repr(float(np.float32(number)))):
        return write.Converted(*arguments).source


def compare(model, folder, keys, shapes, multipliers):
    """Compare the net in a folder with a model.

    - ``keys``: name in torch -> name in MXNet.
    - ``shapes``: of the inputs in training. In evaluation mode the model's own are compared as well.
    - ``multipliers``: what MXNet multiplies the rate and the decay of each parameter by that it trains.
    """
    reference, module = Reference(model), verify.load(folder)
    net = module.load(torch.float64)
    _prepare(net)
    domain = next((domain for domain in verify.DOMAINS if not any(
        np.isnan(output).any() for output in reference.outputs(_inputs(model, shapes, domain)))), verify.DOMAINS[0])
    inputs = _inputs(model, shapes, domain)
    can_train = not verify.single_numbers(model, shapes)
    modes = ("evaluation", "training") if can_train else ("evaluation",)
    try:
        for mode in modes:
            largest = _compare_gradients(net, reference, keys, inputs, mode)
    except AssertionError as error:
        _add_noise(net, reference, keys, multipliers)
        try:
            for mode in modes:
                _compare_gradients(net, reference, keys, inputs, mode)
        except AssertionError:
            raise error from None
        raise AssertionError(f"{error}, which is 0 but for rounding") from error
    if shapes != model.inputs:
        _compare_outputs(net, reference, _inputs(model, model.inputs, domain))
    if multipliers and largest and can_train:
        rate, decay = (float(np.float32(value)) for value in (FIRST_STEP / largest, largest))
        _add_noise(net, reference, keys, multipliers)
        reference.train(inputs, STEPS, rate, decay, multipliers)
        reference.forget_gradients()
        _train(module, net.train(), inputs, rate, decay)
        _check_trained(net, reference, keys, multipliers, model.graph)


def _inputs(model, shapes, domain):
    numbers, classes = domain
    found = drawn(model, shapes, np.random.RandomState(0), numbers, classes)
    assert found.out_of_range is None
    return {name: array.astype(np.float64) for name, array in found.values.items()}


def _compare_outputs(net, reference: Reference, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compare the outputs in evaluation mode. Returns what test_net.py compares with."""
    expected = reference.outputs(inputs)
    with torch.no_grad():
        outputs = _outputs(net.eval(), list(map(torch.from_numpy, inputs.values())))
    _check_outputs(outputs, expected, "evaluation")


def _compare_gradients(net, reference: Reference, keys: dict[str, str], inputs: dict[str, np.ndarray],
                       mode: str) -> float:
    """Compare outputs and gradients in a mode. Returns the largest gradient."""
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
    return largest


@contextlib.contextmanager
def _restored(net, reference: Reference):
    """Give both nets their states again, and torch's no gradients."""
    states = {key: value.clone() for key, value in net.named_buffers()}
    try:
        yield
    finally:
        net.zero_grad()
        for key, value in net.named_buffers():
            value.copy_(states[key])
        reference.reset()


def _prepare(net) -> None:
    """Let dropout drop nothing, and batch norm use MXNet's momentum, which is a float32 even for float64."""
    for module in net.modules():
        for name in {"p", "dropout"}.intersection(vars(module)):   # a dropout, or a recurrent layer
            setattr(module, name, 0.0)
        if type(module).__name__.endswith("BatchNorm"):
            module.momentum = 1 - float(np.float32(round(1 - module.momentum, 12)))


def _outputs(net, arrays: list) -> list:
    """The outputs of a net."""
    outputs = net(*arrays)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _backward(outputs: list) -> None:
    """Compute the gradients of what the outputs depend on: not of indices, nor of what is behind a BlockGrad."""
    outputs = [output for output in outputs if output.requires_grad]
    torch.autograd.backward(outputs, [torch.from_numpy(head_gradient(output.shape)) for output in outputs])


def _growth(net, arrays: list, outputs: list) -> float:
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


def _numbers_of(tensor) -> np.ndarray:
    """Float64 of an output, which may have whole numbers or booleans."""
    return tensor.detach().numpy().astype(np.float64)


def _check_outputs(outputs: list, expected: list[np.ndarray], mode: str, growth: float = 1.0) -> None:
    for number, (ours, theirs) in enumerate(zip(outputs, expected)):
        if tuple(ours.shape) != theirs.shape:
            raise AssertionError(f"output {number} in {mode} mode has the shape {tuple(ours.shape)}; MXNet's has "
                                 f"{theirs.shape}")
        assert np.isfinite(theirs).all(), f"output {number} in {mode} mode has numbers that are not finite in MXNet"
        _check(f"output {number} in {mode} mode", _numbers_of(ours), theirs, growth * OUTPUTS, _largest(theirs))


def _check_gradients(found: dict, mode: str, growth: float) -> float:
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


def _train(module, net, inputs, rate, decay):
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
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        _backward(_outputs(net, arrays))
        optimizer.step()


def _check_trained(net, reference: Reference, keys: dict[str, str],
                   multipliers: dict[str, tuple[float, float]], graph) -> None:
    """Compare the running statistics, and all parameters that MXNet or torch has trained or could have trained.

    MXNet updates statistics in its backward pass. Those of a batch norm that is called several times may have had
    another order, of which the user is warned.
    """
    readers = {node.name: found for node, found in graph.readers().items()}
    for key, value in net.state_dict(keep_vars=True).items():
        is_statistic = key.split(".")[-1].startswith("running_")
        if value.requires_grad or keys.get(key) in multipliers or is_statistic:
            theirs = reference.values[keys[key]].asnumpy()
            scale = max(_largest(theirs), FIRST_STEP)   # the gradient of a bias of 0 may be rounding
            try:
                _check(f"{key} after {STEPS} steps of SGD", value.detach().numpy(), theirs, TRAINED, scale)
            except AssertionError:
                if not is_statistic or len(readers[keys[key]]) == 1:
                    raise


def _add_noise(net, reference: Reference, keys: dict[str, str],
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
    assert difference <= tolerance * scale, (
        f"{what} differs from MXNet's by {difference:.3g}, where the largest number is {scale:.3g}; "
        f"expected at most {tolerance:.0e} of it")
