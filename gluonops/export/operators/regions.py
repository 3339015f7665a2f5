"""Pooling of regions, and the loss of sequences without an alignment."""
from __future__ import annotations

from .registry import TorchCall, shape, torch
from .shapes import Call, Shape


@shape("ROIPooling")
def _(call: Call, data: Shape, rois: Shape, *, pooled_size) -> Shape:
    call.check(len(data) == 4, 0, "4 dimensions")
    call.check(len(rois) == 2 and rois[1] == 5, 1, "(regions, 5)")
    return rois[0], data[1], *pooled_size


@torch("ROIPooling")
def _(call: TorchCall, *, pooled_size, spatial_scale) -> str:
    return call.snippet("roi_pooling", pooled_size, spatial_scale)


@shape("CTCLoss")
def _(call: Call, data: Shape, label: Shape, *lengths: Shape) -> Shape:
    call.check(len(data) == 3, 0, "(steps, batch, classes)")
    call.check(len(label) == 2 and label[0] == data[1], 1, f"({data[1]}, labels)")
    for position in range(len(lengths)):
        call.expect(2 + position, (data[1],))
    return (data[1],)


@torch("CTCLoss")
def _(call: TorchCall, *, use_data_lengths, use_label_lengths, blank_label) -> str:
    """The lengths are inputs behind the label, each if it is used."""
    given = ["data_lengths"] * use_data_lengths + ["label_lengths"] * use_label_lengths
    inputs = ["{0}", "{1}", *(f"{name}={{{position}}}" for position, name in enumerate(given, 2))]
    return f"ctc_loss({', '.join(inputs)}{', blank=-1' if blank_label == 'last' else ''})"
