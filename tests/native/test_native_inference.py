"""The C++ declarations say what the contracts say: shapes, types, attributes, and every complaint, word for word."""
import itertools

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.core import registry
from gluonops.core.attributes import Int, IntOrTuple
from native_cases import CASES, ERRORS, SUITES, require_library


@pytest.fixture(autouse=True)
def library():
    require_library()


def symbol(name, attrs, inputs=None):
    op = registry.get(name).op
    variables = inputs or [mx.sym.var(arg.name) for arg in op.inputs]
    strings = {key: str(value) for key, value in attrs.items()}
    return getattr(mx.sym, f"gluonops_{name}")(*variables, **strings)


def complaint(call):
    """The library's text, which MXNet quotes in its exception."""
    with pytest.raises(gops.OpError) as caught:
        call()
    assert str(caught.value) in str(caught.value.__context__)
    return str(caught.value)


def test_every_operator_is_there():
    for name in gops.ops.list():
        assert callable(getattr(mx.nd, f"gluonops_{name}")) and callable(getattr(mx.sym, f"gluonops_{name}"))


@pytest.mark.parametrize("name, case", CASES)
def test_shapes(name, case):
    op = registry.get(name).op
    attrs = op.parse(case.attrs)
    expected = op.infer_shape(attrs, dict(zip((arg.name for arg in op.inputs), case.shapes)))
    known = {arg.name: shape for arg, shape in zip(op.inputs, case.shapes)}
    arguments, outputs, _ = symbol(name, case.attrs).infer_shape(**known)
    assert arguments == [expected[arg.name] for arg in op.inputs]
    assert outputs == [expected[out.name] for out in op.outputs]


@pytest.mark.parametrize("name, case", CASES)
def test_shapes_from_the_data_alone(name, case):
    op = registry.get(name).op
    known = {op.inputs[0].name: case.shapes[0]}
    expected = op.infer_shape(op.parse(case.attrs), known)
    arguments, outputs, _ = symbol(name, case.attrs).infer_shape_partial(**known)
    want = {key: tuple(max(size, 0) for size in shape) for key, shape in expected.items()}   # 0: does not follow
    assert arguments == [want[arg.name] for arg in op.inputs]
    assert outputs == [want[out.name] for out in op.outputs]


@pytest.mark.parametrize("name, case", CASES)
def test_shapes_known_in_part(name, case):
    """MXNet writes an unknown size as 0; a batch unknown in the data may follow from the label."""
    op = registry.get(name).op
    attrs = op.parse(case.attrs)
    for axis in range(len(case.shapes[0])):
        shapes = [list(shape) for shape in case.shapes]
        shapes[0][axis] = 0
        known = {arg.name: tuple(shape) for arg, shape in zip(op.inputs, shapes)}
        expected = op.infer_shape(attrs, {key: tuple(size or -1 for size in shape) for key, shape in known.items()})
        arguments, outputs, _ = symbol(name, case.attrs).infer_shape_partial(**known)
        want = {key: tuple(max(size, 0) for size in shape) for key, shape in expected.items()}
        assert arguments == [want[arg.name] for arg in op.inputs]
        assert outputs == [want[out.name] for out in op.outputs]


def test_zero_sizes_are_known_in_numpys_sense():
    with mx.util.np_shape(True):
        for name, suite in SUITES.items():
            op, case = registry.get(name).op, suite.empty
            known = {arg.name: shape for arg, shape in zip(op.inputs, case.shapes)}
            expected = op.infer_shape(op.parse(case.attrs), known)
            _, outputs, _ = symbol(name, case.attrs).infer_shape(**known)
            assert outputs == [expected[out.name] for out in op.outputs]


@pytest.mark.parametrize("name", SUITES)
def test_types(name):
    op = registry.get(name).op
    every = ("float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool", None)
    variants = [{}] + ([{"sparse_label": "False"}] if name == "softmax_cross_entropy" else [])
    for attrs, dtypes in itertools.product(variants, itertools.product(every, repeat=len(op.inputs))):
        known = {arg.name: dtype for arg, dtype in zip(op.inputs, dtypes) if dtype}
        try:
            expected = op.infer_type(op.parse(attrs), known)
        except gops.OpError as error:
            assert complaint(lambda: symbol(name, attrs).infer_type(**known)) == str(error)   # noqa: B023
            continue
        arguments, outputs, _ = symbol(name, attrs).infer_type_partial(**known)
        as_types = {key: dtype and np.dtype(dtype).type for key, dtype in expected.items()}
        assert arguments == [as_types[arg.name] for arg in op.inputs], known
        assert outputs == [as_types[out.name] for out in op.outputs], known


@pytest.mark.parametrize("name, error", ERRORS)
def test_complaints(name, error):
    """The same text as the contract's, wherever it is found out."""
    op = registry.get(name).op
    strings = {key: str(value) for key, value in error.attrs.items()}
    dtypes = error.dtypes or ("float32",) * len(error.shapes)
    with pytest.raises(gops.OpError) as expected:
        op.validate(op.parse(strings), tuple(error.shapes), tuple(dtypes))
    inputs = [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in zip(error.shapes, dtypes)]
    function = getattr(mx.nd, f"gluonops_{name}")
    assert complaint(lambda: function(*inputs, **strings).wait_to_read()) == str(expected.value)


