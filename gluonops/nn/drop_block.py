"""The layer ``gluonops.nn.DropBlock``."""

from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.attributes import Float, Int, parsed

OPTIONS = {"drop_prob": Float(low=0, below=1), "block_size": Int(1)}
TINY = 1e-6   # the smallest share that is kept, where every element is dropped


class DropBlock(Printed, EitherModeBlock):
    """Dropout of square blocks of a feature map, in each channel. At inference it does nothing.

    Every pixel is the centre of a dropped block with the same probability, chosen so that an element is dropped with
    ``drop_prob``. Blocks at the border are cut off. The paper has no blocks there, and corrects the probability by the
    size of the map. The elements that are kept are divided by their share of the batch, as in the paper.

    Parameters
    ----------
    drop_prob : float, default 0.1
        Probability that an element is dropped, from 0 to below 1.
    block_size : int, default 7
        Height and width of a block.

    Inputs:
        - **data**: (batch, channels, height, width).

    Outputs:
        - **out**: the shape of `data`.

    Raises
    ------
    OpError
        An argument is out of range.

    Source: Ghiasi et al., "DropBlock" (2018), algorithm 1.
    """

    def __init__(self, drop_prob: float = 0.1, block_size: int = 7, **kwargs):
        super().__init__(**kwargs)
        self._options = parsed("DropBlock", OPTIONS, drop_prob=drop_prob, block_size=block_size)
        # An element is kept if none of the block_size^2 centres around it is drawn.
        self._centre_prob = 1 - (1 - drop_prob) ** (1 / block_size ** 2)

    def hybrid_forward(self, F, data):
        size = self._options["block_size"]
        before = size // 2
        after = size - 1 - before
        ones = F.pad(F.ones_like(data), mode="constant", constant_value=1,
                     pad_width=(0, 0, 0, 0, before, after, before, after))
        is_centre = F.Dropout(ones, p=self._centre_prob) == 0
        dropped = F.Pooling(is_centre, kernel=(size, size), pool_type="max")
        kept = F.BlockGrad(1 - dropped)
        return F.broadcast_div(data * kept, F.maximum(F.mean(kept), TINY))
