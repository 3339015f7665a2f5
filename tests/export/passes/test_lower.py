"""lower: the form of each backend, under the names and the marks that were there."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export import ExportedModel, ExportWarning, passes
from gluonops.export.graph import Graph, Node


def canonical(build):
    with gops.backend("custom"):
        graph = Graph.of(build())
    return passes.canonicalize(ExportedModel(graph, {}))


def scaled():
    with mx.AttrScope(__lr_mult__="0.5"):
        return gops.ops.abs(mx.sym.var("data"), name="mine")


@pytest.mark.parametrize("backend, operator", [("builtin", "_copy"), ("native", "gluonops_abs")])
def test_names_and_marks_stay(backend, operator):
    last = passes.lower(canonical(scaled), backend).graph.nodes()[-1]
    assert (last.op, last.name, last.attrs["__lr_mult__"]) == (operator, "mine", "0.5")


def test_backends_follow_one_another():
    """Whatever it was lowered to before, the custom form is the same, node for node."""
    model = canonical(scaled)
    native = passes.canonicalize(passes.lower(model, "native"))
    assert passes.lower(native, "custom").graph.text() == passes.lower(model, "custom").graph.text()


def test_operators_of_others_are_named():
    @mx.operator.register("lower_test_theirs")
    class Properties(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=True)

    model = ExportedModel(Graph.of(mx.sym.Custom(mx.sym.var("data"), op_type="lower_test_theirs", name="theirs")), {})
    with pytest.warns(ExportWarning, match="the node 'theirs' is the operator 'lower_test_theirs', which is not from"):
        passes.lower(model, "builtin")


def test_the_graph_is_walked_a_few_times_however_many_nodes_are_lowered(monkeypatch):
    """A walk for each node would take minutes for some thousands of them."""
    def build():
        data = mx.sym.var("data")
        for _ in range(200):
            data = gops.ops.abs(data)
        return data

    walks, nodes = [], Graph.nodes

    def counted(graph):
        found = nodes(graph)
        walks.append(len(found))
        return found

    monkeypatch.setattr(Graph, "nodes", counted)
    passes.lower(canonical(build), "native")
    assert sum(length >= 200 for length in walks) < 20


def parts():
    return mx.sym.Group(gops.ops.region_loss(*map(mx.sym.var, PARTS), anchors=(1.0, 2.0), classes=3, parts=True))


PARTS = {"data": (2, 8, 4, 4), "truth": (2, 1, 5), "seen": (1,)}


@pytest.mark.parametrize("backend", ["builtin", "custom", "native"])
def test_several_outputs(backend, rng):
    arrays = {"data": rng.randn(*PARTS["data"]), "truth": np.full(PARTS["truth"], [0.5, 0.4, 0.3, 0.2, 1]),
              "seen": np.zeros(1)}
    arrays = {name: mx.nd.array(array) for name, array in arrays.items()}
    lowered = passes.lower(canonical(parts), backend).graph.symbol()
    outputs = [output.asnumpy() for output in lowered.bind(mx.cpu(), arrays).forward()]
    assert len(outputs) == 2 and all(np.isfinite(output).all() for output in outputs)
    for output, expected in zip(outputs, parts().bind(mx.cpu(), arrays).forward()):
        np.testing.assert_allclose(output, expected.asnumpy(), rtol=1e-5, atol=1e-5)


def test_a_hidden_output_is_refused():
    model = canonical(lambda: gops.ops.softmax_cross_entropy(mx.sym.var("data"), mx.sym.var("label"), name="loss"))
    node = model.graph.outputs[0][0]
    model.graph.outputs = [(node, 0), (Node("sum", "reader", {}, [(node, 1)]), 0)]
    with pytest.raises(gops.OpError, match="'reader' reads output 1 of 'loss', which returns only 1 output"):
        passes.lower(model, "builtin")
