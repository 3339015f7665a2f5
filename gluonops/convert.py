"""Fills Gluon nets with weights of PyTorch. :func:`gluonops.export.torch` goes the other way."""
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Union

import mxnet as mx
import numpy as np

from .backends import numpy_mode
from .contract.errors import OpError

__all__ = ["from_torch"]

WHERE = "convert.from_torch"
NOT_WEIGHTS = "num_batches_tracked"   # a counter, which MXNet's batch norm does not have
# Gluon's names of a layer's parameters -> torch's. Those of recurrent layers are l0_i2h_weight and weight_ih_l0.
NAMES = {"gamma": "weight", "beta": "bias", "alpha": "weight"}
RECURRENT = re.compile(r"([lr])(\d+)_([ih])2h_(weight|bias)")
ROLES = ("weight", "bias", "running_mean", "running_var")
MOST_NAMES = 4   # A message names no more.


class Weight(NamedTuple):
    """An array of the state dict, or a parameter of the net: its full name, its name in its layer, and its shape."""
    name: str
    role: str
    shape: tuple[int, ...]


Tree = Union[Weight, dict]   # name -> tree, in the order of registration


def from_torch(state_dict: Mapping[str, Any], net: mx.gluon.Block) -> dict[str, str]:
    """Fill a net with the weights of a PyTorch net of the same architecture, such as torchvision's or timm's.

    Where names differ, blocks and layers are matched by the shapes in them, and equal ones by their order. A dense
    layer may be a convolution of 1x1 in the other net. Compare an output: two layers of one shape may be registered in
    one order and called in another, and nets may differ in what has no weights. So does timm's xception65, whose
    ``eps`` and positions of activations are not gluoncv's.

    Parameters
    ----------
    state_dict : mapping of str to torch.Tensor or numpy.ndarray
        As ``model.state_dict()`` returns it. A file's may be sorted by name, which hides the order of layers.
    net : Block
        Initialized, with known shapes. It is filled wholly, or not changed.

    Returns
    -------
    dict of str to str
        What was matched: the names in ``state_dict``, and those of the net's parameters.

    Raises
    ------
    OpError
        Weights have no counterpart, or equal ones come in another order; the message names them. Or a batch norm with
        ``scale=False`` would get a gamma that is not 1, or a parameter that layers share would get several values.

    Examples
    --------
    >>> import mxnet as mx
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> gops.convert.from_torch({"fc.weight": np.array([[3, 4]]), "fc.bias": np.array([5])}, net)
    {'fc.weight': 'dense0_weight', 'fc.bias': 'dense0_bias'}
    """
    arrays = arrays_of(WHERE, state_dict)
    parameters = _parameters(net)
    theirs = _tree(_weight(name, value.shape) for name, value in arrays.items())
    pairs = _pairs([*_weights(_by_number(theirs))],
                   [_weight(name, parameter.shape) for name, parameter in parameters.items()])
    _check_shared(parameters, arrays, pairs)
    _check_fixed_gammas(parameters, {our.name: arrays[their.name] for their, our in pairs})
    for their, our in pairs:
        parameter = parameters[our.name]
        parameter.set_data(numpy_mode.array(arrays[their.name].reshape(parameter.shape), parameter.dtype))
    return {their.name: parameters[our.name].name for their, our in pairs}


