"""The loss ``gluonops.loss.YOLOLoss``."""
from __future__ import annotations

from collections.abc import Sequence

from mxnet import gluon

from ...backends import label_checks
from ...backends.emitter import Array
from ...backends.printed import call_text
from ...contract.attributes import Attr, Pairs
from ...contract.errors import plural
from .._region.counting import LossWithParts
from . import yolo_loss as _yolo_loss


class YOLOLoss(LossWithParts, function=_yolo_loss):
    """The loss of all heads of YOLOv3, YOLOv4 or YOLOv7, per image: the sum of the operator's.

    Parameters
    ----------
    anchors : sequence of float
        Sizes of the net's anchors in pixels of its input, above 0: (w0, h0, w1, h1, ...), or pairs. ``anchors`` of a
        cfg. If the heads have different ones, a list of pairs for each head.
    masks : sequence of sequence of int
        For each head, the numbers of its anchors, from 0. ``mask`` of a cfg.
    strides : sequence of int
        For each head, the pixels of the net's input along a side of a cell, such as 32, 16, 8.
    classes : int
        Number of classes.
    **options : optional
        Those of :func:`gluonops.ops.yolo_loss`, such as `dialect` or `box_loss`. A sequence with a value for each head
        is taken as well: `scale_x_y` of YOLOv4 is (1.2, 1.1, 1.05) for the strides 8, 16, 32. `prefix` and `params` are
        a block's.

    Inputs:
        - **preds**: for each head the output of its last convolution, (B, A*(5+K), H, W), in a list or tuple, or one
          such array for one head; float16, float32 or float64.

    Outputs:
        - **loss**: (B,), the dtype of ``preds``.
    """

    def __init__(self, anchors: Sequence, masks: Sequence, strides: Sequence, classes: int, prefix: str | None = None,
                 params: gluon.ParameterDict | None = None, **options):
        super().__init__(prefix=prefix, params=params)
        self._arguments = {"anchors": anchors, "masks": masks, "strides": strides, "classes": classes, **options}
        self._heads = _heads(self._op, anchors, masks, strides, classes, options)

    def __repr__(self):
        return call_text(self, self._arguments)

    def forward(self, preds: Array | Sequence, truth: Array) -> Array:
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
        if len(preds) != len(self._heads):
            raise self._op.error(f"preds has {plural(len(preds), 'array')}; expected {len(self._heads)}, one for each "
                                 "mask",
                                 "Pass the output of every YOLO layer of the net")
        label_checks.check_call(self, self._op, self._heads[0], {"truth": truth})
        loss, parts = super().forward(preds, truth)
        self._keep(parts)
        return loss

    def hybrid_forward(self, F, preds, truth):
        results = [self._function(pred, truth, **head._asdict()) for pred, head in zip(preds, self._heads)]
        losses, parts = zip(*results)
        return sum(losses[1:], losses[0]), sum(parts[1:], parts[0])


def _heads(op, anchors, masks, strides, classes, options) -> list:
    """Return the attributes of the operator for each head."""
    if len(masks) == 0 or len(strides) != len(masks):
        raise op.error(f"masks has {plural(len(masks), 'row')} and strides has {plural(len(strides), 'number')}; "
                       "expected one row and one stride for each YOLO layer of the net", "Correct masks or strides")
    _check_options(op, options, len(masks))
    heads = []
    for number, (mask, stride, sizes) in enumerate(zip(masks, strides, _sizes_of_heads(op, anchors, len(masks)))):
        _check_head(op, mask, stride, len(sizes))
        own = [size / stride for i in mask for size in sizes[i]]
        others = [size / stride for i in range(len(sizes)) if i not in mask for size in sizes[i]]
        of_head = {name: value[number] if isinstance(value, (list, tuple)) else value
                   for name, value in options.items()}
        heads.append(op.parse({**of_head, "anchors": tuple(own), "other_anchors": tuple(others) or None,
                               "classes": classes, "parts": True}))
    return heads


def _sizes_of_heads(op, anchors, heads: int) -> list[list[tuple]]:
    """Return the sizes of all anchors that a head knows, for each head."""
    if not _are_lists_of_pairs(anchors):
        return [_pairs(op, anchors)] * heads
    if len(anchors) != heads:
        raise op.error(f"anchors has {plural(len(anchors), 'list')} of pairs; expected {heads}, one for each row of "
                       "masks",
                       "Pass a list of pairs for each YOLO layer, or one list for all")
    return [_pairs(op, pairs) for pairs in anchors]


def _are_lists_of_pairs(anchors) -> bool:
    for _ in range(2):
        if not isinstance(anchors, (list, tuple)) or len(anchors) == 0:
            return False
        anchors = anchors[0]
    return isinstance(anchors, (list, tuple))


def _pairs(op, anchors) -> list[tuple]:
    flat = Attr("anchors", Pairs(), None).parse(op.name, anchors)
    return list(zip(flat[0::2], flat[1::2]))


def _check_options(op, options, heads) -> None:
    for name in ("anchors", "other_anchors", "parts"):
        if name in options:
            raise op.error(f"{name!r} is not an argument of the block; expected anchors and masks", f"Leave {name} out")
    for name, value in options.items():
        if isinstance(value, (list, tuple)) and len(value) != heads:
            raise op.error(f"{name} has {plural(len(value), 'value')}; expected {heads}, one for each row of masks",
                           f"Pass a single {name} for all YOLO layers, or one for each")


def _check_head(op, mask, stride, anchors) -> None:
    numbers = list(mask)
    are_anchors = all(isinstance(number, int) and 0 <= number < anchors for number in numbers)
    if not numbers or not are_anchors or len(set(numbers)) != len(numbers):
        raise op.error(f"a mask is {tuple(numbers)}; expected different numbers from 0 to {anchors - 1}",
                       "Correct the masks")
    if isinstance(stride, bool) or not isinstance(stride, (int, float)) or not 0 < stride < float("inf"):
        raise op.error(f"a stride is {stride!r}; expected a number above 0", "Correct the strides")
