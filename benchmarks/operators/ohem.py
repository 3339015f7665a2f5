"""ohem: of the losses of a batch, as of a segmentation's places, of which a tenth is ignored; and of each sample."""
import types

import numpy as np

from ..harness.cases import Row

CPU = [Row((4, 512, 512))]

TYPICAL = [Row((7, 149)), Row((1, 4099), {"keep": 1000})]
SMALL = [Row((3, 33), {"per_sample": True})]
VARIANTS = [Row((5, 67), {"threshold": 1.0}), Row((2, 1031), {"ratio": 0.5, "per_sample": True})]
GPU = [Row((4, 512, 512)), Row((4096, 4096), {"per_sample": True})]
EXACT = ("output", "data_grad")


def draw(attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    shape = shapes["data"]
    return {"data": rng.gamma(1, 1, shape) * (rng.rand(*shape) > 0.1)}


def in_torch(attrs, ndim):
    """The usual composition: topk, and a mask of what it has chosen."""
    def ohem(torch, data):
        flat = data.flatten()
        number = int(torch.ceil(attrs["ratio"] * (flat != 0).sum()))
        _, places = flat.detach().topk(number, sorted=False)
        mask = torch.zeros_like(flat)
        mask[places] = 1
        return (flat * mask).view_as(data)

    return ohem if attrs["keep"] is attrs["threshold"] is None and not attrs["per_sample"] else None
