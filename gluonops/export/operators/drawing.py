"""Random numbers. Each target draws others than MXNet, of the same distribution."""
from __future__ import annotations

import numpy as np

from ..values import NodeValues
from . import schema
from .forms import number
from .rule_registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits, types
from .shape_rules import Call, Shape

OF_NUMPY = ("bernoulli", "choice", "exponential", "gamma", "gumbel", "logistic", "multinomial", "normal", "normal_n",
            "pareto", "powerd", "rayleigh", "uniform", "uniform_n", "weibull")
traits("_shuffle", *(f"_npi_{word}" for word in OF_NUMPY),
       *(name for name in schema.names() if name.startswith(("_random_", "_sample_", "_image_random_"))
         and not name.startswith("_random_pdf_")), draws=True)
traits("_random_normal", "_random_uniform", acts_as="draw")


@shape("_random_normal_like", "_random_uniform_like")
def _(call: Call, data: Shape) -> Shape:
    return data


@shape("_random_normal", "_random_uniform")
def _(call: Call, *, shape) -> Shape:
    return tuple(shape)


@shape("_sample_normal", "_sample_uniform")
def _(call: Call, first: Shape, second: Shape, *, shape) -> Shape:
    """So many numbers for each element of the inputs."""
    call.expect(1, first)
    return (*first, *shape)


@shape("_sample_multinomial")
def _(call: Call, data: Shape, *, shape, get_prob) -> Shape | list[Shape]:
    drawn = (*data[:-1], *shape) or (1,)
    return [drawn, drawn] if get_prob else drawn


@types("_random_normal", "_random_uniform")
def _(call: NodeValues, *, dtype) -> str:
    return dtype or "float32"


@types("_sample_normal", "_sample_uniform")
def _(call: NodeValues, first: np.dtype, second: np.dtype, *, dtype) -> np.dtype | str:
    return dtype or (first if first.kind == "f" else "float32")


@types("_sample_multinomial")
def _(call: NodeValues, data: np.dtype, *, dtype, get_prob) -> str | list[np.dtype | str]:
    return [dtype, data] if get_prob else dtype


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


@onnx("_random_normal", "_random_normal_like")
def _(call: OnnxCall, *like: Tensor, loc, scale) -> Tensor:
    return _drawn(call, like, "RandomNormal", mean=loc, scale=scale)


@onnx("_random_uniform", "_random_uniform_like")
def _(call: OnnxCall, *like: Tensor, low, high) -> Tensor:
    return _drawn(call, like, "RandomUniform", low=low, high=high)


def _drawn(call: OnnxCall, like: tuple[Tensor, ...], op: str, **options: float) -> Tensor:
    """Numbers in the shape of an input, or of the node."""
    if like:
        return like[0].apply(f"{op}Like", dtype=call.type_number, **options)
    return call.model.add(op, shape=call.shape, dtype=call.type_number, **options)


@onnx("_sample_normal", op="RandomNormalLike")
@onnx("_sample_uniform", op="RandomUniformLike")
def _(call: OnnxCall, *inputs: Tensor, op) -> Tensor:
    """Numbers for each element of the inputs: a mean and a deviation, or the bounds of an interval."""
    further = (1,) * (len(call.shape) - len(call.shapes[0]))
    first, second = (value.cast(call.dtype).reshape((*call.shapes[0], *further)) for value in inputs)
    numbers = call.model.scalar(0, call.dtype).expand(call.shape).apply(op, dtype=call.type_number)
    return first + numbers * (second if op == "RandomNormalLike" else second - first)


@onnx("_sample_multinomial")
def _(call: OnnxCall, data: Tensor, *, get_prob) -> Tensor:
    """ONNX takes the logarithms of the probabilities, a row for each image."""
    if get_prob:
        raise call.refuse("has get_prob=True; expected False")
    *batch, classes = call.shapes[0]
    count = int(np.prod(call.shape[len(batch):], dtype=int))
    rows = data.apply("Log").reshape((*batch, classes) if batch else (1, classes))
    return rows.apply("Multinomial", sample_size=count, dtype=call.type_number).reshape(call.shape)
