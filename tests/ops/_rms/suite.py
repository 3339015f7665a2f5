"""What the suites of rms_norm and l2_normalize share."""
import oracles
from op_suite import Bad, OpSuite, largest_finite


class ScaledRowsSuite(OpSuite):
    """A class of a test derives from it."""

    undefined = ("inf", "-inf", "max", "huge", "nan")   # squares
    errors = (
        Bad("axis", ((3, 3), (3,)), {"axis": 2}, "axis 2 is out of range for data of 2 dimensions"),
        Bad("scale", ((2, 3), (2,)), {"axis": -1}, "scale has shape (2,); expected (3,) to match data of shape (2, 3)",
            first=False),
        Bad("eps", ((3, 3), (3,)), {"axis": -1, "eps": 0}, "expected a finite number of at least 1e-12 and below 1"),
        Bad("integers", ((3, 3), (3,)), {"axis": -1}, "data has dtype int32; expected float16, float32, float64",
            ("int32", "int32")),
    )
    texts = {"axis": ["0", "-2"], "eps": ["1e-12", "1e-13", "0", "1", "0.99"]}
    determined = (({"output": (2, 3)}, {"axis": -1},
                   {"data": (2, 3), "scale": (3,), "output": (2, 3), "rstd": (2, 1)}),)

    def amplification(self, attrs, backend, *inputs):
        """The gradient is multiplied by the rstd. A single element's does not cancel, but for MXNet's derivative."""
        if inputs[0].shape[attrs.axis] == 1 and backend != "builtin":
            return 1.0
        return largest_finite(oracles.get(self.name).forward(attrs, *inputs)["rstd"])
