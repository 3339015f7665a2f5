"""Random numbers of the size of a tensor. Each target draws others than MXNet, of the same distribution."""
from __future__ import annotations

from .forms import number
from .registry import TorchCall, shape, torch
from .shapes import Call, Shape


@shape("_random_normal_like", "_random_uniform_like")
def _(call: Call, data: Shape) -> Shape:
    return data


def _scaled(text: str, factor: float, offset: float) -> str:
    """What draws, times a factor and shifted, as far as these change anything."""
    text = text if factor == 1 else f"{number(factor)} * {text}"
    return text if offset == 0 else f"{text} + {number(offset)}"


@torch("_random_normal_like")
def _(call: TorchCall, *, loc, scale) -> str:
    return _scaled("torch.randn_like({0})", scale, loc)


@torch("_random_uniform_like")
def _(call: TorchCall, *, low, high) -> str:
    return _scaled("torch.rand_like({0})", high - low, low)
