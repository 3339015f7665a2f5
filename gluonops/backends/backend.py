"""The choice of a backend: ``custom``, ``native``, ``builtin`` or ``auto``.

Gluon traces a net at its first call and keeps the graph. So the three methods of ``HybridBlock`` that trace, run and
export a graph are wrapped, and trace a net again if the backend has changed since. A net without operators of gluonops
keeps its graph, and so does a ``SymbolBlock``, whose graph was loaded.
"""
from __future__ import annotations

import functools
import os
import threading

import mxnet as mx
from mxnet.gluon import HybridBlock

from ..contract.errors import OpError
from . import native

BACKENDS = ("auto", "custom", "native", "builtin")
_default = os.environ.get("GLUONOPS_BACKEND") or "auto"
TRACED = "_gluonops_backend"   # a HybridBlock's attribute: the backend that its graph was traced under
_ABSENT = -1   # stands for None in gluon's format of the arguments


class _Scopes(threading.local):
    """What is in force in a thread: its ``with`` blocks, and the net that it traces."""

    backends = ()   # the backends of its ``with`` blocks, the innermost one last
    block = None    # the HybridBlock that is being traced


_scopes = _Scopes()


class backend:   # pylint: disable=invalid-name
    """Choose the backend, for the process or for a ``with`` block.

    ``gluonops.backend("builtin")`` sets the default of the process. ``with gluonops.backend("builtin"):`` sets the
    backend of the block's thread inside the block. The backend decides which node a function or a HybridBlock emits. A
    hybridized net is traced again if it is called or exported with another backend. The environment variable
    ``GLUONOPS_BACKEND`` sets the default at start.

    Parameters
    ----------
    name : {'auto', 'custom', 'native', 'builtin'}
        ``custom``: Python CustomOp, CUDA kernels on a GPU. ``native``: the C++ library. ``builtin``: MXNet's own
        operators only. ``auto``: ``native`` if it is loaded and there is no GPU, else ``custom``.

    Raises
    ------
    OpError
        The name is unknown, or the backend is not available.
    """

    def __init__(self, name: str):
        global _default
        self._name = available(name)
        self._previous = _default
        _default = name

    def __enter__(self) -> backend:
        global _default
        _default = self._previous
        _scopes.backends += (self._name,)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.backends = _scopes.backends[:-1]


def current_backend() -> str:
    """Return the current backend: that of the innermost ``with`` block, or the default.

    Raise an OpError if it is not available.
    """
    return available(requested())


def requested() -> str:
    """Return the name of the current backend, whether it is available or not."""
    backends = _scopes.backends
    return backends[-1] if backends else _default


def available(name: str) -> str:
    """Return ``name``. Raise an OpError if there is no such backend, or if it is not available."""
    if name not in BACKENDS:
        raise OpError("backend", f"got {name!r}; expected 'auto', 'custom', 'native' or 'builtin'",
                      "Pass one of them, or set the environment variable GLUONOPS_BACKEND to one")
    if name == "native" and not native.loaded():
        raise OpError("backend", f"the native backend is not available: {native.reason()}",
                      "Or choose the backend 'auto', 'custom' or 'builtin'")
    return name


def resolve(name: str) -> str:
    """Return the backend of ``auto``: ``native`` if the library is loaded and there is no GPU, else ``custom``."""
    if name != "auto":
        return name
    return "native" if native.loaded() and not has_gpu() else "custom"


@functools.cache
def has_gpu() -> bool:
    """Return whether MXNet can use a GPU. If the CUDA query fails, it cannot.

    The answer is kept, because a process has the GPUs that it begins with.
    """
    try:
        return mx.context.num_gpus() > 0
    except mx.MXNetError:
        return False


def note_in_traced_block() -> None:
    """Note the backend in the HybridBlock that is being traced, if there is one."""
    if _scopes.block is not None:
        setattr(_scopes.block, TRACED, requested())


def retrace_on_change() -> None:
    """Wrap the methods of ``HybridBlock``, once."""
    if hasattr(HybridBlock._get_graph, "__wrapped__"):
        return
    get_graph = HybridBlock._get_graph
    call_cached_op = HybridBlock._call_cached_op
    export = HybridBlock.export

    @functools.wraps(get_graph)
    def _get_graph(block, *args):
        outer, _scopes.block = _scopes.block, block
        try:
            return get_graph(block, *args)
        finally:
            _scopes.block = outer

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
    """Return whether a net's graph has nodes of another backend than the current one."""
    traced = block.__dict__.get(TRACED)
    if traced is None or not block._cached_graph:
        return False
    return traced != requested() and resolve(traced) != resolve(requested())


def _inputs(block: HybridBlock) -> list:
    """Return the arguments that a net was traced with, as variables."""
    variables = iter(block._cached_graph[0])

    def grouped(formats: list) -> list:
        return [grouped(item) if isinstance(item, list) else None if item == _ABSENT else next(variables)
                for item in formats]

    return grouped(block._in_format)
