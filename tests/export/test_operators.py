"""gluonops.export.operators: the schema of MXNet's operators, their attributes, and what the families take of both."""
import json

import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export import rules
from gluonops.export.graph import VARIABLE, Graph, Node
from gluonops.export.onnx.builder import CONVERTERS as ONNX
from gluonops.export.operators import generate, rule_registry, schema
from gluonops.export.operators.node_attributes import attributes_of
from gluonops.export.torch.converters import CONVERTERS as TORCH


def test_the_schema_is_that_of_the_installed_mxnet():
    assert json.loads(schema.PATH.read_text()) == json.loads(generate.text())


@pytest.mark.parametrize("table", [rules.RULES, ONNX, TORCH], ids=["shape", "onnx", "torch"])
def test_functions_name_attributes_of_the_schema(table):
    entered = {name: each for name, each in table.items()
               if isinstance(each, rule_registry.Entered) and each.attributes}
    assert entered
    lacking = {name: set(each.attributes) - set(schema.find(name).attributes) for name, each in entered.items()}
    assert {name: names for name, names in lacking.items() if names} == {}


def _faulty(*arguments, **attributes):
    raise NameError("a name that the module does not have")


def test_a_fault_of_a_shape_rule_is_not_called_an_attribute_that_is_not_taken(monkeypatch):
    graph = Graph([(Node("exp", "x", {}, [(Node(VARIABLE, "data"), 0)]), 0)], {})
    assert rules.infer_shapes(graph, {"data": (2, 3)})[graph.outputs[0]] == (2, 3)
    monkeypatch.setitem(rule_registry.SHAPES, "exp", _faulty)
    with pytest.raises(NameError, match="a name that the module does not have"):
        rules.infer_shapes(graph, {"data": (2, 3)})


def test_nor_is_one_of_a_converter_to_torch(monkeypatch, tmp_path):
    prefix = str(tmp_path / "net")
    mx.sym.exp(mx.sym.var("data"), name="x").save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {})
    monkeypatch.setitem(rule_registry.TORCH, "exp", _faulty)
    with pytest.raises(NameError, match="a name that the module does not have"):
        gops.export.torch(prefix, tmp_path / "port", (2, 3))


def test_operators_of_gluonops_are_described_by_their_contracts():
    gelu = schema.find("gluonops_gelu")
    assert gelu.inputs == ("data",) and gelu.attributes["approximation"].default == "erf"
    assert attributes_of(Node("Custom", "x", {"op_type": "gluonops_gelu", "approximation": "tanh"})) == {
        "approximation": "tanh"}


def test_traits_are_of_operators_that_there_are():
    """The targets of a mask are computed on a GPU alone, so that the registry of MXNet for the CPU lacks them."""
    tables = (rule_registry.TRAITS, rule_registry.TYPES, rule_registry.READINGS)
    assert {name for table in tables for name in table if schema.find(name) is None} <= {"_contrib_mrcnn_mask_target"}


@pytest.mark.parametrize("op, attrs, expected", [
    ("LRN", {"nsize": "5"}, {"alpha": 1e-4, "beta": 0.75, "knorm": 2.0, "nsize": 5}),
    ("slice", {"begin": "(None, 1)", "end": "[None,2,]", "__lr_mult__": "2"},
     {"begin": (None, 1), "end": (None, 2), "step": ()}),
    ("softmax", {"temperature": "None", "axis": " 1 ", "use_length": "TRUE"},
     {"temperature": None, "axis": 1, "use_length": True, "dtype": None}),
    ("tile", {"reps": "2"}, {"reps": (2,)}), ("tile", {"reps": "(2L, 3L)"}, {"reps": (2, 3)}),
    ("_npi_pad", {"pad_width": "((1, 2), (0, 0))"},
     {"pad_width": ((1, 2), (0, 0)), "mode": "constant", "constant_value": 0.0, "reflect_type": "even"}),
    ("elemwise_add", {"whatever": "1"}, {})])
def test_attributes_as_mxnet_reads_them(op, attrs, expected):
    assert attributes_of(Node(op, "x", attrs)) == expected


WRONG = [
    ("LRN", {"nsize": "5", "kernel": "3"}, r"\(LRN\) has the attribute 'kernel'; expected alpha, beta, knorm, nsize"),
    ("LRN", {}, r"'x' \(LRN\) lacks the attribute nsize"),
    ("LRN", {"nsize": "-1"}, r"has nsize '-1'; expected an integer of at least 0"),
    ("LRN", {"nsize": "5.0"}, r"has nsize '5\.0'; expected an integer of at least 0"),
    ("Activation", {"act_type": "mish"}, r"has act_type 'mish'; expected relu, sigmoid, softrelu, softsign, tanh"),
    ("Dropout", {"p": "half"}, r"has p 'half'; expected a number"),
    ("tile", {"reps": "(2; 3)"}, r"has reps '\(2; 3\)'; expected integers such as \(1, 2\)"),
    ("tile", {"reps": "(2, 3"}, r"has reps '\(2, 3'; expected integers"),
    ("softmax", {"use_length": "yes"}, r"has use_length 'yes'; expected True or False or None")]


@pytest.mark.parametrize("op, attrs, message", WRONG)
def test_attributes_that_mxnet_does_not_take(op, attrs, message):
    with pytest.raises(gops.OpError, match=message):
        attributes_of(Node(op, "x", attrs))
    if attrs.get("nsize") != "-1":   # MXNet reads 4294967295
        with pytest.raises(mx.MXNetError):
            getattr(mx.sym, op)(mx.sym.var("data"), **attrs)
