"""Questions that ended the process where MXNet asked them by way of lib_api.h: again and again, from behind, absurd.

test_native_inference.py compares shapes that are known in part with the contracts.

test_native_shapes.py runs this file: ``python shape_questions.py suites question...``, with the first case of every
operator's suite as a literal.
"""
import ast
import json
import sys
import warnings

import gluonops as gops
import mxnet as mx
from gluonops.contract import registry
from gluonops.contract.errors import plural

SUITES = {}   # operator -> (attributes, shapes)

SQUARE = "stride * stride is more than 2**63 - 1"
ABSURD = [
    ("reorg", {"stride": 2**32, "mode": "DCR", "reverse": True}, (1, 4, 4, 4), SQUARE),
    ("reorg", {"stride": 2**63 - 1}, (1, 4, 4, 4), SQUARE),
    ("tile", {"tiles": 2**31}, (1,), "output (dim0 * tiles,) has a size above 2147483647"),
    ("tile", {"tiles": 2**63 - 1}, (2, 3), "output (dim0 * tiles, dim1 * tiles) has a size above 2147483647"),
    ("tile", {"tiles": (2**62, 4)}, (1, 1), "has a size above 2147483647"),
    ("tile", {"tiles": (2**30, 2**30, 2**30)}, (1, 1), "has more than 2**60 elements"),
    ("region_decode", {"classes": 2**63 - 1}, (1, 125, 2, 2), "anchors * (5 + classes) is more than 2**63 - 1"),
    ("region_decode", {"classes": 2**61}, (1, 125, 2, 2), "anchors * (5 + classes) is more than 2**63 - 1"),
    ("region_loss", {"classes": 2**63 - 6}, (1, 125, 2, 2), "anchors * (5 + classes) is more than 2**63 - 1"),
    ("softmax", {"axis": -2**63}, (2, 3), "axis -9223372036854775808 is out of range"),
    ("softmax_output", {"axis": 2**63 - 1}, (2, 3), "axis 9223372036854775807 is out of range"),
]


def error_of(call):
    """Return what it raises, as text, or empty where it does not."""
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


def variables_only(name, **attrs):
    """Return an operator of the library on variables alone, by its name in a graph."""
    op = registry.get(name).op
    strings = {key: str(value) for key, value in attrs.items()}
    return getattr(mx.sym, op.graph_name)(*(mx.sym.var(arg.name) for arg in op.inputs), **strings)


def a_hundred_times():
    for name, (attrs, _) in SUITES.items():
        inputs = (mx.sym.var(arg.name) for arg in registry.get(name).op.inputs)
        symbol = getattr(gops.ops, name)(*inputs, **attrs)
        for _ in range(100):
            symbol.infer_shape_partial()
            assert symbol.infer_shape() == (None, None, None)
            assert "nobody not found" in error_of(lambda: symbol.infer_shape(nobody=(2, 3)))   # noqa: B023


def from_an_output():
    x, z = mx.sym.var("x"), mx.sym.var("z")

    def shape_of(node, **shapes):
        return (node + z).infer_shape(**shapes)[0][0]

    assert shape_of(mx.sym.gluonops_abs(x), z=(2, 3)) == (2, 3)
    assert shape_of(mx.sym.gluonops_softmax(x), z=(2, 3, 4)) == (2, 3, 4)
    assert shape_of(mx.sym.gluonops_tile(x, tiles=3), z=(2, 6)) == (2, 2)
    assert shape_of(mx.sym.gluonops_reorg(x, stride=2), z=(1, 16, 2, 3)) == (1, 4, 4, 6)
    assert mx.sym.FullyConnected(gops.ops.abs(x), num_hidden=3).infer_shape_partial(x=(0, 7))[0][1] == (3, 7)
    wrong = error_of(lambda: shape_of(mx.sym.gluonops_tile(x, tiles=3), z=(2, 7)))
    assert "gluonops.tile: output has shape (2, 7); expected (dim0 * tiles, dim1 * tiles)" in wrong, wrong


