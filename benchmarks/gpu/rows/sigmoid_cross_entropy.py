"""sigmoid_cross_entropy: element by element."""
import types

import numpy as np

from ..cases import Row, Target

TYPICAL = SMALL = [Row((7, 149)), Row((3, 64))]
VARIANTS = [Row((9, 5), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "ignore_label": 1}),
            Row((2, 5, 7), {"pos_weight": (0.5, 2.0, 0.0, 1.0, 7.0), "axis": 1})]
LARGE = [Row((65536, 1024)), Row((65536, 1024), dtype="float16")]
TARGETS = [Target("both", "copy", 0.85)]


def draw(attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """Positives and negatives."""
    return {"label": rng.randint(0, 2, shapes["label"])}
