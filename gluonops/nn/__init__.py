"""The layers: one HybridBlock per operator, compositions that own no kernel, and two functions for nets that exist."""
# A line here adds a layer. `import X as X` tells readers, linters and type checkers that the name is exported.
from ..ops.abs.block import Abs as Abs
from ..ops.box_iou.block import BoxIoU as BoxIoU
from ..ops.gelu.block import GELU as GELU
from ..ops.group_norm.block import GroupNorm as GroupNorm
from ..ops.hard_swish.block import HardSwish as HardSwish
from ..ops.l2_normalize.block import L2Normalize as L2Normalize
from ..ops.mish.block import Mish as Mish
from ..ops.region_decode.block import RegionDecode as RegionDecode
from ..ops.reorg.block import Reorg as Reorg
from ..ops.rms_norm.block import RMSNorm as RMSNorm
from ..ops.softmax.block import Softmax as Softmax
from ..ops.softmax_output.block import SoftmaxOutput as SoftmaxOutput
from ..ops.swiglu.block import SwiGLU as SwiGLU
from ..ops.swish.block import Swish as Swish
from ..ops.tile.block import Tile as Tile
from .arcface_head import ArcFaceHead as ArcFaceHead
from .blur_pool import BlurPool as BlurPool
from .drop_block import DropBlock as DropBlock
from .numpy_layers import for_numpy as for_numpy
from .pixel_shuffle import PixelShuffle as PixelShuffle
from .pixel_shuffle import PixelUnshuffle as PixelUnshuffle
from .replacing import replace as replace
from .spp import SPP as SPP
from .squeeze_excite import SqueezeExcite as SqueezeExcite

# The list is for `import *`. It is not assigned to a plain `__all__`, because type checkers, which follow the imports
# above, would take a computed one for an empty list.
globals()["__all__"] = sorted(name for name, value in list(globals().items())
                              if isinstance(value, type) or value in (for_numpy, replace))
