"""The losses: drop-ins for ``mxnet.gluon.loss``, and what it lacks."""
# A line here adds a loss. `import X as X` tells readers, linters and type checkers that the name is exported.
from ..ops.center_loss.block import CenterLoss as CenterLoss
from ..ops.dice_loss.block import DiceLoss as DiceLoss
from ..ops.distillation_loss.block import DistillationLoss as DistillationLoss
from ..ops.gaussian_yolo_loss.block import GaussianYOLOLoss as GaussianYOLOLoss
from ..ops.iou_loss.block import IoULoss as IoULoss
from ..ops.lovasz_softmax.block import LovaszSoftmaxLoss as LovaszSoftmaxLoss
from ..ops.margin_softmax_cross_entropy.block import MarginSoftmaxCELoss as MarginSoftmaxCELoss
from ..ops.ohem.block import OHEM as OHEM
from ..ops.region_loss.block import RegionLoss as RegionLoss
from ..ops.sigmoid_cross_entropy.block import SigmoidCELoss as SigmoidCELoss
from ..ops.sigmoid_focal_loss.block import SigmoidFocalLoss as SigmoidFocalLoss
from ..ops.softmax_cross_entropy.block import SoftmaxCELoss as SoftmaxCELoss
from ..ops.softmax_focal_loss.block import SoftmaxFocalLoss as SoftmaxFocalLoss
from ..ops.yolo_loss.block import YOLOLoss as YOLOLoss
from .focal import FocalLoss as FocalLoss

# The list is for `import *`. It is not assigned to a plain `__all__`, because type checkers, which follow the imports
# above, would take a computed one for an empty list.
globals()["__all__"] = sorted(name for name, value in list(globals().items()) if isinstance(value, type))
