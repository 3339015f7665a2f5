"""Functions of each element alone that are no layer's activation. The others are in ``onnx`` and ``torch`` still."""
from __future__ import annotations

import numpy as np

from .forms import Form, Single, number
from .registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch
from .shapes import Call, Shape


@shape("_contrib_div_sqrt_dim", "clip", "hard_sigmoid")
def _(call: Call, data: Shape) -> Shape:
    return data


@onnx("_contrib_div_sqrt_dim")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    return data / np.sqrt(call.shape[-1])


in_torch("_contrib_div_sqrt_dim", "{0} / {0}.shape[-1] ** 0.5")


@onnx("hard_sigmoid")
def _(call: OnnxCall, data: Tensor, *, alpha, beta) -> Tensor:
    return data.apply("HardSigmoid", alpha=alpha, beta=beta)


@torch("hard_sigmoid")
def _(call: TorchCall, *, alpha, beta) -> str:
    """At the ends it has no gradient."""
    return f"F.hardtanh({number(Single(alpha))} * {{0}} + {number(Single(beta))}, 0.0, 1.0)"


def _bounds(dtype: np.dtype, *bounds: float) -> list[float]:
    """The bounds of a clip. Beyond the limits of integers they bound nothing."""
    if dtype.kind not in "iu":
        return list(bounds)
    limits = np.iinfo(dtype)
    return [min(max(int(bound), limits.min), limits.max) for bound in bounds]


@onnx("clip")
def _(call: OnnxCall, data: Tensor, *, a_min, a_max) -> Tensor:
    """MXNet holds the bounds in float32."""
    return data.apply("Clip", *_bounds(call.dtype, float(np.float32(a_min)), float(np.float32(a_max))))


@torch("clip")
def _(call: TorchCall, *, a_min, a_max) -> Form:
    """It is no nn.ReLU6: the gradient passes where a number is equal to a bound."""
    lowest, highest = _bounds(call.dtype, Single(a_min), Single(a_max))
    return Form(f"{{0}}.clamp({number(lowest)}, {number(highest)})", "Clip", {"low": lowest, "high": highest})