def arrays_of(where: str, state_dict: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a state dict by name, without counters. An OpError if there is something else among them.

    ``where``: the caller, for errors.
    """
    if not isinstance(state_dict, Mapping):
        raise OpError(where, f"state_dict is {type(state_dict).__name__}; expected a dict of tensors",
                      "Pass model.state_dict(), or what torch.load returns")
    arrays = {}
    for name, value in state_dict.items():
        if not isinstance(name, str) or not name:
            raise OpError(where, f"state_dict has the name {name!r}; expected one such as 'fc.weight'",
                          "Pass model.state_dict()")
        if hasattr(value, "numel"):   # a tensor
            try:
                value = value.detach().cpu()
                is_small = value.is_floating_point() and value.element_size() < 4   # NumPy has no bfloat16
                value = (value.float() if is_small else value).numpy()
            except (NotImplementedError, RuntimeError, TypeError) as error:   # sparse, or without values
                raise OpError(where, f"state_dict[{name!r}] cannot be read: {error}", "Pass dense tensors") from error
        if not isinstance(value, np.ndarray):
            raise OpError(where, f"state_dict[{name!r}] is {type(value).__name__}; expected a tensor",
                          "Pass the dict that has the tensors")
        if value.dtype.kind not in "fiub":
            raise OpError(where, f"state_dict[{name!r}] is of {value.dtype}; expected real numbers",
                          "Pass the dict that has the weights")
        if not name.endswith(NOT_WEIGHTS):
            arrays[name] = value
    return arrays


def _parameters(net: mx.gluon.Block) -> dict[str, mx.gluon.Parameter]:
    """The parameters by the names of their blocks. An OpError if a shape or a value is missing."""
    if not isinstance(net, mx.gluon.Block):
        raise OpError(WHERE, f"net is {type(net).__name__}; expected a Block",
                      "Pass a net of Gluon, such as a HybridBlock")
    parameters = dict(_named_parameters(net, ""))
    for parameter in parameters.values():
        if parameter._data is None:
            raise OpError(WHERE, f"the parameter {parameter.name} of {type(net).__name__} has no values yet",
                          "Call net.initialize(), and then the net once with data: net(data)")
    return parameters


def _named_parameters(block: mx.gluon.Block, prefix: str) -> Iterator[tuple[str, mx.gluon.Parameter]]:
    """The parameters that are no constants. Gluon's own function has other names for recurrent layers."""
    layout = getattr(block, "_kwargs", {}).get("layout", "")   # A convolution has it.
    if layout.endswith("C") and block._reg_params:
        raise OpError(WHERE,
                      f"{block.name} has the layout {layout}; expected a layout with channels first, as PyTorch has it",
                      "Make the net with channels first")
    for name, parameter in block._reg_params.items():
        if not isinstance(parameter, mx.gluon.Constant):
            yield prefix + name, parameter
    for name, child in block._children.items():
        yield from _named_parameters(child, f"{prefix}{name}.")


def _weight(name: str, shape: tuple[int, ...]) -> Weight:
    role = name.split(".")[-1]
    recurrent = RECURRENT.fullmatch(role)
    if recurrent:
        direction, layer, source, kind = recurrent.groups()
        role = f"{kind}_{source}h_l{layer}{'_reverse' if direction == 'r' else ''}"
    while len(shape) > 2 and shape[-1] == 1:   # a convolution of 1x1 is a dense layer
        shape = shape[:-1]
    return Weight(name, NAMES.get(role, role), tuple(shape))


def _tree(weights: Iterable[Weight]) -> dict[str, Tree]:
    root = {}
    for weight in weights:
        *blocks, last = weight.name.split(".")
        owner = root
        for block in blocks:
            owner = owner.setdefault(block, {})
        owner[last] = weight
    return root


def _by_number(tree: Tree) -> Tree:
    """The tree with numbered layers in the order of their numbers: safetensors sorts names, so that 10 is before 2."""
    if isinstance(tree, Weight):
        return tree
    is_sorted = all(map(str.isdecimal, tree)) or [*tree] == sorted(tree)
    names = sorted(tree, key=_number_or_text) if is_sorted else tree
    return {name: _by_number(tree[name]) for name in names}


def _number_or_text(name: str) -> list[int | str]:
    """A key that sorts layer2 in front of layer10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _weights(tree: Tree) -> Iterator[Weight]:
    if isinstance(tree, Weight):
        yield tree
    else:
        for part in tree.values():
            yield from _weights(part)


def _signature(tree: Tree) -> tuple:
    """Equal for trees whose weights can be matched. The name of a parameter that is no layer's does not count."""
    return tuple(sorted((weight.role if weight.role in ROLES or weight.role[-1].isdigit() else "", weight.shape)
                        for weight in _weights(tree)))


Named = list[tuple[str, Tree]]


def _pairs(theirs: list[Weight], ours: list[Weight]) -> list[tuple[Weight, Weight]]:
    """The pairs of weights: by name if all names agree, by order if all layers are alike, and else by blocks.

    An OpError if weights are left, or if equal layers of the two nets come in different orders.
    """
    named, names = _by_full_name(theirs), _by_full_name(ours)
    has_all = len(named) == len(theirs) and len(names) == len(ours)
    if has_all and {name: named[name].shape for name in named} == {name: names[name].shape for name in names}:
        return [(weight, names[name]) for name, weight in named.items()]
    layers = [_layers(_tree(weights)) for weights in (theirs, ours)]
    if [*map(_signature, layers[0])] == [*map(_signature, layers[1])]:
        pairs = [pair for their, our in zip(*layers) for pair in _matched([("", their)], [("", our)])]
        if not _crosses_names(pairs):
            return pairs
    pairs = [*_matched([("", _tree(theirs))], [("", _tree(ours))])]
    matched = {their for their, _ in pairs}, {our for _, our in pairs}
    left = [[weight for weight in weights if weight not in taken] for weights, taken in zip((theirs, ours), matched)]
    if any(left):
        raise _differ(*left)
    _check_order(sorted(pairs, key=lambda pair: theirs.index(pair[0])), ours)
    return pairs


def _by_full_name(weights: list[Weight]) -> dict[str, Weight]:
    """Names without the blocks that are around all weights, such as DataParallel's, and with torch's of parameters."""
    paths = [weight.name.split(".")[:-1] for weight in weights]
    around = len(os.path.commonprefix(paths))
    return {".".join([*path[around:], weight.role]): weight for path, weight in zip(paths, weights)}


def _crosses_names(pairs: list[tuple[Weight, Weight]]) -> bool:
    """Whether matched blocks have parts of the same names, which come in another order in the net."""
    parts = {}   # the paths of two blocks -> the names of the parts of each
    for pair in pairs:
        paths = [[*weight.name.split(".")[:-1], weight.role] for weight in pair]
        for depth in range(1, min(map(len, paths)) + 1):
            blocks = tuple(tuple(path[:-depth]) for path in paths)
            for path, names in zip(paths, parts.setdefault(blocks, ({}, {}))):
                names[path[-depth]] = None
    return any(theirs.keys() == ours.keys() and [*theirs] != [*ours] for theirs, ours in parts.values())


def _layers(tree: dict) -> list[Tree]:
    """The layers in a tree, in the order of registration."""
    if _is_layer(tree):
        return [tree]
    return [layer for part in tree.values() for layer in _layers(part)]


def _check_order(pairs: list[tuple[Weight, Weight]], ours: list[Weight]) -> None:
    """Raise an OpError if weights of one shape, matched by what is around them, are in another order in the net.

    ``pairs``: in the order of the state dict.
    """
    order = {weight.name: number for number, weight in enumerate(ours)}
    groups = {}
    for pair in pairs:
        groups.setdefault((pair[0].role, pair[0].shape), []).append(pair)
    for group in groups.values():
        for (first, one), (second, other) in zip(group, group[1:]):
            if order[one.name] > order[other.name]:
                raise OpError(WHERE, f"{first.name} and {second.name} have the same shape, and the net has such layers "
                              "in another order", "Pass model.state_dict(), not a file's dict, which is sorted by "
                              "name; or give the layers of the net the names of those in state_dict")


def _matched(theirs: Named, ours: Named) -> Iterator[tuple[Weight, Weight]]:
    """Match trees with equal signatures, those of the same name first. Some may be without a counterpart.

    A name that is a number counts the layers of a Sequential, activations included, and says nothing. Equal trees are
    told apart by what is in front of them, and else by their order. The largest trees without a counterpart are
    replaced by their parts.
    """
    alike = []
    for before in (None, 2, 1, 0):
        theirs, ours = _take_alike(theirs, ours, before, alike)
    for their, our in alike:
        if isinstance(their, Weight) and isinstance(our, Weight):
            yield their, our
        else:
            yield from _matched(_children(their), _children(our))
    blocks = [len(_signature(tree)) for _, tree in theirs + ours if not _is_layer(tree)]
    if blocks:
        yield from _matched(*[_parts(trees, max(blocks)) for trees in (theirs, ours)])


def _keys(trees: Named, before: int | None) -> list[tuple | None]:
    """The signature of each tree with its name, or with those of so many in front of it. None is like no other."""
    signatures = [_signature(tree) for _, tree in trees]
    if before is None:
        return [None if name.isdigit() else (name, signature) for (name, _), signature in zip(trees, signatures)]
    return [tuple(signatures[max(0, i - before):i + 1]) for i in range(len(trees))]


def _take_alike(theirs: Named, ours: Named, before: int | None,
                alike: list[tuple[Tree, Tree]]) -> tuple[Named, Named]:
    """Append the pairs of trees with the same key of :func:`_keys`, in order. Returns the others."""
    waiting = {}
    for key, tree in zip(_keys(ours, before), ours):
        waiting.setdefault(key, []).append(tree)
    waiting.pop(None, None)
    rest, taken = [], set()
    for key, (name, tree) in zip(_keys(theirs, before), theirs):
        candidates = waiting.get(key)
        if candidates:
            other = candidates.pop(0)[1]
            alike.append((tree, other))
            taken.add(id(other))
        else:
            rest.append((name, tree))
    return rest, [(name, tree) for name, tree in ours if id(tree) not in taken]


def _children(tree: Tree) -> Named:
    while not isinstance(tree, Weight) and len(tree) == 1:   # a container of one
        tree, = tree.values()
    if isinstance(tree, Weight):
        return [(tree.role, tree)]
    return [(part.role if isinstance(part, Weight) else name, part) for name, part in tree.items()]


def _is_layer(tree: Tree) -> bool:
    return isinstance(tree, Weight) or all(isinstance(part, Weight) for part in tree.values())


def _parts(trees: Named, size: int) -> Named:
    """The trees, and the parts of those with so many weights."""
    parts = []
    for name, tree in trees:
        is_whole = _is_layer(tree) or len(_signature(tree)) < size
        parts += [(name, tree)] if is_whole else _children(tree)
    return parts


def _differ(theirs: list[Weight], ours: list[Weight]) -> OpError:
    def listed(weights: list[Weight]) -> str:
        more = f" and {len(weights) - MOST_NAMES} more" if len(weights) > MOST_NAMES else ""
        return ", ".join(f"{weight.name} {weight.shape}" for weight in weights[:MOST_NAMES]) + more or "nothing"

    return OpError(WHERE, f"state_dict has {listed(theirs)} without a counterpart in the net, and the net has "
                   f"{listed(ours)} without one in state_dict",
                   "Pass a net of the same architecture, and remove from state_dict what the net does not have")


def _check_shared(parameters: dict[str, mx.gluon.Parameter], arrays: dict[str, np.ndarray],
                  pairs: list[tuple[Weight, Weight]]) -> None:
    """Raise an OpError if a parameter that layers of the net share gets different values."""
    filled = {}
    for their, our in pairs:
        parameter = parameters[our.name]
        first = filled.setdefault(parameter, their)
        if not np.array_equal(arrays[first.name].ravel(), arrays[their.name].ravel(), equal_nan=True):
            raise OpError(WHERE, f"layers of the net share {parameter.name}, and {first.name} and {their.name} differ",
                          "Make the net with a parameter for each layer")


def _check_fixed_gammas(parameters: dict[str, mx.gluon.Parameter], values: dict[str, np.ndarray]) -> None:
    """Raise an OpError if a batch norm does not read a gamma that is not 1. Both are by the net's names."""
    for name, parameter in parameters.items():
        is_fixed = name.split(".")[-1] == "gamma" and not parameter._differentiable
        if is_fixed and (values[name] != 1).any():
            raise OpError(WHERE, f"{name} is fixed at 1, and state_dict has other values for it",
                          "Make the batch norm with scale=True")
