"""The layers ``gluonops.nn.PixelShuffle`` and ``gluonops.nn.PixelUnshuffle``."""

from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Int, parsed
from ..ops import reorg as _reorg

OPTIONS = {"factor": Int(1)}


class PixelShuffle(Printed, EitherModeBlock):
    """Turn channels into blocks of ``factor`` x ``factor`` pixels, in the order of PyTorch's ``PixelShuffle``.

    It is :func:`gluonops.ops.reorg` in the mode ``CRD``, reversed.

    Parameters
    ----------
    factor : int
        Side of a block.

    Inputs:
        - **data**: (batch, channels * factor * factor, height, width).

    Outputs:
        - **out**: (batch, channels, height * factor, width * factor).

    Raises
    ------
    OpError
        The factor is below 1, or does not divide the sizes.

    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution" (2016), section 3.2.
    """

    REVERSE = True

    def __init__(self, factor: int, **kwargs):
        super().__init__(**kwargs)
        self._options = parsed(type(self).__name__, OPTIONS, factor=factor)

    def hybrid_forward(self, F, data):
        return _reorg(data, self._options["factor"], "CRD", self.REVERSE)


class PixelUnshuffle(PixelShuffle):
    """Turn blocks of ``factor`` x ``factor`` pixels into channels: the inverse of :class:`PixelShuffle`.

    Parameters
    ----------
    factor : int
        Side of a block.

    Inputs:
        - **data**: (batch, channels, height * factor, width * factor).

    Outputs:
        - **out**: (batch, channels * factor * factor, height, width).

    Raises
    ------
    OpError
        The factor is below 1, or does not divide the sizes.
    """

    REVERSE = False
