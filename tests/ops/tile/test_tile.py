import json

import gluonops as gops
import mxnet as mx
import numpy as np
from in_turn import in_turn
from op_suite import Bad, Case, OpSuite, Row


class TestTile(OpSuite):
    name = "tile"
    cases = (
        Case("last_axis", ((3, 4),), {"tiles": 3}),
        Case("last_axis_4d", ((2, 3, 1, 5),), {"tiles": 3}),
        Case("axis_0", ((3, 4),), {"tiles": 2, "axis": 0}),
        Case("axis_1", ((3, 4, 2),), {"tiles": 2, "axis": 1}),
        Case("once", ((3, 4),), {"tiles": 1, "axis": 1}),
        Case("no_counts", ((3, 4),), {"tiles": ()}),
        Case("tuple", ((3, 4),), {"tiles": (2, 3)}),
        Case("short_tuple", ((2, 3, 4),), {"tiles": (5,)}),
        Case("long_tuple", ((3,),), {"tiles": (2, 4, 3)}),
        Case("gaps", ((2, 3, 2, 5),), {"tiles": (2, 1, 3, 1)}),
        Case("prime", ((7, 13),), {"tiles": (11, 1)}),
        Case("beyond_1024", ((1, 1031),), {"tiles": (3, 2)}),
        Case("every_axis", ((3, 2, 5, 2),), {"tiles": (2, 3, 2, 2)}),
        Case("most_loops", ((3, 2, *[1] * 7),), {"tiles": (2,) * 8}),
    )
    empty = Case("empty", ((0, 3),), {"tiles": 2})
    table = (
        Row("row", ([[1, 2]],), {"tiles": 2}, [[1, 2, 1, 2]], [[1, 2, 30, 40]], ([[31, 42]],)),
        Row("both", ([[1, 2]],), {"tiles": (2, 1)}, [[1, 2], [1, 2]], [[1, 2], [3, 4]], ([[4, 6]],)),
    )
    errors = (
        Bad("zero", ((2, 2),), {"tiles": 0}, "tiles is "),
        Bad("words", ((2, 2),), {"tiles": "two"}, "expected an integer of at least 1, or a tuple of them"),
        Bad("axis", ((2, 2),), {"tiles": 2, "axis": 2}, "axis 2 is out of range for data of 2 dimensions"),
        Bad("axis_and_tuple", ((2, 2),), {"tiles": (2, 2), "axis": 0}, "axis is 0 and tiles is the tuple (2, 2)"),
        Bad("too_many", ((2, 2),), {"tiles": (1,) * 9}, "tiles has 9 counts; expected at most 8"),
    )
    texts = {"tiles": ["3", " 3 ", "(2,)", "(2, 3)", "[2,3]", "2,3", "(2,3,)", "()", "(2", "2.5", "-1", "(0,)", "two",
                       "", "(3)", "1_0", "00", "01", "((2,),)", "None", "0x2",
                       "(0b1, 2)", "٢"],
             "axis": ["0", "-2", "+1", "1.0", "x"]}
    determined = (
        ({"output": (3, 8)}, {"tiles": 2}, {"data": (3, 4), "output": (3, 8)}),
    )


@in_turn("dtype", ["float16", "float32", "float64", "int8"])
@in_turn("shape, counts", [
    ((100, 1), (1, 3)), ((1000, 2), (1, 2)), ((100, 3), (1, 2)), ((50, 4), (1, 7)), ((40, 5), (3, 2)),
    ((33, 7), (1, 3)),
    ((70, 8), (2, 9)), ((64, 12), (1, 5)), ((35, 16), (1, 8)), ((34, 17), (1, 2)), ((2, 50, 3), (2, 1, 2)),
    ((70, 3, 2), (1, 3, 2)), ((2, 41, 2, 1), (2, 1, 2, 2)), ((37, 5, 3), (1, 2, 3)), ((33, 20, 2), (1, 3, 2)),
    ((41, 2, 2, 2), (1, 2, 2, 3)), ((40, 1, 5), (1, 7, 2)), ((40, 3, 2), (9, 3, 3)),
])
def test_many_short_rows(shape, counts, dtype):
    """Sums of integers are exact: vectors of several rows, and the rows at the end that are done one by one."""
    data = mx.nd.array(np.arange(np.prod(shape)).reshape(shape) % 5, dtype=dtype)
    data.attach_grad()
    with mx.autograd.record():
        output = gops.ops.tile(data, counts)
    expected = np.tile(data.asnumpy(), counts)
    np.testing.assert_array_equal(output.asnumpy(), expected)
    head = np.arange(expected.size).reshape(expected.shape) % 3
    output.backward(mx.nd.array(head, dtype=dtype))
    parts = head.reshape([length for pair in zip(counts, shape) for length in pair])
    np.testing.assert_array_equal(data.grad.asnumpy(), parts.sum(tuple(range(0, 2 * len(shape), 2))))


@in_turn("count", [64, 65, 4097, 100000])
def test_many_copies_are_few_nodes(count, rng):
    with gops.backend("builtin"):
        graph = gops.ops.tile(mx.sym.var("data"), count, axis=1)
    data = mx.nd.array(rng.randn(2, 3, 2))
    gradient = mx.nd.zeros(data.shape)
    executor = graph.bind(mx.cpu(), {"data": data}, {"data": gradient})
    output = executor.forward(is_train=True)[0]
    executor.backward(mx.nd.ones(output.shape))
    np.testing.assert_array_equal(output.asnumpy(), np.tile(data.asnumpy(), (1, count, 1)))
    np.testing.assert_array_equal(gradient.asnumpy(), np.full(data.shape, count))
    assert max(len(node["inputs"]) for node in json.loads(graph.tojson())["nodes"]) < 128


@in_turn("attrs", [{"tiles": 1, "axis": 0}, {"tiles": ()}, {"tiles": (1,)}])
class TestOneCopy:
    def test_bound_for_inference(self, attrs):
        """MXNet cannot bind a graph of two identities and nothing else."""
        with gops.backend("builtin"):
            graph = gops.ops.tile(mx.sym.var("data"), **attrs)
        executor = graph.simple_bind(mx.cpu(), grad_req="null", data=(3,))
        executor.arg_dict["data"][:] = 7
        np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [7, 7, 7])

    def test_it_is_not_the_input(self, attrs):
        data = mx.nd.ones((3,))
        with gops.backend("builtin"):
            output = gops.ops.tile(data, **attrs)
        data[:] = 5
        np.testing.assert_array_equal(output.asnumpy(), [1, 1, 1])
