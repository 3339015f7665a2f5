"""ohem: online hard example mining, which keeps the largest losses and sets the others to 0.

A selection is all of ``data``, or with ``per_sample`` all losses of one sample, which is an index of axis 0. A loss of
exactly 0 does not count: it is an ignored example, or one without a gradient. Of the n losses that count in a selection
the ``min(keep, n)`` largest are kept, or ``ceil(ratio * n)``, computed in float64, where ``keep`` is None. With
``threshold`` every loss above it is kept as well. Of equal losses the first are kept. NaN counts as infinity, and stays
NaN.

The gradient is ``output_grad`` where a loss is kept, and 0 elsewhere, whatever ``output_grad`` holds there. No mask is
stored: a kept loss is not 0. Losses are copied as they are. Negative losses are ordered as numbers.

Apply it to losses of single examples: rows for a classifier, pixels for a segmentation, boxes for a detector. The block
:class:`gluonops.loss.OHEM` does so, and averages what is kept.

Where another implementation defines the numbers:

- Shrivastava et al. and mmdetection's ``OHEMSampler``: ``keep`` is the number of regions in a mini-batch, which are
  chosen from all images; mmdetection chooses positives and negatives separately, so pass each with its own ``keep``.
- mmsegmentation's ``OHEMPixelSampler(thresh, min_kept)``: ``threshold=-log(thresh)`` and ``keep=min_kept * batch`` of
  the cross-entropy. Without ``thresh`` it keeps ``min_kept * batch`` pixels, as here.
- The ``OhemCELoss`` of BiSeNet's authors: ``threshold=-log(thresh)``, and ``keep`` is a sixteenth of the pixels that
  count, so ``ratio=1 / 16``.

Sources
-------
Shrivastava, Gupta and Girshick, "Training Region-based Object Detectors with Online Hard Example Mining" (2016),
section 4; the implementations above.

Notes
-----
Work: on a CPU forward reads the losses twice and writes the output, and reads the losses near the last one that is kept
a few times more. Backward reads the head gradient and the output, and writes the gradient. On a GPU forward reads a
selection 4 times in float32, from the cache if it fits there.
"""
from __future__ import annotations

from ...backends.emitter import Array, call
from .contract import OP


def ohem(data: Array, keep: int | None = None, ratio: float = 0.25, threshold: float | None = None,
         per_sample: bool = False, name: str | None = None) -> Array:
    """Keep the losses of the hardest examples, and set the others to 0.

    Examples
    --------
    >>> losses = mx.nd.array([[0.1, 2, 0.3, 0], [3, 2.5, 0.5, 0.4]])
    >>> print(gops.ops.ohem(losses, keep=2).asnumpy())
    [[0.  0.  0.  0. ]
     [3.  2.5 0.  0. ]]
    >>> print(gops.ops.ohem(losses, keep=1, threshold=0.35).asnumpy())
    [[0.  2.  0.  0. ]
     [3.  2.5 0.5 0.4]]
    >>> print(gops.ops.ohem(losses, keep=1, per_sample=True).asnumpy())
    [[0. 2. 0. 0.]
     [3. 0. 0. 0.]]
    """
    return call(OP, data, keep=keep, ratio=ratio, threshold=threshold, per_sample=per_sample, name=name)