def of_a_custom_op():
    """Python has no answer for an unknown number of dimensions; the library answers in its place."""
    x, z = mx.sym.var("x"), mx.sym.var("z")

    def shape_of(node, **shapes):
        return (node + z).infer_shape(**shapes)[0][0]

    with gops.backend("custom"):
        a_hundred_times()
        for function in (gops.ops.abs, gops.ops.softmax):
            assert function(x).infer_shape(x=()) == (None, None, None)
            assert shape_of(function(x), z=(2, 3)) == (2, 3)
        assert mx.sym.FullyConnected(gops.ops.abs(x), num_hidden=3).infer_shape_partial(x=(0, 7))[0][1] == (3, 7)
    assert shape_of(mx.sym.Custom(x, op_type="gluonops_tile", tiles=3), z=(2, 6)) == (2, 2)
    wrong = error_of(lambda: shape_of(mx.sym.Custom(x, op_type="gluonops_tile", tiles=3), z=(2, 7)))
    assert "gluonops.tile: output has shape (2, 7); expected (dim0 * tiles, dim1 * tiles)" in wrong, wrong
    mx.operator.register("theirs")(mx.operator.CustomOpProp)   # other people's are asked in Python, as ever
    assert mx.sym.Custom(x, op_type="theirs").infer_shape_partial(x=(2,)) == ([(2,)], [(2,)], [])
    with mx.util.np_shape(True):
        assert mx.sym.Custom(x, op_type="theirs").infer_shape_partial() == ([()], [()], [])


def without_dimensions():
    """Under np_shape () is a shape, and unknown is None."""
    with mx.util.np_shape(True):
        for name in SUITES:
            op, symbol = registry.get(name).op, variables_only(name)
            assert symbol.infer_shape_partial()[0] == [None] * len(op.inputs)
            scalar = {op.inputs[0].name: ()}
            try:
                expected = op.infer_shape(op.parse({}), scalar)
            except gops.OpError as error:
                assert str(error) in error_of(lambda: variables_only(name).infer_shape_partial(**scalar)), name   # noqa: B023
                continue
            assert symbol.infer_shape_partial(**scalar)[1] == [expected[out.name] for out in op.outputs]


def mistyped_names():
    data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
    for head in (gops.ops.softmax_output(data, label), gops.ops.softmax_cross_entropy(data, label),
                 gops.ops.softmax_output(mx.sym.FullyConnected(data, num_hidden=3), label)):
        for _ in range(20):
            for shapes in {"softmax_label": (4,)}, {"dato": (4, 3), "softmax_label": (4,)}:
                error = error_of(lambda: head.simple_bind(mx.cpu(), **shapes))   # noqa: B023
                assert "cannot decide shapes" in error and "data: " in error, error
            executor = head.simple_bind(mx.cpu(), data=(4, 3), lable=(4,))   # it follows from the data
            assert executor.arg_dict["softmax_label"].shape == (4,)
            error_of(lambda: mx.viz.print_summary(head, shape={"softmax_label": (4,)}))   # noqa: B023
        module = mx.mod.Module(head, label_names=("softmax_label",))
        wrong = error_of(lambda: module.bind([("data", (4, 3))], [("softmax_label", (4, 7, 7))]))   # noqa: B023
        assert "label has shape (4, 7, 7); expected 1 dimension (batch,)" in wrong, wrong


def absurd_sizes():
    """The same complaint in both languages, and never a wrapped number, a division by 0 or memory of another size."""
    for name, attrs, shape, text in ABSURD:
        op = registry.get(name).op
        complaint = error_of(lambda: op.infer_shape(op.parse(attrs), {"data": shape}))   # noqa: B023
        assert text in complaint, (name, attrs, complaint)
        symbol = mx.sym.load_json(variables_only(name, **attrs).tojson())
        for call in symbol.infer_shape, symbol.infer_shape_partial:
            assert complaint in error_of(lambda: call(data=shape)), (name, attrs)   # noqa: B023
        assert complaint in error_of(lambda: symbol.simple_bind(mx.cpu(), data=shape)), (name, attrs)   # noqa: B023
        symbol.infer_shape_partial()


