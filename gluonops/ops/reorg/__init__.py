r"""reorg: space to depth, in the three layouts that are often confused.

``data`` x is (B, C, H, W), the stride is s, and the output y is (B, C*s*s, H/s, W/s). With ``reverse``, it is (B,
C/s/s, H*s, W*s). The operator only moves elements, so every mode is exact in every dtype.

``DCR``: MXNet's ``space_to_depth``, ONNX's SpaceToDepth, TensorFlow.

.. math::

    y_{b,\ (d_y s + d_x) C + c,\ i,\ j} = x_{b,\ c,\ i s + d_y,\ j s + d_x}

``CRD``: ``torch.pixel_unshuffle``.

.. math::

    y_{b,\ (c s + d_y) s + d_x,\ i,\ j} = x_{b,\ c,\ i s + d_y,\ j s + d_x}

``darknet``: the layout of the published YOLOv2 weights. (C, H, W) is read as (C/s/s, H*s, W*s), DCR is applied, and the
result is read as (C*s*s, H/s, W/s). If H is not a multiple of s*s, rows move from one channel to another. Then no
permutation of weights repairs a network that was ported with another layout. C must be divisible by s*s.

``reverse`` undoes DCR and CRD. In darknet mode it computes Darknet's ``reverse=1``. This is the reverse of DCR, and
not the inverse of the forward. Gradients are the transposed permutations, so they are exact too.

Sources
-------
Redmon and Farhadi, "YOLO9000" (2016), section 2 "fine-grained features"; pjreddie/darknet ``src/reorg_layer.c``, commit
f6afaabc, recorded in ``tests/golden/reorg.npz``. Darknet's ``flatten`` and ``extra`` options are other operators.

Notes
-----
Work: forward and backward each read and write every element once, which is 2 times the bytes of the tensor.
``grad_req="add"`` also reads the old gradient, which makes it 3 times.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def reorg(data: Array, stride: int = 2, mode: str = "darknet", reverse: bool = False,
          name: str | None = None) -> Array:
    """Move blocks of ``stride`` x ``stride`` pixels into channels, or back.

    Examples
    --------
    >>> data = mx.nd.arange(8).reshape((1, 2, 2, 2))
    >>> for mode in ("DCR", "CRD"):
    ...     print(mode, gops.ops.reorg(data, mode=mode).reshape(-1).asnumpy())
    DCR [0. 4. 1. 5. 2. 6. 3. 7.]
    CRD [0. 1. 2. 3. 4. 5. 6. 7.]
    >>> data = mx.nd.ones((1, 64, 26, 26))
    >>> layer = gops.nn.Reorg(stride=2)
    >>> print(layer(data).shape)
    (1, 256, 13, 13)
    """
    return call(OP, data, stride=stride, mode=mode, reverse=reverse, name=name)
