"""Builds an ONNX model: adds nodes, names tensors, and leaves out nodes that nothing reads."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import OpError
from ..graph import Node
from ..sizes import Batch, Size, SizedNode, Sizes
from .content import declared

if TYPE_CHECKING:
    import onnx

SMALL = 64   # constants of up to so many elements are compared, and stand in the model itself


class Model:
    """The ONNX model under construction. Converters add nodes to it; a tensor is its name.

    - ``batch_of``: the input whose first size is the batch size. None if the batch size is fixed.
    - ``opset``: version of ONNX's operators.
    - ``source``: name of MXNet's node that is being converted. The names of the nodes that are added begin with it.
    """

    def __init__(self, batch_of: str | None, opset: int):
        self.opset = opset
        self.source = ""
        self._nodes = []
        self._producer = {}    # tensor -> its node
        self._constants = {}   # key -> name, array
        self._names = set()
        self._renamed = {}     # tensor -> the output whose name it has
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

    def add(self, op: str, *inputs: str, outputs: int = 1, name: str | None = None, **attrs: Any) -> str | list[str]:
        """Add a node.

        - ``op``: ONNX's operator.
        - ``inputs``: tensors. An empty string is an input that is left out.
        - ``outputs``: how many outputs it has.
        - ``name``: name of the output. The default is the operator's.
        - ``attrs``: attributes of the node.

        Returns the output, or the outputs if there are several.
        """
        from onnx import helper
        made = [self.take(name or op.lower()) for _ in range(outputs)]
        node = helper.make_node(op, list(inputs), made, name=f"{self.source}/{made[0]}", **attrs)
        self._nodes.append(node)
        self._producer.update(dict.fromkeys(made, node))
        return made[0] if outputs == 1 else made

    def constant(self, array: np.ndarray, name: str = "constant") -> str:
        """A constant tensor. Small ones that are equal are stored once."""
        content = array.tobytes() if array.size <= SMALL else id(array)
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            self._constants[key] = self.take(name), array
        return self._constants[key][0]

    def array(self, tensor: str) -> np.ndarray | None:
        """The value of a constant tensor; None if it is not constant."""
        return next((array for name, array in self._constants.values() if name == tensor), None)

    def ints(self, *values: int) -> str:
        """A constant vector of int64, such as a shape or axes."""
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float, dtype: Any) -> str:
        """A constant of one element, without axes."""
        return self.constant(np.array(value, dtype))

    def cast(self, value: str, dtype: Any) -> str:
        """``value`` in another type."""
        return self.add("Cast", value, to=onnx_type(dtype))

    def reduce(self, op: str, value: str, axes: Sequence[int] | None = None, keepdims: bool = True) -> str:
        """A reduction over ``axes``, by default over all. From opset 18 on ONNX takes the axes as a tensor."""
        if axes is None:
            return self.add(op, value, keepdims=int(keepdims))
        if op == "ReduceSum" or self.opset >= 18:
            return self.add(op, value, self.ints(*axes), keepdims=int(keepdims))
        return self.add(op, value, axes=axes, keepdims=int(keepdims))

    def split(self, value: str, count: int, axis: int) -> list[str]:
        """``count`` equal parts along an axis. From opset 18 on ONNX needs their number."""
        options = {"num_outputs": count} if self.opset >= 18 else {}
        return self.add("Split", value, outputs=count, axis=axis, **options)

    def batch(self) -> str:
        """The batch size as a vector of one element."""
        if self._batch is None:
            shape = self.add("Shape", self._batch_of)
            self._batch = self.add("Slice", shape, self.ints(0), self.ints(1))
        return self._batch

    def size(self, size: Size) -> str:
        """A size as a vector of one element."""
        if not isinstance(size, Batch):
            return self.ints(size)
        value = self.batch()
        if size.factor != 1:
            value = self.add("Mul", value, self.ints(size.factor))
        if size.offset:
            value = self.add("Add", value, self.ints(size.offset))
        return value

    def shape(self, sizes: Sequence[Size]) -> str:
        """Sizes as a vector, computed at run time if one depends on the batch size."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(*sizes)
        return self.add("Concat", *[self.size(size) for size in sizes], axis=0)

    def reshape(self, value: str, sizes: Sequence[Size]) -> str:
        """``value`` in another shape. Reshapes in a row become one."""
        while value in self._producer and self._producer[value].op_type == "Reshape":
            value = self._producer[value].input[0]
        depend_on_batch = [size for size in sizes if not isinstance(size, int)]
        if len(depend_on_batch) <= 1:
            target = self.ints(*[size if isinstance(size, int) else -1 for size in sizes])
        else:
            target = self.shape(sizes)
        return self.add("Reshape", value, target)

    def positions(self, size: Size, dtype: Any) -> str:
        """The vector 0, 1, ... of a size."""
        if not isinstance(size, Batch):
            return self.constant(np.arange(size, dtype=dtype))
        count = self.reshape(self.size(size), ())
        return self.cast(self.add("Range", self.scalar(0, np.int64), count, self.scalar(1, np.int64)), dtype)

    def finish(self, inputs: list[tuple], outputs: list[tuple],
               metadata: dict[str, str]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model without its large constants, and those by name.

        - ``inputs``: tensor, shape and type.
        - ``outputs``: tensor, its name in the file, shape and type.
        """
        from onnx import helper

        from ...version import __version__
        self.source = "outputs"
        results = [self._named(tensor, name) for tensor, name, _, _ in outputs]
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
        for name, array in constants.items():
            if name not in large:
                initializer = declared(name, array)
                initializer.raw_data = array.tobytes()
                model.graph.initializer.append(initializer)
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

    def _named(self, tensor: str, name: str) -> str:
        """Give a tensor an output's name: rename it, or copy it if it cannot be renamed."""
        name = self.take(name)
        tensor = self._renamed.get(tensor, tensor)
        if tensor not in self._producer:   # an input, a constant, or another output already
            self.add("Identity", tensor)
            self._nodes[-1].output[0] = name
            return name
        del self._producer[tensor]
        self._renamed[tensor] = name
        for node in self._nodes:
            for tensors in (node.input, node.output):
                tensors[:] = [name if each == tensor else each for each in tensors]
        return name


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
    return OpError("export.onnx", f"the node {node.name!r} ({node.op}) {what}",
                   "Replace it in the net, or export symbol JSON")


class Call(SizedNode):
    """A node to convert.

    ``inputs``: tensors. An empty string is an input of which the operator reads the shape only.
    """

    def __init__(self, node: Node, inputs: list[str], sizes: Sizes):
        super().__init__(node, sizes)
        self.inputs = inputs

    def refuse(self, what: str) -> OpError:
        """An OpError; see :func:`refusal`."""
        return refusal(self.node, what)
