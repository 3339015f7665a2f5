"""Traces a hybridized net again if the backend has changed since its last trace.

Gluon traces a net at its first call and keeps the graph. So the three methods of ``HybridBlock`` that trace, run and
export a graph are wrapped. A net without operators of gluonops keeps its graph, and so does a ``SymbolBlock``, whose
graph was loaded.
"""
from __future__ import annotations

import functools
from collections.abc import Iterator

from mxnet.gluon import HybridBlock
from mxnet.gluon.block import _regroup

from . import backend

_ABSENT = -1   # stands for None in gluon's format of the arguments


def install() -> None:
    """Wrap the methods of ``HybridBlock``, once."""
    if hasattr(HybridBlock._get_graph, "__wrapped__"):
        return
    get_graph = HybridBlock._get_graph
    call_cached_op = HybridBlock._call_cached_op
    export = HybridBlock.export

    @functools.wraps(get_graph)
    def _get_graph(block, *args):
        with backend.tracing(block):
            return get_graph(block, *args)

    @functools.wraps(call_cached_op)
    def _call_cached_op(block, *args):
        if _is_stale(block):
            block._clear_cached_op()
        return call_cached_op(block, *args)

    @functools.wraps(export)
    def _export(block, *args, **kwargs):
        if _is_stale(block):
            inputs = _inputs(block)
            block._clear_cached_op()
            block._build_cache(*inputs)
        return export(block, *args, **kwargs)

    HybridBlock._get_graph = _get_graph
    HybridBlock._call_cached_op = _call_cached_op
    HybridBlock.export = _export


def _is_stale(block: HybridBlock) -> bool:
    """Whether a net's graph has nodes of another backend than the current one."""
    traced = block.__dict__.get(backend.TRACED)
    if traced is None or not block._cached_graph:
        return False
    requested = backend.requested()
    return traced != requested and backend.resolve(traced) != backend.resolve(requested)


def _inputs(block: HybridBlock) -> list:
    """The arguments that a net was traced with, as variables."""
    variables = list(block._cached_graph[0])
    for place, kind in enumerate(_leaves(block._in_format)):
        if kind == _ABSENT:
            variables.insert(place, None)
    return _regroup(variables, block._in_format)


def _leaves(formats: list) -> Iterator[int]:
    """Gluon's format of the arguments, one number per argument."""
    for item in formats:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item
