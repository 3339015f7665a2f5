"""What is measured: the networks, whom they are compared with, and the targets. Nothing here measures."""
import dataclasses

BATCHES = (1, 8)          # images in a call of an exported network
TOLERANCE = 1e-5          # of the largest value of an exported network's output
# Nets that are trained: options of tiny_yolov2. The second is the default of examples/finetune_detector.py.
TRAINED = {"tiny_yolov2": {}, "half of tiny_yolov2": {"width": 0.5, "head_channels": (256, 256)}}


@dataclasses.dataclass(frozen=True)
class Net:
    """An exported network.

    ``size`` is the height and width of its image. ``quick`` marks a miniature, whose times mean nothing.
    """
    name: str
    size: int
    quick: bool = False


NETS = (Net("yolov2", 416), Net("tiny_yolov2", 416), Net("darknet19", 224), Net("small", 64, quick=True))

MODULE, NAIVE, FUSED, NATIVE = OURS = (
    "Module", "Module, NaiveEngine", "optimize_for", "optimize_for, native reorg")
UNSPLIT, UNPADDED, UNFOLDED, NET, AS_IT_STARTS = LESS = (
    "Module, not split", "Module, not padded", "Module, not folded", "the net, hybridized",
    "Module, MXNet's own settings")
ORT, EAGER, EAGER_TUNED, LAST, COMPILED = OTHERS = (
    "onnxruntime", "torch eager", "torch eager, allocator tuned", "torch eager, folded, channels last",
    "torch.compile, folded, frozen")
PEERS = (*OURS, *LESS, *OTHERS)
INT8, ORT_INT8 = "Module, int8", "onnxruntime, int8"
INT8_PEERS = (MODULE, INT8, ORT, ORT_INT8)
INT8_TOLERANCE = 0.1      # relative error of an output in 8 bits, with random weights
INT8_NETS = ("tiny_yolov2", "yolov2")


@dataclasses.dataclass(frozen=True)
class Target:
    """How many times as fast as a peer the fastest of ours has to be, or the one in 8 bits."""
    at_least: float
    than: str


TARGETS = (Target(1, ORT), Target(2, EAGER), Target(2, EAGER_TUNED))
INT8_TARGETS = (Target(2.5, ORT), Target(1, ORT_INT8))


def nets(quick: bool = False) -> tuple[Net, ...]:
    """The networks that a run measures unless it is told."""
    return tuple(net for net in NETS if net.quick == quick)


def size(name: str) -> int:
    """Height and width of a network's image."""
    return next(net.size for net in NETS if net.name == name)
