"""Attributes, dimensions and inference, on contracts of the tests' own."""
import dataclasses

import gluonops as gops
import hypothesis
import numpy as np
import pytest
from gluonops.contract import dims, registry
from gluonops.contract.attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Numbers, Optional, Pairs
from gluonops.contract.expressions import Expression
from gluonops.contract.shapes import Shapes
from hypothesis import strategies as st


@pytest.mark.parametrize("kind, value, typed", [
    (Int(), "-3", -3), (Int(1), 2, 2), (Float(), "1e-3", 1e-3), (Float(above=0), 2, 2.0), (Bool(), "False", False),
    (Bool(), "1", True), (Bool(), 0, False), (Choice("a", "b"), "b", "b"), (IntOrTuple(1), "(2, 3)", (2, 3)),
    (IntOrTuple(1), [2, 3], (2, 3)), (IntOrTuple(1), "4", 4), (Optional(Int()), "None", None),
    (Optional(Int()), "7", 7), (Pairs(), "(1, 2.5)", (1.0, 2.5)), (Pairs(), [[1, 2], (3, 4)], (1.0, 2.0, 3.0, 4.0)),
    (Pairs(), np.array([[1, 2]], "float32"), (1.0, 2.0)),
    (Numbers(0), "(1, 2.5, 0)", (1.0, 2.5, 0.0)), (Numbers(0), 0.25, (0.25,)), (Numbers(0), "0.25", (0.25,)),
    (Optional(Numbers(0)), np.array([0.5, 2]), (0.5, 2.0)), (Optional(Numbers(0)), "None", None),
    (Numbers(0), np.array(0.5), (0.5,)), (Numbers(0), np.array([1, 2]), (1.0, 2.0)),
])
def test_values(kind, value, typed):
    parsed = Attr("x", kind, None).parse("op", value)
    assert parsed == typed and type(parsed) is type(typed)
    assert Attr("x", kind, None).parse("op", str(parsed)) == typed


@pytest.mark.parametrize("kind, value", [
    (Int(), "1.5"), (Int(), True), (Int(), 2.0), (Int(1), 0), (Int(), ""), (Float(), "inf"), (Float(), float("nan")),
    (Float(above=0), 0), (Float(low=0, below=1), 1), (Bool(), "maybe"), (Bool(), 2), (Bool(), 0.0), (Choice("a"), "A"),
    (Choice("a"), 1), (IntOrTuple(1), "(2, 0)"), (IntOrTuple(1), "0x10"), (IntOrTuple(1), "__import__('os')"),
    (IntOrTuple(1), "(" * 500), (Optional(Int()), "none"), (Pairs(), (1, 2, 3)), (Pairs(), ()), (Pairs(), (1, 0)),
    (Numbers(0), ()), (Numbers(0), "()"), (Numbers(0), (1, -1)), (Numbers(0), "(1, nan)"), (Numbers(0), None),
    (Numbers(0), ["a"]), (Optional(Numbers(0)), "none"), (Numbers(0), {1, 2}), (Numbers(0), {0: 1.0}),
    (Numbers(0), np.ones((1, 2))), (Numbers(0), np.array([True, False])),
    (Pairs(), "(1, nan)"), (Pairs(), 5), (Pairs(), "((1, 2),)"),
    (Int(), "1_0"), (Float(), "1_0.5"), (IntOrTuple(1), "1_0"), (IntOrTuple(1), "(2, 1_0)"), (Numbers(0), "(1_0, 2)"),
    (Pairs(), "1_0, 2"), (Optional(Int()), "1_0"),   # Python reads 10
])
def test_refused_values(kind, value):
    with pytest.raises(gops.OpError, match=r"gluonops\.op: x is .*; expected .*\. Pass another x\."):
        Attr("x", kind, None).parse("op", value)


def test_a_long_value_is_cut():
    with pytest.raises(gops.OpError) as caught:
        Attr("x", Int(), None).parse("op", "a" * 5000)
    assert caught.value.what == f"x is '{'a' * 199}...; expected an integer"


