"""The choice of a backend: ``custom``, ``native``, ``builtin`` or ``auto``."""
from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator

import mxnet as mx

from . import native
from .errors import OpError

BACKENDS = ("auto", "custom", "native", "builtin")
_default = os.environ.get("GLUONOPS_BACKEND") or "auto"
TRACED = "_gluonops_backend"   # a HybridBlock's attribute: the backend that its graph was traced under


class _Scopes(threading.local):
    """What a thread is inside of."""

    def __init__(self):
        super().__init__()
        self.backends = []   # those of its ``with`` blocks, the innermost last
        self.block = None    # the HybridBlock that is being traced


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
        _scopes.backends.append(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.backends.pop()


def current_backend() -> str:
    """The current backend: that of the innermost ``with`` block, or the default. An OpError if it is not available."""
    return available(requested())


def requested() -> str:
    """The name of the current backend, whether it is available or not."""
    backends = _scopes.backends
    return backends[-1] if backends else _default


@contextlib.contextmanager
def tracing(block: mx.gluon.HybridBlock) -> Iterator[None]:
    """Inside the ``with`` block the emitter notes in a HybridBlock the backend of its graph."""
    outer = _scopes.block
    _scopes.block = block
    try:
        yield
    finally:
        _scopes.block = outer


def available(name: str) -> str:
    """``name``, or an OpError if there is no such backend or it is not available."""
    if name not in BACKENDS:
        raise OpError("backend", f"got {name!r}; expected 'auto', 'custom', 'native' or 'builtin'",
                      "Choose one of them (also in GLUONOPS_BACKEND)")
    if name == "native" and not native.loaded():
        raise OpError("backend", f"the native backend is not available: {native.reason()}",
                      "Or use 'auto', 'custom' or 'builtin'")
    return name


def resolve(name: str) -> str:
    """The backend of ``auto``: ``native`` if the library is loaded and there is no GPU, else ``custom``."""
    if name != "auto":
        return name
    return "native" if native.loaded() and not has_gpu() else "custom"


@functools.cache
def has_gpu() -> bool:
    """Whether MXNet can use a GPU; False if the CUDA query fails. A process has the GPUs that it begins with."""
    try:
        return mx.context.num_gpus() > 0
    except mx.MXNetError:
        return False


def note_in_traced_block() -> None:
    """Note the backend in the HybridBlock that is being traced, if there is one."""
    if _scopes.block is not None:
        setattr(_scopes.block, TRACED, requested())
