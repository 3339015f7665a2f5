"""Runs a net under a tape, and makes a graph of what it returns."""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as np

from ...backends import numpy_mode
from ...contract.errors import OpError
from ..graph import CURRENT, Entry, Graph, Node
from ..sizes import last_line
from .arguments import Arguments, arrays_in
from .naming import Line, blocks_of, line_of_error, named_arrays
from .tape import BlockCall, Fault, Tape, refusal


class NetFails(OpError):
    """What the net raises when it is run."""


@dataclasses.dataclass
class Run:
    """What a run of the net was.

    - ``graph``: what the outputs are computed by. ``nodes``: its nodes, variables first, in the order of the run.
    - ``lines``: the line in the user's code of each node, or None.
    - ``shapes`` and ``dtypes``: of every output. ``constants``: name -> Parameter's array, or another one.
    - ``inputs``: their shapes. ``reads``: the lines that read numbers which depend on an input.
    - ``independent``: what is wrong with an output that depends on no input; None if there is none.
    - ``calls`` and ``call_of``: of blocks, as in :class:`.tape.Tape`.
    """
    graph: Graph
    nodes: list[Node]
    lines: dict[Node, Line | None]
    shapes: dict[Entry, tuple[int, ...]]
    dtypes: dict[Entry, np.dtype]
    constants: dict[str, mx.nd.NDArray]
    inputs: dict[str, tuple[int, ...]]
    reads: list[Line | None]
    independent: Fault | None
    calls: list[BlockCall]
    call_of: dict[Node, int]


class Runner:
    """Runs one net with one set of arguments, as often as it is asked to."""

    def __init__(self, where: str, net: mx.gluon.Block, arguments: Arguments):
        self.where, self.net, self.arguments = where, net, arguments
        self.name = type(net).__name__

    def run(self, changed: dict[str, mx.nd.NDArray] | None = None, line: Line | None = None,
            change: Callable[[np.ndarray], np.ndarray] | None = None) -> Run:
        """Record a run in evaluation mode.

        - ``changed``: arrays in place of the arguments' own.
        - ``line``, ``change``: what is done to the numbers that this line of the net reads.
        """
        with self._scopes():
            arrays, values = self.arguments.copies(changed)
            tape = Tape(self.where, self.name, arrays, named_arrays(self.net), _graphs(self.net), line, change)
            try:
                with tape.running():
                    outputs = self._call(values)
                return self._finished(tape, arrays, outputs)
            finally:
                tape.restore()

    def warm_up(self) -> None:
        """Run the net once, which initializes the parameters whose shapes were not known."""
        with self._scopes():
            self._call(self.arguments.copies()[1])

    @contextlib.contextmanager
    def _scopes(self) -> Iterator[None]:
        """The net in evaluation mode, not hybridized, in the mode of its arrays."""
        with numpy_mode.mode(self.arguments.is_numpy), mx.autograd.pause(train_mode=False), _imperative(self.net):
            yield

    def _call(self, values: list[Any]) -> Any:
        try:
            outputs = self.net(*values)
            for output in arrays_in(outputs):
                if isinstance(output, mx.nd.NDArray):
                    output.wait_to_read()   # What an operator raises belongs to this run.
            return outputs
        except OpError:
            raise
        except Exception as error:   # a user's net may raise anything
            line = line_of_error(error)
            at = f" in {line}" if line else ""
            if layer := numpy_mode.layer_of_other_mode(error):
                what = f"has a layer of {layer} that was made in the other one, and is called{at}"
                raise numpy_mode.of_other_mode(self.where, self.net, what) from error
            if operator := numpy_mode.called_operator_of_other_mode(error):
                raise numpy_mode.of_other_mode(self.where, self.net, f"calls the {operator}{at}") from error
            message = last_line(error) if str(error).strip() else ""
            described = ", ".join(f"{name} {array.shape}" for name, array in self.arguments.arrays.items())
            raise NetFails(self.where, f"{self.name} fails with the inputs {described}{at}: {type(error).__name__}: "
                            f"{message}", "Pass inputs that the net takes, in the order of its forward") from error

    def _finished(self, tape: Tape, arrays: dict[str, mx.nd.NDArray], outputs: Any) -> Run:
        entries, independent = [], None
        for number, output in enumerate(arrays_in(outputs)):
            if not isinstance(output, mx.nd.NDArray):
                raise OpError(self.where, f"{self.name} returns {output!r} among its outputs; expected arrays, in "
                              "lists, tuples or dicts", "Return only what it computes, with MXNet's operators")
            state = tape.entry_of(output)
            if state.fault is not None:
                raise refusal(self.where, self.name, state.fault)
            if not state.depends and independent is None:
                independent = Fault(f"returns output {number}, which depends on no input: it is made",
                                    tape.lines.get(state.entry[0]),
                                    "Return what is computed from the inputs, and keep constants outside of the net")
            entries.append(state.entry)
        if not entries:
            raise OpError(self.where, f"{self.name} returns nothing", "Return its outputs")
        attrs = {"mxnet_version": ["int", CURRENT]}
        if self.arguments.is_numpy:
            attrs["is_np_shape"] = ["int", 1]
        graph = Graph([self._named(tape, entry) for entry in entries], attrs)
        needed = graph.nodes()
        place = {node: number for number, node in enumerate(tape.nodes)}
        nodes = sorted(needed, key=lambda node: -1 if node.is_variable else place.get(node, len(place)))
        return Run(graph, nodes, tape.lines, tape.shapes, tape.dtypes, tape.constants,
                   {name: array.shape for name, array in arrays.items()}, list(tape.reads), independent,
                   tape.calls, tape.call_of)

    def _named(self, tape: Tape, entry: Entry) -> Entry:
        """An output of the graph. One that is an input is copied."""
        if not entry[0].is_variable:
            return entry
        return Node("_copy", tape.namer.take(f"{entry[0].name}_copy"), {}, [entry]), 0


@contextlib.contextmanager
def _imperative(net: mx.gluon.Block) -> Iterator[None]:
    """Run every block of a net operator by operator, although it may be hybridized."""
    active = [block for block in blocks_of(net) if getattr(block, "_active", False)]
    for block in active:
        block._active = False
    try:
        yield
    finally:
        for block in active:
            block._active = True


def _graphs(net: mx.gluon.Block) -> dict[int, mx.sym.Symbol]:
    """The graphs of blocks that run a graph although they are not hybridized: address of the CachedOp -> graph."""
    return {block._cached_op.handle.value: block._cached_graph[1] for block in blocks_of(net)
            if getattr(block, "_cached_op", None) and block._cached_graph}
