"""Pooling, and resizing of maps."""
from __future__ import annotations

import functools
import math
import operator

import numpy as np

from ..symbolic import scaled
from .forms import Form, one
from .rule_registry import OnnxCall, Tensor, TorchCall, onnx, shape, torch, traits
from .shape_rules import Call, Misfit, Shape
from .windows import check_onnx_layout, check_torch_layout, map_shape, pixels_of, torch_window

# -- pooling ----------------------------------------------------------------------------------------------------------
traits("Pooling", "Pooling_v1", acts_as="pooling")
traits("Pooling", hides_layout=True, in_8_bits=True)
traits("UpSampling", shown=("scale",))
traits("_contrib_BilinearResize2D", reads_any_types=True)
POOLS = {"avg": "AveragePool", "lp": "LpPool", "max": "MaxPool"}


@shape("Pooling", "Pooling_v1")
def _(call: Call, *, global_pool, pooling_convention) -> Shape:
    if global_pool:
        return map_shape(call, call.data[1], [1] * len(pixels_of(call)))
    kernel, strides, pads, _ = call.window()
    sizes = []
    for size, length, stride, pad in zip(pixels_of(call, kernel), kernel, strides, pads):
        call.check(length <= size + 2 * pad, 0, f"at least as many pixels as the kernel {kernel} has")
        if pooling_convention == "same":
            sizes.append(-(-size // stride))
        else:
            rest = size + 2 * pad - length
            sizes.append((-(-rest // stride) if pooling_convention == "full" else rest // stride) + 1)
    return map_shape(call, call.data[1], sizes)


@onnx("Pooling")
@onnx("Pooling_v1", count_include_pad=None, p_value=None)
def _(call: OnnxCall, data: Tensor, *, pool_type, global_pool, count_include_pad, p_value) -> Tensor:
    check_onnx_layout(call)
    options = {"p": p_value} if pool_type == "lp" else {}
    if global_pool:
        if pool_type == "sum":
            return data.reduce("ReduceSum", range(2, len(call.shape)))
        return data.apply(f"Global{POOLS[pool_type]}", **options)
    if any(not isinstance(size, int) for size in call.shape[2:]):
        raise call.refuse("pools along the batch axis; expected axes of pixels")
    windows = call.windows()
    kernel, strides, before, _, _ = zip(*windows)
    # The last windows end beyond the padding if MXNet rounds their number up.
    after = tuple(max(pad, (count - 1) * stride + length - pad - size)
                  for length, stride, pad, size, count in windows)
    if any(pad >= length for pad, length in zip(after, kernel)):   # MXNet: 0 or the lowest float; onnxruntime: an error
        raise call.refuse("has a window wholly beyond the data, as ceil_mode or pooling_convention='full' can make one")

    options.update(kernel_shape=kernel, strides=strides)
    if pool_type in ("max", "lp"):
        return data.apply(POOLS[pool_type], pads=before + after, **options)
    if any(before + after):
        data = data.apply("Pad", call.model.ints(0, 0, *before, 0, 0, *after), call.model.scalar(0, call.dtype))
    mean = data.apply("AveragePool", **options)
    divisors = np.ones((1,) * len(windows)) if pool_type == "sum" else _counts(windows, count_include_pad is not False)
    factor = math.prod(kernel) / divisors.astype(np.float64)
    return mean if (factor == 1).all() else mean * call.model.constant(factor.astype(call.dtype))


def _counts(windows: list[tuple[int, ...]], counts_padding: bool) -> np.ndarray:
    """How many elements of each window MXNet counts."""
    total = np.ones(())
    for length, stride, pad, size, count in windows:
        begin = np.arange(count) * stride - pad
        end = np.minimum(begin + length, size + pad)
        if not counts_padding:
            begin = np.maximum(begin, 0)
            end = np.minimum(end, size)
        total = total[..., None] * (end - begin)
    return total


@torch("Pooling")
@torch("Pooling_v1", count_include_pad=None)
def _(call: TorchCall, *, pool_type, global_pool, pooling_convention, count_include_pad) -> Form:
    check_torch_layout(call)
    call.refuse_if(pool_type not in ("max", "avg", "sum"), f"has pool_type {pool_type}; expected max, avg or sum")
    name, spatial = pool_type.capitalize(), call.ndim - 2
    if global_pool and pool_type == "sum":
        return Form(f"{{0}}.sum({tuple(range(2, call.ndim))}, keepdim=True)")
    if global_pool:
        function = f"F.adaptive_{pool_type}_pool{spatial}d({{0}}, 1)"
        return Form(function, f"nn.Adaptive{name}Pool{spatial}d", {"output_size": 1})
    call.refuse_if(pooling_convention not in ("valid", "full"),
                   f"has pooling_convention {pooling_convention}; expected valid or full")
    _check_windows(call, pooling_convention == "full")
    if pool_type == "sum":
        return Form(_summed(call, pooling_convention == "full"))
    args = {**torch_window(call), "ceil_mode": pooling_convention == "full"}
    if pool_type == "avg":
        args["count_include_pad"] = count_include_pad is not False
    text = "{self}({0})"
    if spatial == 3 and args.get("count_include_pad"):   # torch's takes no data that are smaller than the window
        padding = [pad for pad in reversed(call.window()[2]) for _ in ("before", "behind")]
        args["padding"], text = 0, f"{{self}}(F.pad({{0}}, {padding}))"
    return Form(module=f"nn.{name}Pool{spatial}d", args=args, call=text)


def _summed(call: TorchCall, is_full: bool) -> str:
    """The sums of windows: means that are divided by 1, which torch has for two axes and for three."""
    kernel, strides, pads, _ = call.window()
    if len(kernel) > 1:
        return f"F.avg_pool{len(kernel)}d({{0}}, {kernel}, {strides}, {pads}, {is_full}, True, 1)"
    window = f"(1, {kernel[0]}), (1, {strides[0]}), (0, {pads[0]})"
    return f"F.avg_pool2d({{0}}.unsqueeze(2), {window}, {is_full}, True, 1).squeeze(2)"


def _check_windows(call: TorchCall, is_full: bool) -> None:
    """Refuse what torch's poolings do not have: much padding, and windows that begin behind the data."""
    for axis, (length, stride, pad, size, outputs) in enumerate(call.windows(), 2):
        call.refuse_if(2 * pad > length,
                       f"has a padding of {pad} for a kernel of {length}; expected at most half of the kernel")
        call.refuse_if((outputs - 1) * stride >= size + pad,
                       "has a window wholly beyond the data, as pooling_convention='full' can make one")
        call.refuse_if(is_full and axis in call.free[0] and stride + pad > length,
                       "has a window wholly beyond the data of some images, as pooling_convention='full' can make one")


@shape("_contrib_AdaptiveAvgPooling2D")
def _(call: Call, *, output_size) -> Shape:
    call.check(len(call.data) == 4, 0, "4 dimensions")
    return (*call.data[:2], *((output_size or (1,)) * 2)[:2])


@onnx("_contrib_AdaptiveAvgPooling2D")
def _(call: OnnxCall, data: Tensor) -> Tensor:
    """Each output is a mean over rows and columns, so it is a product with two matrices."""
    over_rows, over_columns = [
        _means(size, out, call.dtype) for size, out in zip(call.shapes[0][2:], call.shape[2:])]
    result = call.model.constant(over_rows).apply("MatMul", data)
    return result.apply("MatMul", call.model.constant(over_columns.T))


def _means(size: int, out: int, dtype: np.dtype) -> np.ndarray:
    """(out, size): row ``i`` takes the mean of the elements of output ``i``."""
    matrix = np.zeros((out, size), dtype)
    for i in range(out):
        begin = i * size // out
        end = -(-(i + 1) * size // out)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@torch("_contrib_AdaptiveAvgPooling2D")
def _(call: TorchCall) -> Form:
    size = one(call.shape[2:])
    return Form(f"F.adaptive_avg_pool2d({{0}}, {size})", "nn.AdaptiveAvgPool2d", {"output_size": size})


# -- resizing ---------------------------------------------------------------------------------------------------------
@shape("UpSampling")
def _(call: Call, *, scale, sample_type, multi_input_mode) -> Shape:
    batch, channels, height, width = call.data
    if sample_type == "nearest" and len(call.shapes) > 1:
        channels = sum(other[1] for other in call.shapes) if multi_input_mode != "sum" else channels
    return batch, channels, height * scale, width * scale


@onnx("UpSampling")
def _(call: OnnxCall, *inputs: Tensor, sample_type, multi_input_mode) -> Tensor:
    """Pixels are repeated until all inputs have the size of the first; or a deconvolution has the weights."""
    if sample_type == "bilinear":
        kernel, stride, pad = call.bilinear_window()
        return call.model.add("ConvTranspose", *inputs, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                              pads=[pad] * 4, group=call.shape[1])
    repeated = [_repeated(value, scale) for value, scale in zip(inputs, call.scales())]
    if len(repeated) == 1:
        return repeated[0]
    if multi_input_mode == "sum":
        return functools.reduce(operator.add, repeated)
    return call.model.add("Concat", *repeated, axis=1)


def _repeated(data: Tensor, scale: int) -> Tensor:
    """Every pixel ``scale`` times along both axes."""
    scales = data.model.constant(np.array([1, 1, scale, scale], np.float32))
    return data.apply("Resize", None, scales, mode="nearest", nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric")


@torch("UpSampling")
def _(call: TorchCall, *, scale, sample_type, multi_input_mode) -> Form | str:
    if sample_type == "bilinear":
        _, stride, pad = call.bilinear_window()
        return f"F.conv_transpose2d({{0}}, {{1}}, stride={stride}, padding={pad}, groups={call.shape[1]})"
    repeated = [f"F.interpolate({{{index}}}, scale_factor={float(each)})" for index, each in enumerate(call.scales())]
    if len(repeated) == 1:
        return Form(repeated[0], "nn.Upsample", {"scale_factor": scale})
    if multi_input_mode == "sum":
        return " + ".join(repeated)
    return f"torch.cat([{', '.join(repeated)}], 1)"


@shape("_contrib_BilinearResize2D")
def _(call: Call, *, mode, height, width, scale_height, scale_width) -> Shape:
    sizes = []
    for axis, old, new, scale in zip((2, 3), pixels_of(call, (1, 1)), (height, width), (scale_height, scale_width)):
        if mode == "like":
            new = call.shapes[1][axis]
        elif mode == "size":
            new = scaled(old, scale) if scale_height is not None else new
        else:
            raise Misfit(f"{call.node.name!r} has the mode {mode}, for which only MXNet can infer sizes")
        sizes.append(new)
    return (*call.data[:2], *sizes)


@onnx("_contrib_BilinearResize2D")
def _(call: OnnxCall, data: Tensor, *like: Tensor, align_corners) -> Tensor:
    """Along an axis whose output is one pixel MXNet takes the first pixel, whatever the mode is."""
    single = [axis for axis in (2, 3) if call.shape[axis] == 1]
    if single:
        data = data.cut(single, [0] * len(single), [1] * len(single))
    return data.apply("Resize", None, None, call.model.shape(call.shape), mode="linear",
                      coordinate_transformation_mode="align_corners" if align_corners else "half_pixel")


@torch("_contrib_BilinearResize2D")
def _(call: TorchCall, *, mode, scale_height, scale_width, align_corners) -> str:
    call.refuse_if(1 in call.shape[2:] and call.shape[2:] != call.shapes[0][2:], "resizes to one pixel")
    call.refuse_if(mode not in ("size", "like"), f"has the mode {mode}; expected size or like")
    size = "size={1}.shape[2:]" if mode == "like" else f"size={one(call.shape[2:])}"
    if mode == "size" and scale_height is not None:
        scales = scale_height, scale_width
        call.refuse_if(any(scale != int(scale) for scale in scales), "has a scale that is not an integer")
        size = f"scale_factor={one(scales)}"
    return f"F.interpolate({{0}}, {size}, mode='bilinear', align_corners={align_corners})"
