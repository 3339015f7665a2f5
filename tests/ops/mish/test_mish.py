import numpy as np
from op_suite import Row
from ops._activation.suite import ActivationSuite

LOG_2 = np.log(2)   # there exp(x) is 2, and the hyperbolic tangent is 8 / 10


class TestMish(ActivationSuite):
    name = "mish"
    table = (
        Row("zero_and_log_2", ([0.0, LOG_2],), {}, [0, 0.8 * LOG_2], [1, 5], ([0.6, 4 + 1.2 * LOG_2],)),
    )
