"""The tape: what one run of a net computes, as nodes of a graph. Arrays are known by their handles."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

from ...backends.native import operator_handle
from ...contract.errors import OpError
from ..graph import VARIABLE, Entry, Graph, Node
from ..operators.rule_registry import traits_named
from .arguments import arrays_of_arguments
from .hooks import observed
from .naming import Line, Namer, address, line_of_user

_LIB = mx.base._LIB
COPY = "_copyto"
NO_ATTRIBUTES = ("ctx",)   # Arguments of an operator in Python that a graph does not have.


class Fault(NamedTuple):
    """Why what an array contains cannot be recorded, and where in the user's code that began."""
    what: str
    line: Line | None
    remedy: str


@dataclasses.dataclass(eq=False)
class State:
    """What an array contains.

    - ``entry``: the output of a node; None if ``fault`` says why there is none.
    - ``depends``: whether it depends on an input.
    - ``storage``: the handles of all arrays that share its memory. ``part``: the same object for all arrays that are
      the same part of that memory.
    - ``unreshaped``: the state of which a view has the numbers in another shape.
    """
    entry: Entry | None
    shape: tuple[int, ...]
    depends: bool
    storage: set[int] = dataclasses.field(default_factory=set)
    part: object = dataclasses.field(default_factory=object)
    fault: Fault | None = None
    unreshaped: State | None = None


@dataclasses.dataclass(eq=False)
class BlockCall:
    """A call of a block. ``around`` is the number of the call that it is in. ``arguments``: array -> its name there."""
    block: mx.gluon.Block
    around: int | None
    arguments: dict[Entry, str]


