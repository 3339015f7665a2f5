from op_suite import Bad, Case, OpSuite, Row


class TestAbs(OpSuite):
    name = "abs"
    cases = (
        Case("matrix", ((3, 4),)),
        Case("one", ((1,),)),
        Case("prime", ((7, 13, 5),)),
        Case("beyond_1024", ((2, 1031),)),
    )
    empty = Case("empty", ((0, 3),))
    table = (
        Row("signs", ([-2.0, 0.0, 3.5],), {}, [2.0, 0.0, 3.5], [1.0, 5.0, -2.0], ([-1.0, 0.0, -2.0],)),
    )
    errors = (
        Bad("attribute", ((2,),), {"axis": 1}, "'axis' is not an attribute; this op takes none",
            spelled=False),
    )
    determined = (
        ({"output": (2, 3)}, {}, {"data": (2, 3), "output": (2, 3)}),
        ({"data": (-1, 3), "output": (2, -1)}, {}, {"data": (2, 3), "output": (2, 3)}),
    )
