"""What converters are made of: the ONNX model that they build, the node that they convert, and their table.

The converter of an operator is a function ``convert(call)``. It adds ONNX nodes for the node that the :class:`OnnxCall`
describes, and returns the tensors of its outputs. Operators of gluonops have one where ONNX has the operator itself;
the others are lowered to MXNet's before.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract.errors import OpError
from ...contract.op import PREFIX
from ..constants import evaluate
from ..graph import Graph, Node
from ..operators.rule_registry import ONNX, OPSETS
from ..sizes import SizedNode, Sizes
from ..symbolic import Atom, FreeSize, Quotient, Size, terms_of

if TYPE_CHECKING:
    import onnx

DEFAULT_OPSET = 17
CONVERTERS = ONNX   # operator -> function
SMALL = 64   # constants of up to so many elements are compared, and stand in the model itself
FIRST, LAST = -(2 ** 63), 2 ** 63 - 1   # ONNX's bounds of a slice that has no bound
# The types of results, where they are not those of the first input.
TYPES = {**dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"),
                         np.bool_),
         "IsNaN": np.bool_, **dict.fromkeys(("ArgMax", "ArgMin", "NonMaxSuppression", "Shape"), np.int64),
         "DequantizeLinear": np.float32, "QuantizeLinear": np.uint8}
TYPED_BY_LAST = ("OneHot", "Where")


class Tensor:
    """A tensor of a model under construction. Whatever computes with it adds a node, and returns another tensor.

    A number beside it becomes a constant of its type.
    """

    __slots__ = ("dtype", "model", "name")

    def __init__(self, model: Model, name: str, dtype: Any):
        self.model = model
        self.name = name
        self.dtype = np.dtype(dtype)

    def apply(self, op: str, *others: Tensor | float | None, **options: Any) -> Tensor | list[Tensor]:
        """The output of a node that reads it first; see :meth:`Model.add`."""
        return self.model.add(op, self, *others, **options)

    __add__, __sub__, __mul__, __truediv__, __lt__, __gt__, __ge__ = map(functools.partial(
        functools.partialmethod, apply), ("Add", "Sub", "Mul", "Div", "Less", "Greater", "GreaterOrEqual"))

    def __rsub__(self, other: float) -> Tensor:
        return self.model.add("Sub", other, self)

    def cast(self, dtype: Any) -> Tensor:
        """The same numbers in another type."""
        result = self.apply("Cast", to=onnx_type(dtype))
        result.dtype = np.dtype(dtype)
        return result

    def swapped(self, ndim: int, first: int, second: int) -> Tensor:
        """A copy with two of its axes exchanged."""
        order = list(range(ndim))
        order[first], order[second] = order[second], order[first]
        return self.apply("Transpose", perm=order)

    def reduce(self, op: str, axes: Sequence[int] | None = None, keepdims: bool = True) -> Tensor:
        """A reduction over ``axes``, by default over all. From opset 18 on ONNX takes the axes as a tensor."""
        if axes is None:
            return self.apply(op, keepdims=int(keepdims))
        if op == "ReduceSum" or self.model.opset >= 18:
            return self.apply(op, self.model.ints(*axes), keepdims=int(keepdims))
        return self.apply(op, axes=axes, keepdims=int(keepdims))

    def within(self, shape: Sequence[Size], axis: int, batch_axes: Sequence[int]) -> Tensor:
        """Whether each position along ``axis`` is before the end of its sequence, as it broadcasts to ``shape``.

        The tensor has the lengths of the sequences. ``batch_axes`` are the axes of ``shape`` that it has.
        """
        ends = [size if i in batch_axes else 1 for i, size in enumerate(shape)]
        along = [size if i == axis else 1 for i, size in enumerate(shape)]
        positions = self.model.positions(shape[axis], np.int64).reshape(along)
        return positions < self.cast(np.int64).reshape(ends)

    def cut(self, axes: Sequence[int], begins: Sequence[int | None], ends: Sequence[int | None],
            steps: Sequence[int] | None = None) -> Tensor:
        """A slice. A bound of None is the end of the axis in the step's direction."""
        steps = steps or [1] * len(axes)
        first = [(0 if step > 0 else LAST) if begin is None else begin for begin, step in zip(begins, steps)]
        last = [(LAST if step > 0 else FIRST) if end is None else end for end, step in zip(ends, steps)]
        return self.apply("Slice", *(self.model.ints(*values) for values in (first, last, axes, steps)))

    def as_indices(self, count: int | None = None, mode: str = "clip") -> Tensor:
        """Indices as int64, brought into 0 to ``count - 1`` by clipping or wrapping, or left as they are."""
        value = self.cast(np.int64)
        if count is None:
            return value
        return value.apply("Mod", count) if mode == "wrap" else value.apply("Clip", 0, count - 1)

    def column(self, begin: int, end: int | None = None) -> Tensor:
        """The columns from ``begin`` to ``end`` of its last axis if it has three; one column by default."""
        return self.cut([2], [begin], [begin + 1 if end is None else end])

    def reshape(self, sizes: Sequence[Size]) -> Tensor:
        """The same numbers in another shape. Reshapes in a row become one."""
        name, producer = self.name, self.model._producer
        while name in producer and producer[name].op_type == "Reshape":
            name = producer[name].input[0]
        source = Tensor(self.model, name, self.dtype)
        if sum(not isinstance(size, int) for size in sizes) > 1:   # one that depends on the batch may be inferred
            return source.apply("Reshape", self.model.shape(sizes))
        return source.apply("Reshape", self.model.ints(*[size if isinstance(size, int) else -1 for size in sizes]))

    def unsqueeze(self, *axes: int) -> Tensor:
        """A copy with further axes of one element."""
        return self.apply("Unsqueeze", self.model.ints(*axes))

    def expand(self, sizes: Sequence[Size]) -> Tensor:
        """Repeated along the axes of one element."""
        return self.apply("Expand", self.model.shape(sizes))


