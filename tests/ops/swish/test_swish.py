import numpy as np
from op_suite import Bad, Case, Row
from ops._activation.suite import ActivationSuite

LOG_3 = np.log(3)   # there the sigmoid is 3 / 4


class TestSwish(ActivationSuite):
    name = "swish"
    undefined = (*ActivationSuite.undefined, "max")   # head * data overflows in MXNet's derivative of a product
    cases = (*ActivationSuite.cases, Case("beta", ((5, 3),), {"beta": 2.5}))
    table = (
        Row("silu", ([0.0, LOG_3],), {}, [0, 0.75 * LOG_3], [1, 4], ([0.5, 3 + 0.75 * LOG_3],)),
        Row("beta", ([LOG_3 / 2],), {"beta": 2}, [0.375 * LOG_3], [8], ([6 + 1.5 * LOG_3],)),
        Row("beta_0", ([3.0],), {"beta": 0}, [1.5], [2], ([1.0],)),
    )
    errors = (
        *ActivationSuite.errors,
        Bad("beta", ((2, 3),), {"beta": -1}, "expected a finite number of at least 0 and below 1000"),
    )
    texts = {"beta": ["0", "-0.0", "1e2", "1000", "-1e-9", "nan", "x"]}
