"""Sampling of images at points: spatial transformers, and the grids that they are made of.

A grid is (B, 2, H, W): x and y of each pixel of the result, from -1, the middle of the first pixel of the image, to 1,
that of the last. Beyond the image are zeros.
"""
from __future__ import annotations

import numpy as np

from .rule_registry import OnnxCall, Tensor, TorchCall, in_torch, onnx, shape, torch
from .shape_rules import Call, Shape

SAMPLED = "F.grid_sample({image}, {grid}, padding_mode='zeros', align_corners=True)"


def _sampled(image: Tensor, grid: Tensor) -> Tensor:
    """An image at the points of a grid whose last axis is x and y."""
    return image.apply("GridSample", grid, mode="bilinear", padding_mode="zeros", align_corners=1)


@shape("BilinearSampler")
def _(call: Call, data: Shape, grid: Shape) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    call.check(len(grid) == 4 and grid[:2] == (data[0], 2), 1, f"({data[0]}, 2, height, width)")
    return (*data[:2], *grid[2:])


@onnx("BilinearSampler", opset=16)
def _(call: OnnxCall, data: Tensor, grid: Tensor) -> Tensor:
    return _sampled(data, grid.apply("Transpose", perm=[0, 2, 3, 1]))


in_torch("BilinearSampler", SAMPLED.format(image="{0}", grid="{1}.permute(0, 2, 3, 1)"))


# -- grids of affine transforms, and of the distances that pixels move ------------------------------------------------
@shape("GridGenerator")
def _(call: Call, data: Shape, *, transform_type, target_shape) -> Shape:
    if transform_type == "warp":
        call.check(len(data) == 4 and data[1] == 2, 0, "(batch, 2, height, width)")
        return data
    call.check(data[1:] == (6,), 0, "(batch, 6)")
    return (data[0], 2, *target_shape)


@onnx("GridGenerator")
def _(call: OnnxCall, data: Tensor, *, transform_type, target_shape) -> Tensor:
    height, width = call.shape[2:]
    if transform_type == "warp":
        moved = data + call.model.constant(_pixels(height, width)[None].astype(call.dtype))
        scale = np.array([(width - 1) / 2, (height - 1) / 2], call.dtype).reshape(1, 2, 1, 1)
        return moved / call.model.constant(scale) - 1.0
    return _affine(call, data, target_shape).reshape(call.shape)


def _affine(call: OnnxCall, transforms: Tensor, size: tuple[int, int]) -> Tensor:
    """The grids of affine transforms, (B, 6), as (B, 2, height * width)."""
    points = call.model.constant(_points(*size).astype(transforms.dtype))
    return transforms.reshape([call.shapes[-1][0], 2, 3]).apply("MatMul", points)


def _pixels(height: int, width: int) -> np.ndarray:
    """The column and the row of each pixel, (2, height, width)."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([columns, rows])


def _points(height: int, width: int) -> np.ndarray:
    """x, y and 1 of each pixel, (3, height * width), from -1 to 1."""
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.ones(height * width)])


def _check_size(call: TorchCall, size: tuple[int, int]) -> None:
    call.refuse_if(1 in size, "has a grid of one row or one column, whose points MXNet makes NaN")


@torch("GridGenerator")
def _(call: TorchCall, *, transform_type, target_shape) -> str:
    _check_size(call, call.shape[2:])
    if transform_type == "warp":
        return call.snippet("moved_pixels")
    return f"{_affine_in_torch('{0}', *map(str, target_shape))}.permute(0, 3, 1, 2)"


def _affine_in_torch(transforms: str, height: str, width: str) -> str:
    return (f"F.affine_grid({transforms}.reshape(-1, 2, 3), ({transforms}.shape[0], 1, {height}, {width}), "
            "align_corners=True)")


# -- both -------------------------------------------------------------------------------------------------------------
@shape("SpatialTransformer")
def _(call: Call, data: Shape, loc: Shape, *, target_shape) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    call.check(loc == (data[0], 6), 1, f"({data[0]}, 6)")
    return (*data[:2], *(target_shape if all(target_shape) else data[2:]))


@onnx("SpatialTransformer", opset=16)
def _(call: OnnxCall, data: Tensor, loc: Tensor) -> Tensor:
    size = call.shape[2:]
    grid = _affine(call, loc, size).reshape([call.shapes[-1][0], 2, *size])
    return _sampled(data, grid.apply("Transpose", perm=[0, 2, 3, 1]))


@torch("SpatialTransformer")
def _(call: TorchCall, *, target_shape) -> str:
    _check_size(call, call.shape[2:])
    size = map(str, target_shape) if all(target_shape) else ("{0}.shape[2]", "{0}.shape[3]")
    return SAMPLED.format(image="{0}", grid=_affine_in_torch("{1}", *size))
