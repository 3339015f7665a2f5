"""Freeze a part of a net: it keeps its parameters while the rest is trained."""
from __future__ import annotations

from collections.abc import Iterator

from mxnet import gluon

__all__ = ["clear_graphs", "freeze"]


def freeze(block: gluon.Block, frozen: bool = True, grad_req: str = "write") -> bool:
    """Freeze a block, or release it.

    A frozen block has no gradients, and its batch norms use and keep their running statistics. A net that contains the
    block and is hybridized has to be traced again: see :func:`clear_graphs`.

    Parameters
    ----------
    block : gluon.Block
    frozen : bool, default True
        False releases the block.
    grad_req : {"write", "add"}, default "write"
        How released parameters get gradients; ``add`` if gradients are accumulated over batches.

    Returns
    -------
    bool
        Whether anything changed.
    """
    changed = False
    for part in blocks_of(block):
        if isinstance(part, gluon.nn.BatchNorm) and part._kwargs["use_global_stats"] != frozen:
            part._kwargs["use_global_stats"] = frozen
            changed = True
    request = "null" if frozen else grad_req
    for parameter in block.collect_params().values():
        if parameter._differentiable and parameter.grad_req != request:
            parameter.grad_req = request
            changed = True
    return changed


def clear_graphs(block: gluon.Block) -> None:
    """Let a hybridized block, and every block in it, be traced again at its next call."""
    for part in blocks_of(block):
        if isinstance(part, gluon.HybridBlock):
            part._clear_cached_op()


def blocks_of(block: gluon.Block) -> Iterator[gluon.Block]:
    """The block and all blocks in it."""
    yield block
    for child in block._children.values():
        yield from blocks_of(child)
