"""margin_softmax_cross_entropy: ArcFace's and CosFace's margins, of few classes and of those of face recognition."""
import math

from ..harness.cases import Row, Target, always

MANY = 100000   # classes, for which our other backends take minutes
COSFACE = {"m2": 0.0, "m3": 0.35}
CPU = [Row(shape, margins) for shape in ((8192, 1000), (128, MANY)) for margins in ({}, COSFACE)]
TARGETS = [Target("both", "mxnet", 2), Target("both", "torch", 1.3)]
REFERENCE = "mxnet"

TYPICAL = [Row((37, 7)), Row((5, 1031)), Row((2, 40011))]   # a few threads per row, a block, several blocks
SMALL = [Row((9, 33))]
VARIANTS = [
    Row((9, 33), {"m1": 4.0, "m2": 0.0, "scale": 8.0}),
    Row((9, 33), {"m1": 0.9, "m2": 0.4, "m3": 0.15, "easy_margin": True}),
    Row((9, 33), {"m2": 0.0, "m3": 0.35, "ignore_label": 3}),
    Row((3, 5, 100), {"ignore_label": -1}),
    Row((9, 5), {"class_weight": (0.5, 2.0, 0.0, 1.0, 0.25)}),
    Row((2, 33001), {"m1": 1.35, "m2": 0.0, "scale": 16.0}),
]
GPU = [
    Row((8192, 1000)),
    Row((512, 100000)),
    Row((512, 100000), dtype="float16"),
    Row((128, 1048576), dtype="float16"),
]
GPU_TARGETS = [Target("both", "copy", 0.85)]
independent = always


def backends(shape):
    return ("native",) if shape[1] >= MANY else None


def in_mxnet(attrs, shape):
    """InsightFace's MXNet code: the difference that the margin makes, at the label's class; a line beyond pi."""
    scale, m2, m3 = attrs["scale"], attrs["m2"], attrs["m3"]

    def insightface(F, data, label):
        cosine = F.pick(data, label, axis=1, keepdims=True)
        within = F.cos(F.arccos(cosine) + m2)
        target = F.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
        difference = F.one_hot(label, depth=shape[1])
        logits = (data + F.broadcast_mul(difference, target - cosine)) * scale
        return -F.pick(F.log_softmax(logits, axis=1), label, axis=1)

    return {"mxnet": insightface}


def in_torch(attrs, ndim):
    """InsightFace's PyTorch code, with the derivative of the margin, and the line."""
    scale, m2, m3 = attrs["scale"], attrs["m2"], attrs["m3"]
    unusual = attrs["m1"] != 1 or attrs["easy_margin"] or attrs["class_weight"] or attrs["ignore_label"] is not None
    if unusual or ndim != 2:
        return None

    def insightface(torch, data, label):
        cosine = data.gather(1, label[:, None])
        within = torch.cos(torch.acos(cosine) + m2)
        target = torch.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
        logits = data.scatter(1, label[:, None], target) * scale
        return torch.nn.functional.cross_entropy(logits, label, reduction="none")

    return insightface
