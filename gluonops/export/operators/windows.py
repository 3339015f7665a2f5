"""What the layers share: maps, layouts, windows, and the parameters behind the data."""
from __future__ import annotations

from .forms import one
from .rule_registry import OnnxCall, TorchCall
from .shape_rules import Call, Misfit, Shape


def pixels_of(call: Call, kernel: Shape = ()) -> Shape:
    """The sizes of the data along the axes of the pixels."""
    if call.has_channels_last:
        raise Misfit(f"{call.node.name!r} has the channels last, for which only MXNet can infer shapes")
    call.check(len(call.data) == len(kernel or call.data[2:]) + 2, 0, f"{len(kernel) + 2} dimensions")
    return call.data[2:]


def map_shape(call: Call, channels: int, sizes: list[int]) -> Shape:
    """The shape of a map."""
    call.check(all(size > 0 for size in sizes), 0, "at least as many pixels as the window has")
    return (call.data[0], channels, *sizes)


def check_onnx_layout(call: OnnxCall) -> None:
    if call.has_channels_last:
        raise call.refuse(f"has the layout {call.attributes['layout']}; expected channels first")


def check_torch_layout(call: TorchCall) -> None:
    call.refuse_if(call.has_channels_last, f"has the layout {call.attributes.get('layout')}; expected channels first")


def torch_window(call: TorchCall) -> dict[str, object]:
    """The arguments that convolutions and poolings share."""
    return dict(zip(("kernel_size", "stride", "padding"), map(one, call.window())))


def state_of(call: TorchCall, *names: str, first: int = 1) -> dict[str, int]:
    """The parameters of a layer by the position of their variables, which follow the data."""
    return dict(zip(names, range(first, len(call.node.inputs))))


def across(size: int, ndim: int, axis: int) -> tuple[int, ...]:
    """The shape in which a vector of this size broadcasts along ``axis``."""
    return tuple(size if i == axis else 1 for i in range(ndim))