@hypothesis.given(st.text(max_size=20))
def test_any_string_is_parsed_or_refused(text):
    for kind in (Int(1), Float(above=0), Bool(), Choice("darknet"), IntOrTuple(1), Optional(Int()), Pairs()):
        try:
            Attr("x", kind, None).parse("op", text)
        except gops.OpError:
            pass


@hypothesis.given(st.integers(1, 5), st.integers(0, 50), st.sampled_from("mul div both".split()))
def test_a_dimension_and_its_inverse(factor, size, form):
    factors = {"mul": {"mul": factor}, "div": {"div": factor}, "both": {"mul": factor * factor, "div": factor}}
    n = dims.Dim("n", **factors[form])
    value = n.value(size)
    if value is None:
        assert size % factor
    else:
        assert n.base(value) == size


ATTRS = {"step": 2, "a": 2, "b": 3, "axis": -2, "counts": (2, 3), "pairs": (1.0, 2.0, 3.0, 4.0)}


def expanded(ndim, when=None, whole=None, **texts):
    return Shapes(when, whole, **texts).bind(list(ATTRS)).expand("op", ATTRS, ndim)


PATTERNS, _ = expanded(2, a="batch, width", b="batch", c="batch, width / step, 3", d="batch, a * b")


def test_solving_goes_every_way():
    whole = {"a": (4, 6), "b": (4,), "c": (4, 3, 3), "d": (4, 6)}
    assert dims.solve("op", PATTERNS, {"a": (4, 6)}) == whole
    assert dims.solve("op", PATTERNS, {"c": (4, 3, 3)}) == whole
    assert dims.solve("op", PATTERNS, {"a": (-1, 6), "b": (4,)}) == whole
    assert dims.solve("op", PATTERNS, {"b": (4,)}) == {"a": (4, -1), "b": (4,), "c": (4, -1, 3), "d": (4, 6)}
    assert dims.solve("op", PATTERNS, {"a": (0, 6)})["c"] == (0, 3, 3)


@pytest.mark.parametrize("shapes, text", [
    ({"a": (4, 5)}, "a has shape (4, 5); width 5 is not divisible by step 2. Pad the input or choose another step."),
    ({"a": (4,)}, "a has shape (4,); expected 2 dimensions (batch, width)"),
    ({"a": (4, 6), "b": (5,)}, "b has shape (5,); expected (4,) to match a of shape (4, 6)"),
    ({"b": (4,), "a": (5, 6)}, "a has shape (5, 6); expected (4, width) to match b of shape (4,)"),
    ({"d": (4, 7)}, "d has shape (4, 7); expected (batch, 6) with a * b = 6. Change the layer in front or the "
     "attributes"),
    ({"c": (4, 3, 2)}, "c has shape (4, 3, 2); expected (batch, width / step, 3)."),
])
def test_what_does_not_fit(shapes, text):
    with pytest.raises(gops.OpError) as caught:
        dims.solve("op", PATTERNS, shapes)
    assert text in str(caught.value)


@pytest.mark.parametrize("ndim, texts, expected", [
    (3, {"data": "...", "output": "..., 2"}, {"data": "(dim0, dim1, dim2)", "output": "(dim0, dim1, dim2, 2)"}),
    (0, {"data": "..."}, {"data": "()"}),
    (3, {"data": "batch, ...", "output": "..., batch"}, {"data": "(batch, dim1, dim2)",
                                                         "output": "(dim1, dim2, batch)"}),
    (3, {"data": "batch..., n@axis, ...", "label": "batch..., ..."}, {"data": "(batch, n, dim2)",
                                                                   "label": "(batch, dim2)"}),
    (1, {"data": "...", "output": "... * counts"}, {"data": "(dim0,)", "output": "(2, dim0 * counts)"}),
    (3, {"data": "...", "output": "... * counts"}, {"data": "(dim0, dim1, dim2)",
                                                    "output": "(dim0 * counts, dim1 * counts, dim2 * counts)"}),
    (2, {"data": "...", "output": "... * b@axis"}, {"data": "(dim0, dim1)", "output": "(dim0 * b, dim1 * b)"}),
    (1, {"data": "pairs * (step + 1)"}, {"data": "(6,)"}),
    (1, {"data": "n * step / (a * b)"}, {"data": "(n * step / (a * b),)"}),
])
def test_the_notation(ndim, texts, expected):
    patterns, _ = expanded(ndim, **texts)
    assert {name: dims.pattern_text(pattern) for name, pattern in patterns.items()} == expected


