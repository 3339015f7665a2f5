"""Builds an ONNX model: adds nodes, names tensors, drops what nobody reads."""
import ast

import numpy as np

from ...core.errors import OpError
from .sizes import Batch

SMALL = 64   # elements


class Model:
    """The model under construction. Converters call :meth:`add` with names of tensors and get names back."""

    def __init__(self, batch_of, opset):
        self.opset = opset
        self._nodes, self._producer = [], {}
        self._constants, self._names = {}, set()
        self._batch_of = batch_of   # the input whose first size is the batch; None where the batch is fixed
        self._batch = None
        self.source = ""    # the node of MXNet's that is being converted
        self._renamed = {}   # tensor -> the output whose name it bears

    def take(self, name):
        """``name``, or one like it that is not taken."""
        free, number = name, 0
        while free in self._names:
            number += 1
            free = f"{name}_{number}"
        self._names.add(free)
        return free

    def add(self, op, *inputs, outputs=1, name=None, **attrs):
        """Add a node; returns the name of its output, or a list of them. An empty string is an input left out.

        Its name begins with that of MXNet's node, so that others can tell what they complain of.
        """
        from onnx import helper
        made = [self.take(name or op.lower()) for _ in range(outputs)]
        node = helper.make_node(op, list(inputs), made, name=f"{self.source}/{made[0]}", **attrs)
        self._nodes.append(node)
        self._producer.update(dict.fromkeys(made, node))
        return made[0] if outputs == 1 else made

    def constant(self, array, name="constant"):
        """A constant tensor; small ones that are equal are stored once."""
        key = (array.dtype.str, array.shape, array.tobytes() if array.size <= SMALL else id(array))
        if key not in self._constants:
            self._constants[key] = self.take(name), array
        return self._constants[key][0]

    def ints(self, *values):
        """A vector of int64, as shapes, axes and the like are passed."""
        return self.constant(np.array(values, np.int64))

    def scalar(self, value, dtype):
        return self.constant(np.array(value, dtype))

    def cast(self, value, dtype):
        return self.add("Cast", value, to=onnx_type(dtype))

    def reduce(self, op, value, axes=None, keepdims=True):
        """A reduction, along all axes where none are given. ONNX takes axes as a tensor from opset 18 on."""
        if axes is None:
            return self.add(op, value, keepdims=int(keepdims))
        if op == "ReduceSum" or self.opset >= 18:
            return self.add(op, value, self.ints(*axes), keepdims=int(keepdims))
        return self.add(op, value, axes=axes, keepdims=int(keepdims))

    def split(self, value, count, axis):
        """Equal parts along an axis. ONNX asks for their number from opset 18 on."""
        options = {"num_outputs": count} if self.opset >= 18 else {}
        return self.add("Split", value, outputs=count, axis=axis, **options)

    def batch(self):
        """The batch size as a vector of one."""
        if self._batch is None:
            shape = self.add("Shape", self._batch_of)
            self._batch = self.add("Slice", shape, self.ints(0), self.ints(1))
        return self._batch

    def size(self, size):
        """One size as a vector of one."""
        if not isinstance(size, Batch):
            return self.ints(size)
        value = self.batch() if size.factor == 1 else self.add("Mul", self.batch(), self.ints(size.factor))
        return self.add("Add", value, self.ints(size.offset)) if size.offset else value

    def shape(self, sizes):
        """Sizes as a vector, computed at run time where they depend on the batch."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints(*sizes)
        return self.add("Concat", *[self.size(size) for size in sizes], axis=0)

    def reshape(self, value, sizes):
        """``value`` in another shape; a reshape of a reshape is one."""
        while value in self._producer and self._producer[value].op_type == "Reshape":
            value = self._producer[value].input[0]
        open_sizes = [i for i, size in enumerate(sizes) if not isinstance(size, int)]
        if len(open_sizes) <= 1:
            target = self.ints(*[-1 if i in open_sizes else size for i, size in enumerate(sizes)])
        else:
            target = self.shape(sizes)
        return self.add("Reshape", value, target)

    def finish(self, inputs, outputs, metadata):
        """The ModelProto.

        Parameters
        ----------
        inputs : list of (str, tuple, numpy.dtype)
        outputs : list of (str, str, tuple, numpy.dtype)
            Tensor, the name it is to have, shape, type.
        metadata : dict of str to str
        """
        from onnx import helper, numpy_helper

        from ...version import __version__
        self.source = "outputs"
        results = [self._named(tensor, name) for tensor, name, *_ in outputs]
        nodes, needed = [], set(results)
        for node in reversed(self._nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        constants = [numpy_helper.from_array(array, name) for name, array in self._constants.values() if name in needed]
        graph = helper.make_graph(
            nodes[::-1], "gluonops", [_info(name, shape, dtype) for name, shape, dtype in inputs],
            [_info(name, *rest) for name, (_, _, *rest) in zip(results, outputs)], constants)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets),
                                  producer_name="gluonops", producer_version=__version__)
        helper.set_model_props(model, metadata)
        return model

    def _named(self, tensor, name):
        """The tensor under an output's name: its node's output is renamed, and copied where that cannot be."""
        name, tensor = self.take(name), self._renamed.get(tensor, tensor)
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


def onnx_type(dtype):
    from onnx import helper
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _info(name, shape, dtype):
    from onnx import helper
    return helper.make_tensor_value_info(name, onnx_type(dtype),
                                         [size if isinstance(size, int) else str(size) for size in shape])


def refusal(node, what):
    """The error for a node that ONNX, or its converter, does not have in this form."""
    return OpError("export.onnx", f"the node {node.name!r} ({node.op}) {what}",
                   "Replace it in the net, or export symbol JSON")


class Call:
    """One node to convert: its inputs as tensors, its attributes as values, its shapes and types."""

    def __init__(self, node, inputs, sizes):
        self.node, self.inputs = node, inputs
        self.shapes = [sizes.shape[entry] for entry in node.inputs]
        self.dtypes = [sizes.dtype[entry] for entry in node.inputs]
        self._sizes = sizes

    @property
    def shape(self):
        """Of the first output."""
        return self._sizes.shape[self.node, 0]

    @property
    def dtype(self):
        return self._sizes.dtype[self.node, 0]

    def text(self, name, default=None):
        return self.node.attrs.get(name, default)

    def value(self, name, default=None):
        """A number, tuple or None."""
        text = self.node.attrs.get(name)
        if text is None:
            return default
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return float(text)   # nan, inf

    def ints(self, name, default):
        """A tuple of integers; ``default`` where it is absent or empty."""
        value = self.value(name)
        if value is None or value == () or value == []:
            return default
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def flag(self, name, default=False):
        return self.node.flag(name, default)

    def axis(self, name="axis", default=-1):
        """An axis of the first input, counted from the front."""
        return self.value(name, default) % len(self.shapes[0])

    def refuse(self, what):
        """The error for what ONNX, or this converter, lacks."""
        return refusal(self.node, what)