class Tape:
    """Records what one thread computes.

    - ``nodes``: in the order in which they were computed. ``lines``: where the user's code asked for them.
    - ``shapes``: of each output. ``constants``: name -> array, of what the run read and no node computed.
    - ``reads``: the lines that read numbers which depend on an input.
    - ``calls``: of blocks. ``call_of``: the number of the innermost call that has computed a node.
    """

    def __init__(self, where: str, net: str, inputs: dict[str, mx.nd.NDArray], named: dict[int, tuple[str, Any]],
                 graphs: dict[int, mx.sym.Symbol], changed_line: Line | None = None, change: Any = None):
        self.is_busy = False
        self.where, self.net = where, net
        self.namer = Namer()
        self.nodes: list[Node] = []
        self.lines: dict[Node, Line | None] = {}
        self.shapes: dict[Entry, tuple[int, ...]] = {}
        self.dtypes: dict[Entry, np.dtype] = {}
        self.constants: dict[str, Any] = {}
        self.reads: dict[Line | None, None] = {}
        self.touched: dict[int, tuple[Any, Any]] = {}
        self.calls: list[BlockCall] = []
        self.call_of: dict[Node, int] = {}
        self._around: list[int] = []
        self._named, self._graphs = named, graphs
        self._changed_line, self._change = changed_line, change
        self._states: dict[int, State] = {}
        for name, array in inputs.items():
            self._bind(address(array), (Node(VARIABLE, self.namer.take(name)), 0), depends=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Record what this thread computes inside the block."""
        with observed(self):
            yield

    # What hooks call.

    def enter(self, block: mx.gluon.Block, inputs: tuple) -> None:
        """A block is called."""
        call = BlockCall(block, self._around[-1] if self._around else None, {})
        for name, array in arrays_of_arguments(block, inputs):
            state = self._states.get(address(array))
            if state is not None and state.entry is not None:
                call.arguments.setdefault(state.entry, name)
        self._around.append(len(self.calls))
        self.calls.append(call)

    def leave(self) -> None:
        """The innermost call has ended."""
        self._around.pop()

    def forget(self, handle: int) -> None:
        """The array is gone."""
        state = self._states.pop(handle, None)
        if state is not None:
            state.storage.discard(handle)

    def read(self, handle: int) -> State:
        """What an array contains. One that no node computes is a constant."""
        state = self._states.get(handle)
        if state is None:
            return self._constant(handle)
        if state.fault is not None and not state.depends:
            return self._constant(handle, state)   # It was made ready in place, and depends on no input.
        return state

    def writes(self, handles: Iterable[int]) -> None:
        """Arrays will be overwritten. Those of the net get their numbers back in the end."""
        for handle in handles:
            state = self._states.get(handle)
            for each in {handle} | (set() if state is None else state.storage):
                if each in self._named and each not in self.touched:
                    _, array = self._named[each]
                    self.touched[each] = array, array.copy()

    def computed(self, op: str, attrs: dict[str, str], sources: list[State], handles: list[int],
                 is_given: bool) -> None:
        """An operator has been computed. ``is_given`` says whether it wrote to arrays that existed before."""
        depends = any(source.depends for source in sources)
        named = [handle for handle in handles if handle in self._states or handle in self._named] if is_given else []
        if traits_named(op).assigns and named:
            self._assigned(named, depends)
            return
        fault = next((source.fault for source in sources if source.fault), None)
        if fault is not None:
            self._poison(handles, fault, depends)
            return
        if op == COPY:
            entries = [self._copied(sources[0], handles[0])]
        else:
            attrs = {name: value for name, value in attrs.items() if name not in NO_ATTRIBUTES}
            node = self._node(op, attrs, [source.entry for source in sources])
            entries = [(node, index) for index in range(len(handles))]
        for entry, handle in zip(entries, handles):
            self._bind(handle, entry, depends)

    def ran(self, graph: int, sources: list[State], handles: list[int]) -> None:
        """A graph that was made before has been run."""
        depends = any(source.depends for source in sources)
        fault = next((source.fault for source in sources if source.fault), None)
        if fault is None and graph not in self._graphs:
            fault = Fault("runs a CachedOp that was made elsewhere", line_of_user(), "Call its symbol's SymbolBlock")
        if fault is not None:
            self._poison(handles, fault, depends)
            return
        symbol = self._graphs[graph]
        part = Graph.of(symbol)
        of_name = {name: source.entry for name, source in zip(symbol.list_inputs(), sources)}
        part.replace({(node, 0): of_name[node.name] for node in part.nodes() if node.is_variable})
        recorded = set(self.nodes)
        for node in Graph(part.outputs, {}).nodes():
            if node not in recorded and not node.is_variable:
                node.name = self.namer.take(node.name)
                self._append(node)
        for entry, handle in zip(part.outputs, handles):
            self._bind(handle, entry, depends)

    def made_graph(self, graph: int, symbol: Any) -> None:
        """A CachedOp has been made in this run."""
        self._graphs[graph] = _symbol_of(symbol)

    def reshaped(self, source: State, handle: int) -> None:
        """A view has the same numbers in another shape."""
        origin, shape = source.unreshaped or source, _shape(handle)
        if source.fault is not None or shape == source.shape:
            self.aliased(source, handle)
            return
        if origin.shape == shape:
            entry = origin.entry
        else:
            entry = self._reshape(origin.entry, shape)
        self._view(handle, entry, shape, source, origin)

    def sliced(self, source: State, handle: int, begin: int, end: int) -> None:
        """A view has rows of an array, or a range of one that has been made flat."""
        if source.fault is not None:
            self._view(handle, None, _shape(handle), source)
            return
        origin, shape = source.unreshaped or source, _shape(handle)
        if begin == 0 and end == source.shape[0]:
            self.reshaped(source, handle)
            return
        if len(source.shape) != 1:
            origin = source
        bounds = _box(origin.shape, begin, end) if len(source.shape) == 1 else [(begin, end)]
        if bounds is None:   # no range of an axis
            origin, bounds = source, [(begin, end)]
        node = self._slice_node(origin, bounds)
        box = (*(last - first for first, last in bounds), *origin.shape[len(bounds):])
        part = State((node, 0), box, source.depends)
        self.shapes[part.entry], self.dtypes[part.entry] = box, self.dtypes[origin.entry]
        if box == shape:
            self._view(handle, part.entry, shape, source)
        else:   # Where another reshape follows, it reads the slice, and nothing reads this one.
            self._view(handle, self._reshape(part.entry, shape), shape, source, part)

    def aliased(self, source: State, handle: int) -> None:
        """Another array has the same memory."""
        self._states[handle] = dataclasses.replace(source)
        source.storage.add(handle)

    def to_numpy(self, source: State, handle: int, data: Any) -> None:
        """The numbers of an array have been copied to NumPy."""
        if not source.depends:
            return
        line = line_of_user()
        self.reads[line] = None
        if self._change is not None and line == self._changed_line:
            dtype, size = _dtype(handle), math.prod(_shape(handle))
            if size:
                buffer = (ctypes.c_char * (size * dtype.itemsize)).from_address(_pointer(data))
                array = np.frombuffer(buffer, dtype)
                array[:] = self._change(array.copy())

    def overwritten(self, handle: int) -> None:
        """An array has got numbers from outside."""
        if handle in self._states or handle in self._named:
            self._assigned([handle], False)

    def refuse(self, what: str) -> None:
        """Raise an OpError for what no graph can do."""
        raise refusal(self.where, self.net, Fault(what, line_of_user(), "Leave it out of the net's forward"))

    # What callers ask for afterwards.

    def entry_of(self, array: mx.nd.NDArray) -> State:
        """What an array contains, after the run."""
        return self.read(address(array))

    def restore(self) -> None:
        """Give the net's own arrays the numbers that they had before the run."""
        for array, before in self.touched.values():
            array[:] = before

    # The rest.

    def _bind(self, handle: int, entry: Entry, depends: bool) -> None:
        """An array contains an output. Other arrays that share its memory, and are not the same part, are lost."""
        old = self._states.get(handle)
        shape = _shape(handle)
        self.shapes.setdefault(entry, shape)
        self.dtypes.setdefault(entry, _dtype(handle))
        new = State(entry, shape, depends)
        if old is not None:
            new.storage, new.part = old.storage, old.part
            fault = Fault("changes an array in place that shares its memory with another one", line_of_user(),
                          "Compute a new array: y = y + x in place of y += x")
            self._spoil(old, fault, depends, keep=new)
        self._states[handle] = new
        new.storage.add(handle)

    def _spoil(self, state: State, fault: Fault, depends: bool, keep: State | None = None) -> None:
        """What is in the memory of an array changes. Arrays that are the same part of it contain ``keep``."""
        for handle in list(state.storage):
            other = self._states[handle]
            if keep is not None and other.part is state.part:
                self._states[handle] = dataclasses.replace(keep, shape=other.shape)
            else:
                self._states[handle] = dataclasses.replace(other, entry=None, fault=fault, unreshaped=None,
                                                           depends=other.depends or depends)

    def _assigned(self, handles: list[int], depends: bool) -> None:
        """Numbers are assigned to an array, or to a part of it."""
        fault = Fault("assigns to an array in place", line_of_user(),
                      "Compute a new array, for instance with where, concat or stack")
        for handle in handles:
            state = self._states.get(handle) or self._constant(handle)
            self._spoil(state, fault, depends)

    def _poison(self, handles: list[int], fault: Fault, depends: bool) -> None:
        """Arrays contain what cannot be recorded, and so do those that share their memory."""
        for handle in handles:
            old = self._states.get(handle)
            if old is not None:
                self._spoil(old, fault, depends)
            else:
                self._states[handle] = State(None, _shape(handle), depends, {handle}, fault=fault)

    def _view(self, handle: int, entry: Entry | None, shape: tuple[int, ...], source: State,
              unreshaped: State | None = None) -> None:
        state = State(entry, shape, source.depends, source.storage, fault=source.fault, unreshaped=unreshaped)
        self._states[handle] = state
        state.storage.add(handle)
        if entry is not None:
            self.shapes[entry], self.dtypes[entry] = shape, _dtype(handle)

    def _copied(self, source: State, handle: int) -> Entry:
        """The entry that is copied, in the type of the array that it is copied to."""
        dtype = _dtype(handle)
        if dtype == self.dtypes[source.entry]:
            return source.entry
        return self._node("Cast", {"dtype": dtype.name}, [source.entry]), 0

    def _node(self, op: str, attrs: dict[str, str], inputs: list[Entry]) -> Node:
        node = Node(op, self.namer.of_node(op), attrs, inputs)
        if count := _name_of_count(op):
            node.attrs.setdefault(count, str(len(inputs)))
        self._append(node)
        return node

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.lines[node] = line_of_user()
        if self._around:
            self.call_of[node] = self._around[-1]

    def _reshape(self, entry: Entry, shape: tuple[int, ...]) -> Entry:
        if not shape:   # Reshape takes an empty shape for none at all.
            return self._node("_np_squeeze", {}, [entry]), 0
        return self._node("Reshape", {"shape": str(shape)}, [entry]), 0

    def _slice_node(self, origin: State, bounds: list[tuple[int, int]]) -> Node:
        cut = [axis for axis, bound in enumerate(bounds) if bound != (0, origin.shape[axis])]
        if len(cut) == 1:
            begin, end = bounds[cut[0]]
            return self._node("slice_axis", {"axis": str(cut[0]), "begin": str(begin), "end": str(end)}, [origin.entry])
        begin, end = (tuple(bound[side] if axis in cut else None for axis, bound in enumerate(bounds))
                      for side in (0, 1))
        return self._node("slice", {"begin": str(begin), "end": str(end)}, [origin.entry])

    def _constant(self, handle: int, before: State | None = None) -> State:
        """The state of an array that no node computes: its numbers as they are now."""
        name, array = self._named.get(handle, (None, None))
        if name is None or before is not None:
            name, array = self.namer.of_constant(name), _copy_of(handle)
        elif name in self.constants:
            name = self.namer.take(name)
        else:
            self.namer.take(name)
        node = Node(VARIABLE, name)
        self.constants[name] = array
        self.lines[node] = line_of_user()
        state = State((node, 0), _shape(handle), False)
        self.shapes[state.entry], self.dtypes[state.entry] = state.shape, _dtype(handle)
        if before is not None:
            state.storage, state.part = before.storage, before.part
        state.storage.add(handle)
        self._states[handle] = state
        return state


def refusal(where: str, name: str, fault: Fault) -> OpError:
    """The OpError for a net that does what cannot be recorded."""
    at = "" if fault.line is None else f" in {fault.line}"
    return OpError(where, f"{name} {fault.what}{at}, which cannot be recorded", fault.remedy)


def _borrowed(handle: int) -> mx.nd.NDArray:
    """Another array with the same memory."""
    copy = mx.base.NDArrayHandle()
    mx.base.check_call(_LIB.MXShallowCopyNDArray(ctypes.c_void_p(handle), ctypes.byref(copy)))
    return mx.nd.NDArray(copy)


def _shape(handle: int) -> tuple[int, ...]:
    return _borrowed(handle).shape


def _dtype(handle: int) -> np.dtype:
    return np.dtype(_borrowed(handle).dtype)


def _copy_of(handle: int) -> mx.nd.NDArray:
    return _borrowed(handle).copy()


def _pointer(data: Any) -> int:
    return ctypes.cast(data, ctypes.c_void_p).value


def _symbol_of(handle: Any) -> mx.sym.Symbol:
    """A Symbol of its own for a handle."""
    copy = mx.base.SymbolHandle()
    mx.base.check_call(_LIB.MXSymbolCopy(handle, ctypes.byref(copy)))
    return mx.sym.Symbol(copy)


@functools.cache
def _name_of_count(op: str) -> str:
    """The attribute that says how many inputs an operator has, which a graph needs; empty if there is none."""
    name, text, key, kind = (ctypes.c_char_p() for _ in range(4))
    number, names, types, texts = mx.base.mx_uint(), *(ctypes.POINTER(ctypes.c_char_p)() for _ in range(3))
    mx.base.check_call(_LIB.MXSymbolGetAtomicSymbolInfo(
        ctypes.c_void_p(operator_handle(op)), ctypes.byref(name), ctypes.byref(text), ctypes.byref(number),
        ctypes.byref(names), ctypes.byref(types), ctypes.byref(texts), ctypes.byref(key), ctypes.byref(kind)))
    return (key.value or b"").decode()


def _box(shape: tuple[int, ...], begin: int, end: int) -> list[tuple[int, int]] | None:
    """The first and last index of each leading axis for a range of the numbers in an array; None if there are none.

    The axes behind them are whole.
    """
    for axis in range(len(shape)):
        inner = math.prod(shape[axis + 1:])
        if not inner or begin % inner or end % inner:
            continue
        first, last = begin // inner, end // inner
        row = first // shape[axis]
        if last > first and (last - 1) // shape[axis] == row:
            place = np.unravel_index(row, shape[:axis]) if axis else ()
            start = row * shape[axis]
            return [*((int(index), int(index) + 1) for index in place), (first - start, last - start)]
    return None