@pytest.mark.parametrize("text", ["n * m", "..., ...", "n@place, ...", "... * place", "n + 1", "n ** 2", "f(n)", "n, "])
def test_what_is_no_pattern(text):
    with pytest.raises((ValueError, SyntaxError)):
        Shapes(data=text).bind(list(ATTRS))


def test_a_group_that_the_first_pattern_lacks():
    with pytest.raises(ValueError, match=r"output: rest\.\.\. is not a group of the first pattern"):
        Shapes(data="...", output="rest...").bind([])


@pytest.mark.parametrize("attrs, shape, text", [
    ({"stride": 2 ** 32}, (1, 4, 2, 2), "stride * stride is more than 2**63 - 1. Choose smaller attributes."),
    ({"stride": 2 ** 31, "reverse": True}, (1, 0, 2, 2), "height * stride, width * stride) has a size above "
     "2147483647"),
])
def test_sizes_beyond_what_mxnet_takes_are_refused(attrs, shape, text):
    op = registry.get("reorg").op
    with pytest.raises(gops.OpError) as caught:
        op.infer_shape(op.parse(attrs), {"data": shape})
    assert text in str(caught.value)


@pytest.mark.parametrize("text, values, expected", [
    ("mode == 'a' and not flag", {"mode": "a", "flag": False}, True),
    ("x is None or len(x) > 2", {"x": (1, 2)}, False),
    ("2 if parts else 1", {"parts": True}, 2),
    ("0 <= x <= 1 and x == floor(x)", {"x": 0.5}, False),
    ("is_tuple(x) and -1 != y", {"x": (1,), "y": -1}, False),
])
def test_expressions(text, values, expected):
    assert Expression(text)(values) == expected


@pytest.mark.parametrize("text", ["__import__('os')()", "x.__class__", "[1][0]", "lambda: 1", "x = 1", "f'{x}'",
                                  "x ** 9"])
def test_what_is_no_expression(text):
    with pytest.raises((ValueError, NameError, TypeError)):
        Expression(text)({"x": 1})


def test_a_role_is_one_of_three():
    with pytest.raises(ValueError, match="role is 'head'"):
        dataclasses.replace(registry.get("softmax").op, role="head")


def test_unknown_dimensions_stay_unknown():
    op = registry.get("softmax").op
    assert op.infer_shape(op.parse({}), {}) == {}
    assert op.infer_type(op.parse({}), {}) == {"data": None, "output": None}


def test_private_attributes_of_mxnet_are_let_through():
    op = registry.get("reorg").op
    assert op.parse({"__ctx_group__": "dev1", "stride": "3"}).stride == 3
    with pytest.raises(gops.OpError, match="'strid' is not an attribute; expected mode, reverse, stride"):
        op.parse({"strid": 2})


def test_an_operator_is_registered_once():
    with pytest.raises(gops.OpError, match="two contracts register this operator"):
        registry.register(registry.get("abs").folder)
    with pytest.raises(gops.OpError, match="there is no operator 'abz'"):
        registry.get("abz")


def test_an_output_keeps_the_shape_of_the_data_in_any_number_of_dimensions():
    """dice_loss has the shape (batch, classes) of data of two dimensions, and of data of four."""
    for name, keeps in (("softmax", True), ("dice_loss", False)):
        op = registry.get(name).op
        assert op.keeps_shape(op.parse({})) == keeps