ATTRIBUTES = {
    "box_iou": {"format": ["center", "Corner", "xywh", ""]},
    "dice_loss": {"smooth": ["1", "1e-8"], "squared": ["0", "maybe"], "ignore_label": ["255"]},
    "distillation_loss": {"temperature": ["0.01", "1e-3", "255.5", "256", "0"]},
    "gelu": {"approximation": ["tanh", "Tanh", "none", ""]},
    "group_norm": {"num_groups": ["1", "5", "0", "-1", "2.0"], "eps": ["1e-5", "0"]},
    "iou_loss": {"kind": ["iou", "diou", "ciou", "CIoU", "0"], "format": ["center", "None"]},
    "margin_softmax_cross_entropy": {"scale": ["64", "0", "-1", "inf"], "m1": ["4", "0", "1.35"],
                                     "m2": ["0.5", "3.1415926", "3.1416", "-0.1"], "m3": ["-0.5", "nan"],
                                     "easy_margin": ["1", "yes"], "ignore_label": ["None", "-1"]},
    "tile": {"tiles": ["3", " 3 ", "(2,)", "(2, 3)", "[2,3]", "2,3", "(2,3,)", "()", "(2", "2.5", "-1", "(0,)", "two",
                       "", "(3)", "1_0", "00", "01", "((2,),)", "None", "0x2",
                       "(0b1, 2)", "٢"],
             "axis": ["0", "-2", "+1", "1.0", "x"]},
    "reorg": {"stride": ["1", "2", "0", "-1", "1e1", "2.0", "_2", "2_"], "mode": ["CRD", "dcr", "it's", 'a"b', "a\nb"],
              "reverse": ["True", "true", "1", "FALSE", "0", "yes", ""]},
    "softmax": {"axis": ["1", " -1", "٠"],
                "temperature": ["1", "1e-3", ".5", "5.", "inf", "nan", "-1", "0", "0x1p3", "1_000.5", "1e999", "",
                                "+2", "٢"]},
    "softmax_output": {"ignore_label": ["None", "-1", "none", "3.0"], "normalization": ["batch", "Valid"],
                       "grad_scale": ["-2.5", "1e3", "infinity"]},
    "region_decode": {"anchors": ["(1, 2)", "[1.5,2]", " 1,2 ", "(1, 2,)", "1,2,3", "()", "", ",", "(1, 0)", "(1, -2)",
                                  "(1, nan)", "(1, 1e400)", "(1, two)", "((1, 2),)", "(1, 2", "1_0, 2", "(1,,2)",
                                  "(1, 2,,)", "5"],
                      "layout": ["map", "Map"], "classes": ["1", "0", "2.0"]},
    "region_loss": {"anchors": ["(1, 2, 3, 4)", "(1, 2, 3)"], "thresh": ["0", "-0.1", "inf"],
                    "object_scale": ["2.5", "x"], "warmup_images": ["0", "-1"], "rescore": ["1", "maybe"],
                    "parts": ["True", "2"], "box_loss": ["giou", "GIoU"]},
    "rms_norm": {"axis": ["0", "-2"], "eps": ["1e-12", "1e-13", "0", "1", "0.99"]},
    "yolo_loss": {"other_anchors": ["None", "(1, 2)", "[1.5,2,]", "none", "()", "(1, 2, 3)", "(1, 0)", ""],
                  "dialect": ["alexeyab", "Pjreddie"], "box_loss": ["ciou"], "scale_x_y": ["1.0", "1.2", "0"],
                  "label_smooth_eps": ["0", "0.1", "1"], "new_coords": ["1"]},
    "swiglu": {"axis": ["-1", "0", "1", "-3"]},
    "swish": {"beta": ["0", "-0.0", "1e2", "1000", "-1e-9", "nan", "x"]},
    "softmax_cross_entropy": {"smoothing": ["0", "0.999", "1", "-0.1", "1e-400"], "sparse_label": ["TRUE", "2"],
                              "ignore_label": ["255"],
                              "class_weight": ["(1, 2, 0, 3, 0.5)", "[1,2,0,3,.5,]", "2.5", "(1, 2)", "None",
                                               "none", "()", "(1, 2, 0, 3, -1)", "(1, nan, 0, 3, 1)", ""]},
    "softmax_focal_loss": {"gamma": ["0", "-1", "inf"], "alpha": ["0.25", "(1, 2)"]},
    "sigmoid_cross_entropy": {"pos_weight": ["(1, 2, 0, 3, 0.5)", "(1, 2)"]},
    "sigmoid_focal_loss": {"alpha": ["-1", "1", "1.5", "-2"]},
}
ENDS = [str(sign * 2**63 + step) for sign in (-1, 1) for step in (-1, 0, 1)] + [str(2**64), str(-2**64), "9" * 400]
INTEGERS = [(name, attr.name) for name in SUITES for attr in registry.get(name).op.attrs
            if isinstance(getattr(attr.kind, "kind", attr.kind), (Int, IntOrTuple))]


@pytest.mark.parametrize("name, attr, text", [
    *((name, attr, text) for name, attrs in ATTRIBUTES.items() for attr, texts in attrs.items() for text in texts),
    *((name, attr, text) for name, attr in INTEGERS for text in ENDS),
    *(("tile", "tiles", f"(1, {text})") for text in ENDS)])
def test_attribute_strings(name, attr, text):
    op = registry.get(name).op
    shapes = dict(zip((arg.name for arg in op.inputs), SUITES[name].cases[0].shapes))
    known = {key: shapes[key] for key in (op.inputs[0].name, *SUITES[name].given)}
    given = {attr: text}
    try:
        parsed = op.parse(given)
        expected = op.infer_shape(parsed, known)
    except gops.OpError as error:
        want = str(error).splitlines()
        got = complaint(lambda: symbol(name, given).infer_shape(**known))
        assert got == want[0]
        return
    _, outputs, _ = symbol(name, given).infer_shape(**known)
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