def graph(operator, attrs, inputs):
    """Return the JSON of one node on so many variables."""
    nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(inputs)]
    nodes.append({"op": operator, "name": "h", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(inputs)]})
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(inputs)), "heads": [[inputs, 0, 0]],
                       "node_row_ptr": list(range(inputs + 2)), "attrs": {"mxnet_version": ["int", 10901]}})


def ask(text):
    symbol = mx.sym.load_json(text)
    shapes = dict.fromkeys(symbol.list_arguments(), (2, 3))
    symbol.infer_shape_partial()
    symbol.infer_shape_partial(**shapes)
    symbol.infer_type_partial(**dict.fromkeys(shapes, "float32"))
    symbol.simple_bind(mx.cpu(), grad_req="null", **shapes).forward()


def strange_graphs():
    """Any number of inputs, a gradient without its operator, what MXNet itself trusts: an error, or a result."""
    for name in SUITES:
        op = registry.get(name).op
        for count in range(5):
            error = error_of(lambda: ask(graph(op.graph_name, {}, count)))   # noqa: B023
            if count != len(op.inputs):
                text = f"the node has {plural(count, 'input')}; expected {len(op.inputs)}"
                assert text in error, (name, count, error)
            error_of(lambda: ask(graph(f"_backward_{op.graph_name}", {}, count)))   # noqa: B023
        for number in "-1", "1", "4294967296", "x":
            text = graph(op.graph_name, {"__ext_extra_inputs__": number}, len(op.inputs))
            error = error_of(lambda: ask(text))   # noqa: B023
            assert "the node has the attribute __ext_extra_inputs__" in error, (name, number, error)


class Theirs(mx.operator.CustomOpProp):
    """Another person's CustomOp."""

    def list_arguments(self):
        return ["a", "b", "c"]

    def infer_shape(self, in_shape):
        return in_shape, in_shape[:1], in_shape[:1]


def counts_of_inputs():
    """MXNet reads as many inputs as the operator declares, whatever the node has: an error, not the end."""
    mx.operator.register("theirs")(Theirs)
    nodes = [("Custom", {"op_type": "theirs"}, 3)]
    for name in SUITES:
        op = registry.get(name).op
        attrs = {attr: str(value) for attr, value in SUITES[name][0].items()}
        nodes += [(op.graph_name, attrs, len(op.inputs)),
                  ("Custom", {**attrs, "op_type": op.graph_name}, len(op.inputs))]
    for operator, attrs, expected in nodes:
        for count in {0, expected - 1, expected + 1, expected + 5}:
            symbol = mx.sym.load_json(graph(operator, attrs, count))
            refused_everywhere(symbol, f"the node has {plural(count, 'input')}; expected {expected}", (operator, attrs))


def refused_everywhere(symbol, text, where):
    shapes = dict.fromkeys(symbol.list_inputs(), (2, 3))
    types = dict.fromkeys(symbol.list_inputs(), "float32")
    both = mx.sym.load_json((symbol + 1).tojson())
    for ask in (symbol.infer_shape_partial, symbol.infer_type_partial, lambda: symbol.infer_shape(**shapes),
                lambda: symbol.infer_type(**types), lambda: symbol.infer_shape_partial(**shapes),
                lambda: symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)):
        error = error_of(ask)
        assert text in error, (where, ask, error)
    for ask in (lambda: symbol.simple_bind(mx.cpu(), **shapes), lambda: both.simple_bind(mx.cpu(), **shapes)):
        error = error_of(ask)   # MXNet itself counts the inputs of a gradient that is an operator's
        assert text in error or "does not match the actual number of inputs" in error, (where, ask, error)


if __name__ == "__main__":
    gops.backend("native")
    warnings.simplefilter("ignore")   # infer_shape warns of every argument that does not follow
    SUITES.update(ast.literal_eval(sys.argv[1]))
    for question in sys.argv[2:]:
        globals()[question]()
        print("answered:", question, flush=True)
