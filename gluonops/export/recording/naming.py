"""Names of recorded nodes and constants, and the lines of the user's code that they come from."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import mxnet as mx

OUR_PACKAGE = __name__.partition(".")[0]
RUNS = f"{__package__}.runs"   # the module that calls the net
PLAIN = (str, bytes, int, float, type(None))   # what has no arrays; a vocabulary may be a long list of them
CALLS = ("__call__", "forward", "hybrid_forward")


class Line(NamedTuple):
    """A line of the user's code."""
    path: str
    number: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.path)} line {self.number}"


def line_of_user() -> Line | None:
    """The innermost line that is being run and is neither MXNet's nor ours; None if there is none in the net."""
    return next((Line(frame.f_code.co_filename, frame.f_lineno) for frame in _frames() if _is_of_user(frame)), None)


def line_of_error(error: BaseException) -> Line | None:
    """The innermost line of the user's code that an error has gone through; None if there is none."""
    lines, step = [], error.__traceback__
    while step is not None:
        if _is_of_user(step.tb_frame):
            lines.append(Line(step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    return lines[-1] if lines else None


def _is_of_user(frame: FrameType) -> bool:
    """Whether a line is neither MXNet's nor ours."""
    package, _, _ = frame.f_globals.get("__name__", "").partition(".")
    return package not in ("mxnet", OUR_PACKAGE)


def _frames() -> Iterator[FrameType]:
    """The frames of the net's run, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != RUNS:
        yield frame
        frame = frame.f_back


def _block() -> mx.gluon.Block | None:
    """The innermost block that is being called."""
    for frame in _frames():
        if frame.f_code.co_name in CALLS and frame.f_code.co_argcount:
            owner = frame.f_locals.get(frame.f_code.co_varnames[0])
            if isinstance(owner, mx.gluon.Block):
                return owner
    return None


class Namer:
    """Gives names that nothing else has."""

    def __init__(self):
        self._taken: dict[str, int] = {}

    def take(self, name: str) -> str:
        """``name``, or with a number behind it if it is taken."""
        free, number = name, 0
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken[free] = 0
        return free

    def of_node(self, op: str) -> str:
        """A name for a node of the block that is being called, like the name that Gluon gives it in a trace."""
        block = _block()
        prefix = "" if block is None else block.prefix
        is_layer = block is not None and type(block).__module__.startswith("mxnet.gluon.nn")
        return self.take(f"{prefix}fwd" if is_layer else self._numbered(f"{prefix}{op.strip('_').lower()}"))

    def of_constant(self, name: str | None) -> str:
        """A name for an array that the run has made; ``name`` if the net has it as an attribute."""
        block = _block()
        return self.take(name or self._numbered(f"{'' if block is None else block.prefix}constant"))

    def _numbered(self, stem: str) -> str:
        number = self._taken.get(f"{stem}#", 0)
        self._taken[f"{stem}#"] = number + 1
        return f"{stem}{number}"


def belongings(net: mx.gluon.Block) -> Iterator[tuple[str, Any]]:
    """The blocks, Parameters and arrays that a net has, also in lists and dicts, with a name for each array.

    An array is named after the attribute that has it, behind the prefix of the block.
    """
    visited: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", net)]
    while waiting:
        name, value = waiting.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        inside: list[tuple[str, Any]] = []
        if isinstance(value, (mx.gluon.Parameter, mx.nd.NDArray)):
            yield name, value
        elif isinstance(value, mx.gluon.Block):
            yield name, value
            inside = [(f"{value.prefix}{key}", each) for key, each in vars(value).items()]
        elif isinstance(value, (list, tuple)):
            inside = [(f"{name}{index}", each) for index, each in enumerate(value) if not isinstance(each, PLAIN)]
        elif isinstance(value, (dict, mx.gluon.ParameterDict)):
            inside = [(f"{name}_{key}", each) for key, each in value.items() if not isinstance(each, PLAIN)]
        waiting += reversed(inside)


def blocks_of(net: mx.gluon.Block) -> list[mx.gluon.Block]:
    """The net and all blocks in it, also those that are in a list and that Gluon does not know."""
    return [value for _, value in belongings(net) if isinstance(value, mx.gluon.Block)]


def parameters_of(net: mx.gluon.Block) -> dict[str, mx.gluon.Parameter]:
    """The Parameters of a net by name, also those that Gluon does not know."""
    return {value.name: value for _, value in belongings(net) if isinstance(value, mx.gluon.Parameter)}


def named_arrays(net: mx.gluon.Block) -> dict[int, tuple[str, mx.nd.NDArray]]:
    """Every array that a net has: its address -> its name, which is that of its Parameter, and the array."""
    named: dict[int, tuple[str, mx.nd.NDArray]] = {}
    for name, value in belongings(net):
        if isinstance(value, mx.gluon.Parameter):
            named.update((address(array), (value.name, array)) for array in value._data or ())
        elif isinstance(value, mx.nd.NDArray):
            named.setdefault(address(value), (name, value))
    return named


def address(array: mx.nd.NDArray) -> int:
    """The number that tells arrays apart."""
    return array.handle.value
