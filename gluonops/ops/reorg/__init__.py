"""reorg: space to depth, in the three layouts that people mix up.

``data`` is (B, C, H, W), the stride is s, ``output`` is (B, C*s*s, H/s, W/s); with ``reverse`` it is the other way
round, (B, C/s/s, H*s, W*s). Nothing is computed, elements only move, so every mode is exact in every dtype.

``DCR``
    ``output[b, (dy*s + dx)*C + c, y, x] = data[b, c, y*s + dy, x*s + dx]``: MXNet's ``space_to_depth``, ONNX's
    SpaceToDepth, TensorFlow.
``CRD``
    ``output[b, (c*s + dy)*s + dx, y, x] = data[b, c, y*s + dy, x*s + dx]``: ``torch.pixel_unshuffle``.
``darknet``
    What the published YOLOv2 weights were trained with: (C, H, W) is read as (C/s/s, H*s, W*s), DCR is applied, and
    the result is read as (C*s*s, H/s, W/s). Where H is not a multiple of s*s rows leak from channel to channel, so
    no reordering of weights repairs a network that was ported with another layout. C must divide by s*s.

``reverse`` undoes DCR and CRD. In darknet mode it is what Darknet's ``reverse=1`` computes, which is the reverse of
DCR, and not the inverse of the forward. Gradients are the transposed permutations, so they are exact too.

Work: forward and backward each read and write every element once, and the request to add reads it once more: 2 or 3
times the tensor's bytes.

Sources: Redmon and Farhadi, "YOLO9000" (2016), section 2 "fine-grained features"; pjreddie/darknet
``src/reorg_layer.c``, commit f6afaabc, recorded in ``tests/golden/reorg.npz``. Darknet's ``flatten`` and ``extra``
options are other operators.
"""
from ...core.backend import call
from .contract import OP

__all__ = ["reorg"]


def reorg(data, stride=2, mode="darknet", reverse=False, name=None):
    """Move blocks of ``stride`` x ``stride`` pixels into channels, or back.

    Parameters
    ----------
    data : NDArray or Symbol
        (B, C, H, W); H and W divide by ``stride``; C by ``stride**2`` in darknet mode or with ``reverse`` (where H
        and W need not divide). float16, float32, float64, uint8, int8, int32 or int64.
    stride : int, default 2
        At least 1.
    mode : {'darknet', 'DCR', 'CRD'}, default 'darknet'
        The order of the output channels; see the page above (``help(gluonops.ops.reorg.__module__)``).
    reverse : bool, default False
        Depth to space instead.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (B, C*s*s, H/s, W/s), or (B, C/s/s, H*s, W*s) with ``reverse``; the dtype of ``data``. Gradient: the head
        gradient, moved back.

    Raises
    ------
    OpError
        Not four dimensions, a size that does not divide, or an unknown mode.
    """
    return call(OP, locals())
