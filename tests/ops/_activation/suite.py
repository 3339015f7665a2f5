"""What the suites of the activations share."""
from op_suite import Bad, Case, OpSuite

INTEGERS = Bad("integers", ((2, 3),), {}, "data has dtype int32; expected float16, float32, float64", ("int32",))


class ActivationSuite(OpSuite):
    """A class of a test derives from it, and sets ``name``, ``table`` and, for attributes, more cases and errors."""

    undefined = ("inf", "-inf")
    cases = (Case("matrix", ((3, 4),)), Case("prime", ((7, 149),)), Case("one", ((1,),)))
    empty = Case("empty", ((0, 3),))
    errors = (INTEGERS,)
    determined = (({"output": (2, 3)}, {}, {"data": (2, 3), "output": (2, 3)}),)
