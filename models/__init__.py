"""Complete networks. You can train them as they are, or copy from their source.

``gluonops.models.get_model(name, **kw)`` creates a network by name. ``help(gluonops.models.lenet_reorg)`` prints the
page of a network.
``classifier`` makes a net to train from a model of a model zoo, and ``region_detector`` makes one from a Darknet cfg.
"""
from gluonops.contract.errors import OpError
from mxnet.gluon import HybridBlock

from .classifier import Classifier, classifier
from .darknet19 import Darknet19, darknet19
from .iresnet import IResNet, iresnet
from .lenet_reorg import LeNetReorg, lenet_reorg
from .mlp import MLP, mlp
from .region_detector import RegionDetector, region_detector
from .yolov2 import TinyYOLOv2, YOLOv2, tiny_yolov2, yolov2
from .yolov3 import TinyYOLOv3, YOLOv3, tiny_yolov3, yolov3
from .yolov4 import TinyYOLOv4, YOLOv4, tiny_yolov4, yolov4

__all__ = ["Classifier", "Darknet19", "IResNet", "LeNetReorg", "MLP", "RegionDetector", "TinyYOLOv2", "TinyYOLOv3",
           "TinyYOLOv4", "YOLOv2", "YOLOv3", "YOLOv4", "classifier", "darknet19", "get_model", "iresnet", "lenet_reorg",
           "mlp", "region_detector", "tiny_yolov2", "tiny_yolov3", "tiny_yolov4", "yolov2", "yolov3", "yolov4"]

_MODELS = {make.__name__: make for make in (darknet19, iresnet, lenet_reorg, mlp, tiny_yolov2, tiny_yolov3, tiny_yolov4,
                                           yolov2, yolov3, yolov4)}


def get_model(name: str, **kwargs) -> HybridBlock:
    """Create a network by name.

    Parameters
    ----------
    name : {'darknet19', 'iresnet', 'lenet_reorg', 'mlp', 'tiny_yolov2', 'tiny_yolov3', 'tiny_yolov4', 'yolov2', \
            'yolov3', 'yolov4'}
        Name of the network's function in this package.
    **kwargs
        Arguments of this function.

    Returns
    -------
    HybridBlock
        The network. It is not initialized.

    Raises
    ------
    OpError
        There is no network of that name.
    """
    if name not in _MODELS:
        raise OpError("models.get_model", f"name is {name!r}; expected {' or '.join(map(repr, _MODELS))}",
                      "Choose one of them")
    return _MODELS[name](**kwargs)
