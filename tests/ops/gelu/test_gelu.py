import numpy as np
from op_suite import Bad, Case, Row
from ops._activation.suite import ActivationSuite

BELOW_1, DENSITY_AT_1 = 0.8413447460685429, np.exp(-0.5) / np.sqrt(2 * np.pi)   # the normal distribution's
TANH = {"approximation": "tanh"}
T = np.tanh(np.sqrt(2 / np.pi) * 1.044715)   # its value at 1
T_SLOPE = (1 - T ** 2) * np.sqrt(2 / np.pi) * 1.134145


class TestGelu(ActivationSuite):
    name = "gelu"
    cases = (*ActivationSuite.cases, Case("tanh", ((5, 3),), TANH))
    table = (
        Row("erf", ([0.0, 1, -1],), {}, [0, BELOW_1, BELOW_1 - 1], [4, 1, 1],
            ([2, BELOW_1 + DENSITY_AT_1, 1 - BELOW_1 - DENSITY_AT_1],)),
        Row("tanh", ([0.0, 1],), TANH, [0, (1 + T) / 2], [4, 1], ([2, (1 + T + T_SLOPE) / 2],)),
    )
    errors = (
        *ActivationSuite.errors,
        Bad("approximation", ((2, 3),), {"approximation": "none"}, "expected 'erf' or 'tanh'"),
    )
    texts = {"approximation": ["tanh", "Tanh", "none", ""]}
