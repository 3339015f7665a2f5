"""sigmoid_focal_loss: element by element."""
import types

import numpy as np

from ..cases import Row, Target

TYPICAL = SMALL = [Row((7, 149)), Row((3, 64))]
VARIANTS = [Row((9, 33), {"gamma": 1.5, "ignore_label": 1}), Row((9, 33), {"alpha": -1.0, "gamma": 0.0})]
LARGE = [Row((65536, 1024)), Row((65536, 1024), dtype="float16")]
TARGETS = [Target("both", "copy", 0.85)]


def draw(attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    """Positives and negatives."""
    return {"label": rng.randint(0, 2, shapes["label"])}
