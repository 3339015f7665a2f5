"""lower: the form of each backend, under the names and the marks that were there."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export import ExportedModel, ExportWarning, passes
from gluonops.export.graph import Graph


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
    with pytest.warns(ExportWarning, match="the node 'theirs' is the operator 'lower_test_theirs', which is not gluon"):
        passes.lower(model, "builtin")
