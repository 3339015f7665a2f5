"""The layers: one HybridBlock per operator, and compositions that own no kernel."""
from ..ops.abs.block import Abs
from ..ops.region_decode.block import RegionDecode
from ..ops.reorg.block import Reorg
from ..ops.softmax.block import Softmax
from ..ops.softmax_output.block import SoftmaxOutput
from ..ops.tile.block import Tile

__all__ = ["Abs", "RegionDecode", "Reorg", "Softmax", "SoftmaxOutput", "Tile"]
