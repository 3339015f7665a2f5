"""How a contract declares the launches of its CUDA kernels, and what these kernels have besides C++'s."""
from __future__ import annotations

import dataclasses
import math
import types
import typing

__all__ = ["Cuda", "Launch", "each_element", "threads_along"]


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a kernel is launched: with ``blocks`` of ``threads`` (x, y), times ``parts`` that share the same work.

    A kernel finds ``blocks`` in ``gridDim.x`` and ``parts`` in ``gridDim.y``. It is launched once, or for each of
    ``steps``, words of :class:`Cuda`.
    """
    blocks: int
    threads: tuple[int, int] = (256, 1)
    parts: int = 1
    steps: tuple[str, ...] = ()

    @classmethod
    def of_elements(cls, count: int) -> Launch:
        """A thread takes four elements, which are 16 bytes of float32."""
        return cls(math.ceil(count / (4 * 256)))

    @classmethod
    def of_rows(cls, count: int, threads: int, parts: int = 1, steps: tuple[str, ...] = ()) -> Launch:
        """So many threads, a power of two, take a row. Rows with fewer than 256 threads share a block."""
        rows = max(1, 256 // threads)
        return cls(math.ceil(count / rows), (threads, rows), parts, steps)


def threads_along(length: int) -> int:
    """The threads for a row: up to a warp, with about 8 elements each, and up to 512 for a long row."""
    if length <= 512:
        return min(32, 1 << (max(1, math.ceil(length / 8)) - 1).bit_length())
    return 256 if length <= 4096 else 512


@dataclasses.dataclass(frozen=True)
class Cuda:
    """How ``kernel.cu`` is launched, and what its kernels have besides the contract's arguments.

    Parameters
    ----------
    forward, backward : callable
        ``forward(args)`` returns a :class:`Launch`. ``args`` has every number of the record by name, and ``dtype``, the
        data's.
    steps : tuple of str
        The words of launches. A kernel compares ``args.step`` with them: ``args.step == args.COMBINE``.
    derived : dict of str to (str or Number)
        As in :class:`Op`.
    derive : callable, optional
        ``derive(attrs, shapes)`` returns a dict of the derived numbers that are no expressions.
    constants : dict of str to int
        Numbers that the contract and ``kernel.cu`` share.
    scratch : tuple of Array
    forward_bounds, backward_bounds : str
        The arguments of ``__launch_bounds__``, over T and what ``kernel.cu`` declares.
    """
    forward: typing.Callable[[types.SimpleNamespace], Launch]
    backward: typing.Callable[[types.SimpleNamespace], Launch]
    steps: tuple = ()
    derived: dict = dataclasses.field(default_factory=dict)
    derive: typing.Callable[[tuple, dict], dict] | None = None
    constants: dict = dataclasses.field(default_factory=dict)
    scratch: tuple = ()
    forward_bounds: str = ""
    backward_bounds: str = ""


def each_element(args: types.SimpleNamespace) -> Launch:
    """The launch of a kernel that computes ``size`` elements, each by itself."""
    return Launch.of_elements(args.size)
