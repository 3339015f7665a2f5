"""The nodes that the emitter inserts are marked, and canonicalize takes exactly those away."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.backends import native
from gluonops.export import ExportedModel, passes
from gluonops.export.graph import Graph
from gluonops.export.onnx.builder import CONVERTERS


def emitted(backend, build):
    """Nodes of a graph as the emitter makes it, and of its canonical form."""
    with gops.backend(backend), mx.name.NameManager():
        graph = Graph.of(build())
    return graph.nodes(), passes.canonicalize(ExportedModel(graph, {})).graph.nodes()


def chain():
    data = gops.ops.reorg(mx.sym.var("data"), 2, name="first")
    return gops.ops.abs(mx.sym.identity(data, name="mine"), name="second")


def head():
    return gops.ops.softmax_output(mx.sym.var("data"), mx.sym.var("label"), name="softmax")


def twice():
    """Two operators in a row, the first read twice, and an output of its own."""
    data = gops.ops.softmax(mx.sym.var("data"), name="first")
    return mx.sym.Group([data, gops.ops.abs(data, name="second"), gops.ops.tile(data, 2, name="third")])


@pytest.mark.parametrize("backend", ["custom", "native"])
@pytest.mark.parametrize("build, canonical", [
    (chain, ["data", "first", "mine", "second"]), (head, ["data", "label", "softmax"]),
    (twice, ["data", "first", "second", "third"])], ids=["chain", "head", "twice"])
def test_marked_nodes_go(backend, build, canonical, monkeypatch):
    """Those of older files go too, which have a guard in front of each input of a native operator."""
    monkeypatch.setattr(native, "honours_requests", lambda: False)
    before, after = emitted(backend, build)
    assert [node.name for node in after] == canonical
    assert any(node.inserted_as for node in before), "the emitter inserts something in both backends"
    assert not any(node.inserted_as for node in after)


def test_a_users_own_copies_stay():
    """They are nodes of the same operators without the mark."""
    def build():
        data = mx.sym.squeeze(mx.sym.expand_dims(mx.sym.var("data"), axis=0, name="wide"), axis=0, name="narrow")
        return gops.ops.abs(mx.sym.identity(data, name="copy"), name="ours")

    for backend in ("custom", "native"):
        assert [node.name for node in emitted(backend, build)[1]] == ["data", "wide", "narrow", "copy", "ours"]


def test_copies_under_np_shape_go():
    """A scalar has no dimension to squeeze, so the copy is another pair of nodes there."""
    with mx.util.np_shape(True):
        _, after = emitted("custom", lambda: gops.ops.softmax(gops.ops.abs(mx.sym.var("data"), name="first"),
                                                              name="second"))
    assert [(node.op, node.name) for node in after] == [("null", "data"), ("Custom", "first"), ("Custom", "second")]


def test_converters_are_for_operators_and_not_for_aliases():
    assert [name for name in CONVERTERS if native.operator_name(name) != name] == []