class Model:
    """The ONNX model under construction. Converters add nodes to it.

    - ``batch_of``: the name of the input whose first size is the batch size. None if the batch size is fixed.
    - ``source``: name of MXNet's node that is being converted. The names of the nodes that are added begin with it.
    """

    def __init__(self, batch_of: str | None, opset: int):
        self.opset = opset
        self.source = ""
        self._nodes = []
        self._producer = {}    # name of a tensor -> its node
        self._constants = {}   # key -> name, array
        self._names = set()
        self._batch_of = batch_of
        self._batch = None     # the tensor with the batch size

    def take(self, name: str) -> str:
        """Reserve a name: ``name``, or with a number appended if it is taken."""
        free = name
        number = 0
        while free in self._names:
            number += 1
            free = f"{name}_{number}"
        self._names.add(free)
        return free

    def add(self, op: str, *inputs: Tensor | float | None, outputs: int = 1, **attrs: Any) -> Tensor | list[Tensor]:
        """Add a node of ONNX's operator ``op``. Returns its output, or the outputs if there are several.

        ``inputs``: tensors. A number becomes a constant of the last tensor's type. None is an input that is left out.
        """
        from onnx import helper
        dtypes = [each.dtype for each in inputs if isinstance(each, Tensor)]
        tensors = [each if each is None or isinstance(each, Tensor) else self.scalar(each, dtypes[-1])
                   for each in inputs]
        names = [each.name if each else "" for each in tensors]
        made = [self.take(op.lower()) for _ in range(outputs)]
        node = helper.make_node(op, names, made, name=f"{self.source}/{made[0]}", **attrs)
        self._nodes.append(node)
        self._producer.update(dict.fromkeys(made, node))
        if op in TYPES:
            dtype = TYPES[op]
        elif dtypes:
            dtype = dtypes[-1 if op in TYPED_BY_LAST else 0]
        else:
            dtype = np.float32
        results = [Tensor(self, name, dtype) for name in made]
        if op == "TopK":
            results[1].dtype = np.dtype(np.int64)
        return results[0] if outputs == 1 else results

    def constant(self, array: np.ndarray, name: str = "constant") -> Tensor:
        """A constant tensor. Small ones that are equal are stored once."""
        content = array.tobytes() if array.size <= SMALL else id(array)
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            self._constants[key] = self.take(name), array
        return Tensor(self, self._constants[key][0], array.dtype)

    def array(self, tensor: Tensor) -> np.ndarray | None:
        """The value of a constant tensor; None if it is not constant."""
        return next((array for name, array in self._constants.values() if name == tensor.name), None)

    def ints(self, *values: int) -> Tensor:
        """A constant vector of int64, such as a shape or axes."""
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float, dtype: Any) -> Tensor:
        """A constant of one element, without axes."""
        return self.constant(np.array(value, dtype))

    def first_size(self, tensor: Tensor) -> Tensor:
        """The first size of a tensor as a vector of one element, computed at run time."""
        return tensor.apply("Shape").apply("Slice", self.ints(0), self.ints(1))

    def size(self, size: Size) -> Tensor:
        """A size as a vector of one element."""
        products = [self._product(atoms, factor) for atoms, factor in terms_of(size).items() if atoms]
        offset = terms_of(size).get((), 0)
        return functools.reduce(operator.add, products + [self.ints(offset)] * (offset != 0 or not products))

    def _product(self, atoms: tuple[Atom, ...], factor: int) -> Tensor:
        product = functools.reduce(operator.mul, map(self._unknown, atoms))
        return product if factor == 1 else product * self.ints(factor)

    def _unknown(self, atom: Atom) -> Tensor:
        """The batch size, or a quotient of sizes, as a vector of one element."""
        if isinstance(atom, Quotient):
            return self.size(atom.top) / self.size(atom.bottom)
        if self._batch is None:
            self._batch = self.first_size(Tensor(self, self._batch_of, np.float32))
        return self._batch

    def shape(self, sizes: Sequence[Size]) -> Tensor:
        """Sizes as a vector, computed at run time if one depends on the batch size."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(*sizes)
        return self.add("Concat", *[self.size(size) for size in sizes], axis=0)

    def positions(self, size: Size, dtype: Any) -> Tensor:
        """The vector 0, 1, ... of a size."""
        if not isinstance(size, FreeSize):
            return self.constant(np.arange(size, dtype=dtype))
        return self.add("Range", 0, self.size(size).reshape(()), 1).cast(dtype)

    def finish(self, inputs: list[tuple], outputs: list[tuple],
               metadata: dict[str, str]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model without its large constants, and those by name.

        - ``inputs``: name, shape and type.
        - ``outputs``: name of the tensor, its name in the file, shape and type.
        """
        from onnx import helper, numpy_helper

        from ...version import __version__
        self.source = "outputs"
        results = self._named([(tensor, name) for tensor, name, _, _ in outputs])
        nodes = self._needed_nodes(results)
        read = {tensor for node in nodes for tensor in node.input}.union(results)
        input_infos = [_info(name, shape, dtype) for name, shape, dtype in inputs]
        output_infos = [_info(name, shape, dtype) for name, (_, _, shape, dtype) in zip(results, outputs)]
        graph = helper.make_graph(nodes, "gluonops", input_infos, output_infos)

        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets),
                                  producer_name="gluonops", producer_version=__version__)
        helper.set_model_props(model, metadata)
        constants = {name: array for name, array in self._constants.values() if name in read}
        large = {name: array for name, array in constants.items() if array.size > SMALL}
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items()
                                       if name not in large)
        return model, large

    def _needed_nodes(self, results: list[str]) -> list[onnx.NodeProto]:
        """The nodes that the results depend on, in order."""
        nodes = []
        needed = set(results)
        for node in reversed(self._nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        return nodes[::-1]

    def _named(self, outputs: list[tuple[str, str]]) -> list[str]:
        """Give tensors the names of outputs: rename them, or copy what cannot be renamed. Returns the names."""
        renamed, results = {}, []
        for tensor, name in outputs:
            results.append(self.take(name))
            if tensor in self._producer and tensor not in renamed:
                renamed[tensor] = results[-1]
            else:   # an input, a constant, or another output already
                self.add("Identity", Tensor(self, tensor, np.float32))
                self._nodes[-1].output[0] = results[-1]
        for node in self._nodes:
            for tensors in (node.input, node.output):
                tensors[:] = [renamed.get(each, each) for each in tensors]
        return results


def onnx_type(dtype: Any) -> int:
    """ONNX's number of a NumPy type."""
    from onnx import helper
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _info(name: str, shape: Sequence[Size], dtype: Any) -> onnx.ValueInfoProto:
    from onnx import helper
    sizes = [size if isinstance(size, int) else str(size) for size in shape]
    return helper.make_tensor_value_info(name, onnx_type(dtype), sizes)


def refusal(node: Node, what: str) -> OpError:
    """An OpError for a node that ONNX, or the operator's converter, does not support. ``what`` is the reason."""
    return OpError("export.onnx", f"the node {node.name!r} ({node.op}) cannot be exported to ONNX: it {what}",
                   "Replace it in the net, or export symbol JSON")


class OnnxCall(SizedNode):
    """A node to convert. ``inputs``: tensors; None for an input of which the operator reads the shape only."""

    def __init__(self, model: Model, node: Node, inputs: list[Tensor | None], sizes: Sizes):
        super().__init__(node, sizes)
        self.model = model
        self.inputs = inputs

    @property
    def operands(self) -> list[Tensor | None]:
        """What a converter takes as inputs."""
        return self.inputs

    @property
    def type_number(self) -> int:
        """ONNX's number of the type of the first output."""
        return onnx_type(self.dtype)

    def of_zeros(self, *shapes: tuple[int, ...]) -> Tensor:
        """What MXNet computes of arrays of zeros of these shapes, as a constant."""
        inputs = [(Node("_zeros", "placeholder", {"shape": str(shape), "dtype": self.dtype.name}), 0)
                  for shape in shapes]
        value, = evaluate([(Node(self.node.op, self.node.name, self.node.options(), inputs), 0)], {}, {})
        return self.model.constant(value)

    def refuse(self, what: str) -> OpError:
        """An OpError; see :func:`refusal`."""
        return refusal(self.node, what)

    def refuse_integers(self) -> None:
        """Raise an OpError for integers: MXNet rounds them, or they overflow, differently than in ONNX."""
        if self.dtype.kind in "iu":
            raise self.refuse(f"computes in {self.dtype}, where MXNet's numbers are not ONNX's; expected float32")

    def widened(self, compute: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """What a function of tensors computes, of int8 and uint8 in int32: ONNX has no powers and sums of 8 bits."""
        if self.dtype.itemsize > 1:
            return compute(*values)
        return compute(*[value.cast(np.int32) for value in values]).cast(self.dtype)


def opset_of(graph: Graph, opset: int | None) -> int:
    """The version of ONNX's operators to write: the given one, or else the default, or what the graph needs.

    An OpError is raised if a node needs a newer one than the given one.
    """
    needs = {node: OPSETS[node.op] for node in graph.nodes() if node.op in OPSETS}
    first = max([DEFAULT_OPSET, *needs.values()])
    for node, needed in needs.items():
        if opset is not None and opset < needed:
            raise OpError("export.onnx", f"the node {node.name!r} is the operator {node.op}, which ONNX has from opset "
                          f"{needed} on, and opset is {opset}", f"Leave opset out, or pass {first}")
    return first if opset is None else opset


def whole(opset: int) -> list[str]:
    """The operators of gluonops that ONNX has itself in a version."""
    return [name[len(PREFIX):] for name in CONVERTERS if name.startswith(PREFIX) and OPSETS.get(name, 0) <= opset]
