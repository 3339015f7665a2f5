"""The layer ``gluonops.nn.SPP``."""
from collections.abc import Sequence

from ..backends.concat import concat
from ..backends.layer import EitherModeBlock
from ..backends.printed import Printed
from ..contract.errors import OpError


class SPP(Printed, EitherModeBlock):
    """Spatial pyramid pooling as in YOLOv3-SPP: the input, and its max poolings of several sizes, in one tensor.

    The poolings have stride 1, and the size of the map stays the same.

    Parameters
    ----------
    sizes : tuple of int, default (5, 9, 13)
        The sizes of the windows, odd numbers.

    Inputs:
        - **data**: (batch, channels, height, width).

    Outputs:
        - **out**: (batch, channels * (1 + number of sizes), height, width): the input's channels, then those of each
          size. Darknet's cfg has the opposite order.

    Raises
    ------
    OpError
        A size is even or below 1.

    Sources: He et al., "Spatial Pyramid Pooling" (2014); Huang and Wang, "DC-SPP-YOLO" (2019), section 3.2;
    ``yolov3-spp.cfg``.
    """

    def __init__(self, sizes: Sequence[int] = (5, 9, 13), **kwargs):
        super().__init__(**kwargs)
        sizes = tuple(sizes)
        self._options = {"sizes": sizes}
        for size in sizes:
            if size < 1 or size % 2 == 0:
                raise OpError("SPP", f"sizes is {sizes}; expected odd numbers of at least 1",
                              "Pass odd sizes, such as (5, 9, 13)")

    def hybrid_forward(self, F, data):
        pooled = [F.Pooling(data, kernel=(size, size), pad=(size // 2, size // 2), pool_type="max")
                  for size in self._options["sizes"]]
        return concat(F, [data, *pooled])
