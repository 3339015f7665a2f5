import numpy as np
from op_suite import Row
from ops._activation.suite import ActivationSuite


class TestHardSwish(ActivationSuite):
    name = "hard_swish"
    undefined = (*ActivationSuite.undefined, "max")   # head * data overflows in MXNet's derivative of a product
    needs_types = ("float16",)   # the slope jumps where x + 3 is rounded to 0
    table = (
        Row("corners", ([-4.0, -3, 0, 1, 3, 5],), {}, [0, 0, 0, 2 / 3, 3, 5], [7, 7, 2, 6, 2, 3],
            ([0, 0, 1, 5, 2, 3],)),
    )

    def draw(self, *arguments):
        """The slope jumps at the corners, which the table has, and rounding moves a number across them."""
        return [np.where(np.abs(np.abs(array) - 3) < 0.01, array.dtype.type(2), array)
                for array in super().draw(*arguments)]
