import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from op_suite import Bad, Case, OpSuite, Row


class TestAbs(OpSuite):
    name = "abs"
    needs_types = ("int64",)   # computed in float64
    cases = (
        Case("matrix", ((3, 4),)),
        Case("one", ((1,),)),
        Case("prime", ((7, 13, 5),)),
        Case("beyond_1024", ((2, 1031),)),
        Case("column", ((6, 1),)),
    )
    empty = Case("empty", ((0, 3),))
    table = (
        Row("signs", ([-2, 0, 3.5, np.nan],), {}, [2, 0, 3.5, np.nan], [1, 5, -2, 3], ([-1, 0, -2, 0],)),
    )
    errors = (
        Bad("attribute", ((2,),), {"axis": 1}, "'axis' is not an attribute; this operator takes none",
            spelled=False),
    )
    determined = (
        ({"output": (2, 3)}, {}, {"data": (2, 3), "output": (2, 3)}),
        ({"data": (-1, 3), "output": (2, -1)}, {}, {"data": (2, 3), "output": (2, 3)}),
    )


@pytest.mark.parametrize("backend", ["custom", "reference", "native", "builtin", "cuda"], indirect=True)
def test_int64_beyond_what_float64_holds(backend):
    values = np.array([2 ** 53 + 1, -2 ** 53 - 1, -2 ** 63 + 1, 2 ** 63 - 1, 0], "int64")
    with gops.backend(backend):
        output = gops.ops.abs(mx.nd.array(values, dtype="int64")).asnumpy()
        typed = gops.ops.abs(mx.sym.var("data", dtype="int64"))
        graph = typed.bind(mx.cpu(), {"data": mx.nd.array(values, dtype="int64")}).forward()[0].asnumpy()
    np.testing.assert_array_equal(output, np.abs(values))
    np.testing.assert_array_equal(graph, np.abs(values))
