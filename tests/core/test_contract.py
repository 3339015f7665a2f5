"""Attributes, dimensions and inference, on contracts of the tests' own."""
import gluonops as gops
import hypothesis
import numpy as np
import pytest
from gluonops.core import dims, registry
from gluonops.core.attributes import Attr, Bool, Choice, Float, Int, IntOrTuple, Optional, Pairs
from hypothesis import strategies as st


@pytest.mark.parametrize("kind, value, typed", [
    (Int(), "-3", -3), (Int(1), 2, 2), (Float(), "1e-3", 1e-3), (Float(above=0), 2, 2.0), (Bool(), "False", False),
    (Bool(), "1", True), (Bool(), 0, False), (Choice("a", "b"), "b", "b"), (IntOrTuple(1), "(2, 3)", (2, 3)),
    (IntOrTuple(1), [2, 3], (2, 3)), (IntOrTuple(1), "4", 4), (Optional(Int()), "None", None),
    (Optional(Int()), "7", 7), (Pairs(), "(1, 2.5)", (1.0, 2.5)), (Pairs(), [[1, 2], (3, 4)], (1.0, 2.0, 3.0, 4.0)),
    (Pairs(), np.array([[1, 2]], "float32"), (1.0, 2.0)),
])
def test_values(kind, value, typed):
    parsed = Attr("x", kind, None, "").parse("op", value)
    assert parsed == typed and type(parsed) is type(typed)
    assert Attr("x", kind, None, "").parse("op", kind.text(parsed)) == typed


@pytest.mark.parametrize("kind, value", [
    (Int(), "1.5"), (Int(), True), (Int(), 2.0), (Int(1), 0), (Int(), ""), (Float(), "inf"), (Float(), float("nan")),
    (Float(above=0), 0), (Float(low=0, below=1), 1), (Bool(), "maybe"), (Bool(), 2), (Bool(), 0.0), (Choice("a"), "A"),
    (Choice("a"), 1), (IntOrTuple(1), "(2, 0)"), (IntOrTuple(1), "0x10"), (IntOrTuple(1), "__import__('os')"),
    (IntOrTuple(1), "(" * 500), (Optional(Int()), "none"), (Pairs(), (1, 2, 3)), (Pairs(), ()), (Pairs(), (1, 0)),
    (Pairs(), "(1, nan)"), (Pairs(), 5), (Pairs(), "((1, 2),)"),
])
def test_refused_values(kind, value):
    with pytest.raises(gops.OpError, match=r"gluonops\.op: x is .*; expected .*\. Pass another x\."):
        Attr("x", kind, None, "").parse("op", value)


@hypothesis.given(st.text(max_size=20))
def test_any_string_is_parsed_or_refused(text):
    for kind in (Int(1), Float(above=0), Bool(), Choice("darknet"), IntOrTuple(1), Optional(Int()), Pairs()):
        try:
            Attr("x", kind, None, "").parse("op", text)
        except gops.OpError:
            pass


@hypothesis.given(st.integers(1, 5), st.integers(0, 50), st.sampled_from("mul div both".split()))
def test_a_dimension_and_its_inverse(factor, size, form):
    n = dims.Dim("n")
    s = dims.Size("s", factor)
    n = {"mul": n * s, "div": n / s, "both": n * s * s / s}[form]
    value = n.value(size)
    if value is None:
        assert size % factor
    else:
        assert n.base(value) == size


BATCH, WIDTH = dims.names("batch width")
PATTERNS = {"a": (BATCH, WIDTH), "b": (BATCH,), "c": (BATCH, WIDTH / dims.Size("step", 2), 3),
            "d": (BATCH, dims.Fixed("a * b", 6))}


def test_solving_goes_every_way():
    whole = {"a": (4, 6), "b": (4,), "c": (4, 3, 3), "d": (4, 6)}
    assert dims.solve("op", PATTERNS, {"a": (4, 6)}) == whole
    assert dims.solve("op", PATTERNS, {"c": (4, 3, 3)}) == whole
    assert dims.solve("op", PATTERNS, {"a": (-1, 6), "b": (4,)}) == whole
    assert dims.solve("op", PATTERNS, {"b": (4,)}) == {"a": (4, -1), "b": (4,), "c": (4, -1, 3), "d": (4, 6)}
    assert dims.solve("op", PATTERNS, {"a": (0, 6)})["c"] == (0, 3, 3)


@pytest.mark.parametrize("shapes, text", [
    ({"a": (4, 5)}, "a has shape (4, 5); width 5 is not divisible by step 2"),
    ({"a": (4,)}, "a has shape (4,); expected 2 dimensions (batch, width)"),
    ({"a": (4, 6), "b": (5,)}, "b has shape (5,); expected (4,) to match a of shape (4, 6)"),
    ({"b": (4,), "a": (5, 6)}, "a has shape (5, 6); expected (4, width) to match b of shape (4,)"),
    ({"d": (4, 7)}, "d has shape (4, 7); expected (batch, 6) with a * b = 6. Change the layer in front or the "
     "attributes"),
    ({"c": (4, 3, 2)}, "c has shape (4, 3, 2); expected (batch, width / step, 3) with 3"),
])
def test_what_does_not_fit(shapes, text):
    with pytest.raises(gops.OpError) as caught:
        dims.solve("op", PATTERNS, shapes)
    assert text in str(caught.value)


def test_unknown_dimensions_stay_unknown():
    op = registry.get("softmax").op
    assert op.infer_shape(op.parse({}), {}) == {}
    assert op.infer_type(op.parse({}), {}) == {"data": None, "output": None}


def test_private_attributes_of_mxnet_are_let_through():
    op = registry.get("reorg").op
    assert op.parse({"__ctx_group__": "dev1", "stride": "3"}).stride == 3
    with pytest.raises(gops.OpError, match="'strid' is not an attribute; expected mode, reverse, stride"):
        op.parse({"strid": 2})


def test_a_folder_without_a_file_is_refused(tmp_path):
    (tmp_path / "thing").mkdir()
    for file in registry.FILES[:-1]:
        (tmp_path / "thing" / file).touch()
    with pytest.raises(gops.OpError, match="gluonops.ops.thing: the folder lacks block.py"):
        registry.check_folder(tmp_path / "thing")
    registry.check_folder(tmp_path / "thing", waived=("block.py",))


def test_an_operator_is_registered_once():
    with pytest.raises(gops.OpError, match="the operator is registered twice"):
        registry.register(registry.get("abs").folder)
    with pytest.raises(gops.OpError, match="there is no operator 'abz'"):
        registry.get("abz")
