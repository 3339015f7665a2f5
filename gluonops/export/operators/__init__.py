"""MXNet's operators, stated once: what each takes, the shape that it makes, and what it is in ONNX and in torch.

``schema.json`` says what MXNet itself knows: names, aliases, inputs, and attributes with types and defaults.
``python -m gluonops.export.operators.generate`` writes it from the registry of the installed MXNet. A family is a
module, such as :mod:`.layers`. What is known of an operator stands there, one thing below the other::

    traits("LRN", normalizes=True)

    @shape("LRN")
    def _(call, data):
        return data

    @onnx("LRN")
    def _(call, data, *, nsize, alpha, beta, knorm):
        return data.apply("LRN", size=nsize, alpha=alpha, beta=beta, bias=knorm)

    @torch("LRN")
    def _(call, *, nsize, alpha, beta, knorm):
        call.refuse_if(nsize % 2 == 0, "has an even nsize, of which MXNet makes the next odd one")
        return Form(module="nn.LocalResponseNorm", args={"size": nsize, "alpha": Single(alpha), ...})

**Attributes.** The keyword-only parameters of a function name the attributes that it takes. They arrive as numbers,
booleans, words and tuples, with MXNet's default where a node does not have them. So no function has a default of
MXNet's, and none reads ``call.node.attrs``. A tuple that a node does not have is empty. Whatever MXNet does not take
is an :class:`~gluonops.OpError` of :mod:`.attributes`, which names the node, the attribute, the value and what is
allowed. ``call.attributes`` has all of them. Elsewhere :func:`.attributes.attributes_of` returns the same record of
a node, and ``tests/test_tree.py`` finds what reads an attribute with a default of its own.

**Inputs.** Parameters behind ``call`` are the inputs: their shapes in a rule, of which some may be None, and their
tensors in ONNX. A converter to torch names them in a text, as ``{0}``, or ``*{inputs}`` for all, and ``{axis}`` is an
attribute there. ``call`` also has ``shapes``, ``dtypes``, ``shape`` and ``dtype`` (those of the first output), and
more: see :class:`.shapes.Call`, ``onnx.builder.OnnxCall`` and ``torch.converters.TorchCall``.

**Several operators.** A function may serve several. What tells them apart is an argument that the decorator passes. It
has a default in the function, or it stands for an attribute that one of the operators lacks::

    @onnx("softmax")
    @onnx("log_softmax", function="LogSoftmax")
    def _(call, data, *, axis, function="Softmax"): ...

    @shape("LayerNorm")
    @shape("InstanceNorm", axis=1)
    def _(call, *, axis): ...

**Values.** ``@values`` enters what NumPy computes of the values of an operator's inputs, to the bit as MXNet does: a
file is then read without MXNet.

**Free sizes.** A shape rule is also run on sizes that are free, such as the batch of an ONNX file; see
:mod:`gluonops.export.symbolic`. So it computes with ``+ - * // %`` and compares, and asks for no number of elements
by ``range`` or by an array of NumPy's: ``math.prod`` and :func:`.shapes.broadcast` take free sizes.

**Types.** ``@types`` enters what computes the type of the output from those of the inputs, such as int64 for the
``_npi_argmax`` of float32 data. An operator without it returns the type of its first input.

**Indices.** ``@indices`` enters what tells where the indices end that an operator reads: for ``take`` the size of the
axis that it takes from. Inputs that are drawn for a comparison stay below it.

**Faults.** A ``ValueError`` or an ``IndexError`` of a function, and the other classes of ``registry.NOT_TAKEN``, mean
that the operator does not take its inputs or attributes. They become an ``OpError`` that names the node. Any other
error is a fault of the function, and passes with its traceback.

**Operators of gluonops** are called ``gluonops_<name>`` in all tables, and their contracts parse their attributes.
Those that are a function of ``torch/loss_functions.txt`` are entered in ``torch/loss_functions.py``.

A module of a family imports neither MXNet nor ONNX nor torch, and of ``export`` only this package, what it is built
on and :mod:`gluonops.export.symbolic`.
"""
from . import (  # noqa: F401  (the families fill the tables)
    activations,
    arithmetic,
    arrays,
    boxes,
    detection,
    drawing,
    filling,
    indexing,
    layers,
    linalg,
    losses,
    normalization,
    numpy_arithmetic,
    numpy_arrays,
    numpy_products,
    numpy_reductions,
    parts,
    pooling,
    recurrent,
    reductions,
    regions,
    sampling,
    sequences,
)
from .registry import having, in_torch, onnx, operator_of, shape, torch, traits, traits_of, values

__all__ = ["having", "in_torch", "onnx", "operator_of", "shape", "torch", "traits", "traits_of", "values"]
