"""Replaces layers of a net that exists already."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from mxnet.gluon import Block, HybridBlock

from ..contract.errors import OpError

__all__ = ["replace"]

WHERE = "nn.replace"


def replace(net: Block, kind: type | tuple[type, ...], make: Callable[[Block], Block]) -> list[str]:
    """Replace the layers of a class in a net, in place.

    The other layers keep their names, parameters and order. A layer that a net contains in several places is replaced
    by one. Layers inside a replaced one go with it. What a block computes in its ``hybrid_forward``, such as
    ``F.relu(x)``, is not a layer, and stays.

    Parameters
    ----------
    net : Block
        The net. It need not be initialized, and may be hybridized: it is traced again at its next call.
    kind : type or tuple of type
        The class of the layers, such as ``mxnet.gluon.nn.Activation``.
    make : callable
        ``make(old)`` returns a new layer for an old one, or the old one to keep it. It is called in the name scope of
        the block that contains the layer. A new layer with parameters must be initialized, or share those of the old
        one: ``params=old.params``.

    Returns
    -------
    list of str
        Where layers were replaced, such as ``features.4.0.relu``.

    Raises
    ------
    OpError
        The net has no such layer or is one itself, or what ``make`` returns cannot stand in its place. The net is
        unchanged then.

    Examples
    --------
    >>> import gluonops as gops
    >>> from mxnet.gluon import nn
    >>> net = nn.HybridSequential()
    >>> net.add(nn.Conv2D(8, 3, activation="relu"), nn.Dense(10))
    >>> gops.nn.replace(net, nn.Activation, lambda old: gops.nn.Mish())
    ['0.act']
    """
    if isinstance(net, kind):
        raise OpError(WHERE, f"net is a {type(net).__name__} itself; expected a block that contains such layers",
                      "Put it into a HybridSequential, or call the new layer in its place")
    layers = list(_layers(net, kind, ""))
    if not layers:
        blocks = []
        net.apply(blocks.append)
        classes = sorted({type(block).__name__ for block in blocks} - {type(net).__name__})
        raise OpError(WHERE, f"net contains no {_named(kind)}; it has {', '.join(classes) or 'no layers'}",
                      "Name one of these classes")
    made = {}
    for parent, _, old, path in layers:
        if old not in made:
            with parent.name_scope():
                made[old] = make(old)
        _check(parent, made[old], path)

    replaced = [(parent, key, old, path) for parent, key, old, path in layers if made[old] is not old]
    for parent, key, old, _ in replaced:
        _put(parent, key, old, made[old])
    net.apply(lambda block: isinstance(block, HybridBlock) and block._clear_cached_op())
    return [path for *_, path in replaced]


def _named(kind):
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(one.__name__ for one in kinds)


def _layers(parent: Block, kind: type | tuple[type, ...], path: str) -> Iterator[tuple[Block, str, Block, str]]:
    """Yield, for each layer of a class, the block that contains it, its key there, the layer, and its path."""
    for key, child in parent._children.items():
        child_path = f"{path}.{key}" if path else key
        if isinstance(child, kind):
            yield parent, key, child, child_path
        else:
            yield from _layers(child, kind, child_path)


def _check(parent: Block, new: object, path: str) -> None:
    needed = HybridBlock if isinstance(parent, HybridBlock) else Block
    if not isinstance(new, needed):
        raise OpError(WHERE, f"make returned a {type(new).__name__} for {path}; expected a {needed.__name__}",
                      "Return the new layer from make")


def _put(parent: Block, key: str, old: Block, new: Block) -> None:
    """Put the new layer in the old one's place, among the children and in every attribute that holds the old one.

    Gluon does not let an attribute change its type, so this writes past ``Block.__setattr__``.
    """
    parent._children[key] = new
    for name, value in vars(parent).items():
        if value is old:
            vars(parent)[name] = new
        elif isinstance(value, list):
            value[:] = [new if item is old else item for item in value]
    if isinstance(old, HybridBlock) and old._active and isinstance(new, HybridBlock):
        new.hybridize(True, **dict(old._flags))
