"""reorg: space to depth, in the three layouts that are often confused.

``data`` is (B, C, H, W), the stride is s, and ``output`` is (B, C*s*s, H/s, W/s). With ``reverse``, ``output`` is
(B, C/s/s, H*s, W*s). The operator only moves elements, so every mode is exact in every dtype.

``DCR``
    ``output[b, (dy*s + dx)*C + c, y, x] = data[b, c, y*s + dy, x*s + dx]``: MXNet's ``space_to_depth``, ONNX's
    SpaceToDepth, TensorFlow.
``CRD``
    ``output[b, (c*s + dy)*s + dx, y, x] = data[b, c, y*s + dy, x*s + dx]``: ``torch.pixel_unshuffle``.
``darknet``
    The layout of the published YOLOv2 weights: (C, H, W) is read as (C/s/s, H*s, W*s), DCR is applied, and the result
    is read as (C*s*s, H/s, W/s). If H is not a multiple of s*s, rows move from one channel to another. Then no
    permutation of weights repairs a network that was ported with another layout. C must be divisible by s*s.

``reverse`` undoes DCR and CRD. In darknet mode it computes Darknet's ``reverse=1``. This is the reverse of DCR, and
not the inverse of the forward. Gradients are the transposed permutations, so they are exact too.

Work: forward and backward each read and write every element once. ``grad_req="add"`` reads every element once more.
This is 2 or 3 times the tensor's bytes.

Sources: Redmon and Farhadi, "YOLO9000" (2016), section 2 "fine-grained features"; pjreddie/darknet
``src/reorg_layer.c``, commit f6afaabc, recorded in ``tests/golden/reorg.npz``. Darknet's ``flatten`` and ``extra``
options are other operators.
"""
from __future__ import annotations

from ...core.backend import Array, call
from .contract import OP

__all__ = ["reorg"]


def reorg(data: Array, stride: int = 2, mode: str = "darknet", reverse: bool = False,
          name: str | None = None) -> Array:
    """Move blocks of ``stride`` x ``stride`` pixels into channels, or back.

    Parameters
    ----------
    data : NDArray or Symbol
        (B, C, H, W). H and W must be divisible by ``stride``, except with ``reverse``. C must be divisible by
        ``stride**2`` in darknet mode or with ``reverse``. float16, float32, float64, uint8, int8, int32 or int64.
    stride : int, default 2
        At least 1.
    mode : {'darknet', 'DCR', 'CRD'}, default 'darknet'
        The order of the output channels; see the page above (``help(gluonops.ops.reorg.__module__)``).
    reverse : bool, default False
        Compute depth to space.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        (B, C*s*s, H/s, W/s), or (B, C/s/s, H*s, W*s) with ``reverse``. The dtype of ``data``. Gradient: the head
        gradient, moved back.

    Raises
    ------
    OpError
        ``data`` does not have four dimensions, a size is not divisible, or the mode is unknown.
    """
    return call(OP, locals())
