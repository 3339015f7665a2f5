"""The C++ declarations say what the contracts say: shapes, types, attributes, and every complaint, word for word."""
import itertools

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from gluonops.contract.attributes import Int, IntOrTuple
from in_turn import in_turn
from native_cases import CASES, ERRORS, SUITES, require_library

UNKNOWN = -1   # a size, in a contract's shapes


@pytest.fixture(autouse=True)
def library():
    require_library()


def symbol(name, attrs, inputs=None):
    op = registry.get(name).op
    variables = inputs or [mx.sym.var(arg.name) for arg in op.inputs]
    strings = {key: str(value) for key, value in attrs.items()}
    return getattr(mx.sym, f"gluonops_{name}")(*variables, **strings)


def complaint(call):
    """Return the library's text, which MXNet quotes in its exception."""
    with pytest.raises(gops.OpError) as caught:
        call()
    assert str(caught.value) in str(caught.value.__context__)
    return str(caught.value)


def test_every_operator_is_there():
    for name in gops.ops.list():
        assert callable(getattr(mx.nd, f"gluonops_{name}")) and callable(getattr(mx.sym, f"gluonops_{name}"))


@pytest.mark.filterwarnings("ignore:Cannot decide shape")
@in_turn("name, case", [case.values for case in CASES])
def test_shapes(name, case):
    """The contract's answer or its complaint, where each input's shape is known, known but for a size, or unknown."""
    for shapes in itertools.product(*map(variants, case.shapes)):
        assert_shapes_as_contract(name, case.attrs, shapes)


def variants(shape):
    """Unknown, known, and known but for a size."""
    yield None
    yield shape
    for axis in range(len(shape)):
        yield (*shape[:axis], UNKNOWN, *shape[axis + 1:])


def assert_shapes_as_contract(name, attrs, shapes, unknown=0):
    """Compare MXNet's answer, which has the size ``unknown`` for one that does not follow, with the contract's."""
    op = registry.get(name).op
    input_shapes = {arg.name: shape for arg, shape in zip(op.inputs, shapes) if shape is not None}
    asked_shapes = {key: tuple(unknown if size == UNKNOWN else size for size in shape)
                    for key, shape in input_shapes.items()}
    try:
        expected = op.infer_shape(op.parse(attrs), input_shapes)
    except gops.OpError as error:
        assert complaint(lambda: symbol(name, attrs).infer_shape_partial(**asked_shapes)) == str(error)
        return
    arguments, outputs, _ = symbol(name, attrs).infer_shape_partial(**asked_shapes)
    want = [tuple(unknown if size == UNKNOWN else size for size in expected.get(tensor.name, ()))
            for tensor in op.tensors]
    assert arguments + outputs == want, asked_shapes


def test_zero_sizes_are_known_in_numpys_sense():
    with mx.util.np_shape(True):
        for name, suite in SUITES.items():
            assert_shapes_as_contract(name, suite.empty.attrs, suite.empty.shapes, unknown=UNKNOWN)


@in_turn("name", SUITES)
def test_types(name):
    op = registry.get(name).op
    every = ("float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool", None)
    variants = [{}] + ([{"sparse_label": "False"}] if name == "softmax_cross_entropy" else [])
    for attrs, dtypes in itertools.product(variants, itertools.product(every, repeat=len(op.inputs))):
        input_dtypes = {arg.name: dtype for arg, dtype in zip(op.inputs, dtypes) if dtype}
        try:
            expected = op.infer_type(op.parse(attrs), input_dtypes)
        except gops.OpError as error:
            assert complaint(lambda: symbol(name, attrs).infer_type(**input_dtypes)) == str(error)   # noqa: B023
            continue
        arguments, outputs, _ = symbol(name, attrs).infer_type_partial(**input_dtypes)
        as_types = {key: dtype and np.dtype(dtype).type for key, dtype in expected.items()}
        assert arguments == [as_types[arg.name] for arg in op.inputs], input_dtypes
        assert outputs == [as_types[out.name] for out in op.outputs], input_dtypes


@in_turn("name, error", [error.values for error in ERRORS])
def test_complaints(name, error):
    """Their text is the contract's, wherever a fault is found out."""
    op = registry.get(name).op
    strings = {key: str(value) for key, value in error.attrs.items()}
    dtypes = error.dtypes or ("float32",) * len(error.shapes)
    inputs = [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in zip(error.shapes, dtypes)]
    with pytest.raises(gops.OpError) as expected:
        op.validate(op.parse(strings), inputs)
    function = getattr(mx.nd, f"gluonops_{name}")
    assert complaint(lambda: function(*inputs, **strings).wait_to_read()) == str(expected.value)


ENDS = [str(sign * 2**63 + step) for sign in (-1, 1) for step in (-1, 0, 1)] + [str(2**64), str(-2**64), "9" * 400]
INTEGERS = [(name, attr.name) for name in SUITES for attr in registry.get(name).op.attrs
            if isinstance(getattr(attr.kind, "kind", attr.kind), (Int, IntOrTuple))]


@in_turn("name, attr, text", [
    *((name, attr, text) for name, suite in SUITES.items() for attr, texts in suite.texts.items() for text in texts),
    *((name, attr, text) for name, attr in INTEGERS for text in ENDS),
    *(("tile", "tiles", f"(1, {text})") for text in ENDS)])
def test_attribute_strings(name, attr, text):
    op = registry.get(name).op
    shapes = dict(zip((arg.name for arg in op.inputs), SUITES[name].cases[0].shapes))
    input_shapes = {key: shapes[key] for key in (op.inputs[0].name, *SUITES[name].own_shapes)}
    attribute = {attr: text}
    try:
        parsed = op.parse(attribute)
        expected = op.infer_shape(parsed, input_shapes)
    except gops.OpError as error:
        want = str(error).splitlines()
        got = complaint(lambda: symbol(name, attribute).infer_shape(**input_shapes))
        assert got == want[0]
        return
    _, outputs, _ = symbol(name, attribute).infer_shape(**input_shapes)
    assert outputs == [expected[out.name] for out in op.outputs]


def test_labels_are_checked_on_request(monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    data = mx.nd.ones((2, 3, 2))
    for name in ("softmax_output", "softmax_cross_entropy"):
        function = getattr(mx.nd, f"gluonops_{name}")
        for label, what in (([[0, 1], [7, 3]], "label[1, 0] is 7 (and 1 more)"),
                            ([[0, 1], [2, np.nan]], "label[1, 1] is nan"), ([[0.5, 1], [2, 2]], "label[0, 0] is 0.5"),
                            ([[0, 1e7], [2, 2]], "label[0, 1] is 1e+07")):
            def run(function=function, label=label):
                result = function(data, mx.nd.array(label), axis=1)
                (result if isinstance(result, mx.nd.NDArray) else result[0]).wait_to_read()
            assert complaint(run) == (
                f"gluonops.{name}: {what}; expected a whole number from 0 to 2. Correct the labels, or name the value "
                "to skip with ignore_label.")
        result = function(data, mx.nd.array([[0, 1], [-1, 2]]), axis=1, ignore_label=-1)
        (result if isinstance(result, mx.nd.NDArray) else result[0]).wait_to_read()
