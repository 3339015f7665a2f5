"""Softmax and the losses of classes, over rows."""
import math

import numpy as np

from ..harness.declaration import BOTH_NEARLY_AS_FAST, AlongAxis, OfSamples, Row, Target

IMAGES = (4, 21, 512, 512)   # every pixel has a class
AXIS_1 = [Row(shape, {"axis": 1}) for shape in ((16, 20, 64, 64), (16384, 20, 2), (2048, 20, 12))]
HALF = [Row((1024, 1000), dtype="float16")]
MANY = 100000   # classes, for which our other backends take minutes


class Classes(AlongAxis):
    CPU = [Row((8192, 1000)), Row((256, 32000))]
    # The first has a thread or a few for a row, the second a block, the last several blocks.
    TYPICAL = [Row((37, 7)), Row((5, 1031)), Row((2, 40011))]
    SMALL = [Row((9, 33))]
    GPU = [
        Row((8192, 1000)),
        Row((65536, 1000)),
        Row((65536, 1000), dtype="float16"),
        Row((1048576, 64)),
        Row((8192, 32000)),
        Row((8192, 32000), dtype="float16"),
        Row((64, 128256), dtype="float16"),
        Row((256, 131072)),
        Row((16, 1048576)),
        Row(IMAGES, {"axis": 1}),
        Row(IMAGES, {"axis": 1}, dtype="float16"),
    ]
    GPU_TARGETS = BOTH_NEARLY_AS_FAST


class softmax(Classes):
    COMMITS = [*AXIS_1, *HALF]
    TARGETS = [Target("forward", "copy", 1 / 1.5), Target("forward", "torch", 1)]
    SMALL = [Row((9, 33)), Row((2, 33001))]
    VARIANTS = [
        Row((3, 5), {"temperature": 0.5, "axis": 0}),
        Row((2, 1031, 5), {"axis": 1}),
        Row((4, 5, 4096), {"axis": 1}),    # a thread for each row
        Row((2, 40, 8200), {"axis": 1}),   # four threads
        Row((6, 1000)),                    # a warp
        Row((3, 9000)),                    # two splits
    ]
    GPU_TARGETS = [*BOTH_NEARLY_AS_FAST, Target("forward", "torch", 1), Target("both", "torch", 1)]

    def in_torch(self, attrs, ndim):
        return (lambda torch, data: torch.softmax(data, attrs["axis"])) if attrs["temperature"] == 1 else None

    def in_numpy(self, attrs):
        def backward(head, data):
            output = probabilities(data)
            return (head - (head * output).sum(axis=-1, keepdims=True)) * output

        return probabilities, backward


def probabilities(data: np.ndarray) -> np.ndarray:
    """The softmax of rows in NumPy."""
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def minus_one_hot(data: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The gradient of the cross-entropy of rows in NumPy."""
    grad = probabilities(data)
    grad[np.arange(len(label)), label.astype(int)] -= 1
    return grad


class softmax_cross_entropy(Classes):
    COMMITS = [*AXIS_1, Row((1024, 1000), {"smoothing": 0.1}), *HALF]
    TARGETS = [
        Target("both", "copy", 0.4),
        Target("both", "torch", 2),
        Target("both", "SoftmaxOutput", 10),
        Target("both", "numpy", 20),
    ]
    VARIANTS = [
        Row((2, 1031, 5), {"axis": 1}),
        Row((2, 21, 6), {"axis": 1}),   # columns
        Row((2, 5, 3), {"axis": 1}, {"label": (2, 1, 3)}),
        Row((9, 33), {"smoothing": 0.1}),
        Row((2, 5, 7), {"axis": 1, "ignore_label": 255, "smoothing": 0.25}),
        Row((9, 33), {"ignore_label": -1}),
        Row((9, 33), {"sparse_label": False}),
        Row((2, 5, 3), {"sparse_label": False, "axis": 1, "smoothing": 0.1}),
        Row((2, 33001), {"sparse_label": False, "smoothing": 0.2}),
        Row((2, 33001), {"smoothing": 0.1}),
        Row((6, 1000), {"ignore_label": 3}),
        Row((9, 5), {"class_weight": (0.5, 2.0, 0.0, 1.0, 0.25), "smoothing": 0.1}),
        Row((2, 5, 8200), {"axis": 1, "ignore_label": 3}),
    ]
    GPU_TARGETS = [*softmax.GPU_TARGETS, Target("both", "liger", 1)]
    LIGER = True

    def draw(self, attrs, shapes, rng):
        """A dense label is a distribution: a sum of many numbers of either sign says little."""
        if attrs.sparse_label:
            return {}
        weights = rng.rand(*shapes["label"])
        return {"label": weights / weights.sum(attrs.axis, keepdims=True)}

    def in_torch(self, attrs, ndim):
        unusual = not attrs["sparse_label"] or attrs["smoothing"] or attrs["class_weight"]
        if unusual or attrs["ignore_label"] is not None or attrs["axis"] % ndim != 1:   # torch's classes are at axis 1
            return None
        return lambda torch, data, label: torch.nn.functional.cross_entropy(data, label, reduction="none")

    def in_mxnet(self, attrs, shape):
        """What Module trains with; it puts out probabilities, so only its gradient is that of the loss."""
        return {"SoftmaxOutput": lambda F, data, label: F.SoftmaxOutput(data, label)}

    def in_numpy(self, attrs):
        def forward(data, label):
            shifted = data - data.max(axis=-1, keepdims=True)
            return np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(label)), label.astype(int)]

        return forward, lambda head, data, label: minus_one_hot(data, label) * head[:, None]


class softmax_focal_loss(Classes):
    VARIANTS = [
        Row((2, 1031, 5), {"axis": 1}),
        Row((2, 21, 6), {"axis": 1}),   # columns
        Row((9, 5), {"alpha": (0.5, 2.0, 0.0, 1.0, 0.25), "ignore_label": 3, "gamma": 0.5}),
        Row((2, 33001), {"gamma": 0.0}),
    ]

    def in_torch(self, attrs, ndim):
        """The usual composition: (1 - p)^gamma times the cross-entropy."""
        def run(torch, data, label):
            nll = torch.nn.functional.cross_entropy(data, label, reduction="none")
            return (1 - torch.exp(-nll)) ** attrs["gamma"] * nll

        return None if attrs["alpha"] or attrs["ignore_label"] is not None or attrs["axis"] % ndim != 1 else run


class softmax_output(Classes):
    """Module's loss head."""
    CPU = [Row((8192, 1000))]
    COMMITS = [*AXIS_1, *HALF]
    TARGETS = ()
    VARIANTS = [
        Row((2, 1031, 5), {"axis": 1}),
        Row((9, 33), {"ignore_label": 2, "normalization": "valid"}),
        Row((9, 33), {"normalization": "batch"}),
        Row((2, 5, 7), {"axis": 1, "ignore_label": 255, "normalization": "valid", "grad_scale": -0.5}),
        Row((2, 33001), {"ignore_label": -1, "normalization": "valid"}),
    ]
    GPU = [
        Row((65536, 1000)),
        Row((65536, 1000), dtype="float16"),
        Row(IMAGES, {"axis": 1}),
        Row((256, 131072)),
    ]

    def independent(self, attrs, ndim):
        return super().independent(attrs, ndim) and attrs["normalization"] == "null"

    def in_numpy(self, attrs):
        return lambda data, label: probabilities(data), lambda head, data, label: minus_one_hot(data, label)


class distillation_loss(Classes):
    CPU = [Row((8192, 1000))]
    TYPICAL = [Row((37, 7)), Row((5, 1031))]
    VARIANTS = [Row((3, 5, 7), {"axis": 1, "temperature": 1.0}), Row((2, 5, 8200), {"axis": 1})]
    GPU = [Row((8192, 1000)), Row((65536, 1000), dtype="float16"), Row((8192, 32000))]

    def in_torch(self, attrs, ndim):
        axis, temperature = attrs["axis"], attrs["temperature"]

        def run(torch, data, teacher):
            functional = torch.nn.functional
            log_q = functional.log_softmax(data / temperature, axis)
            log_p = functional.log_softmax(teacher.detach() / temperature, axis)
            return functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(axis) * temperature ** 2

        return run


class margin_softmax_cross_entropy(OfSamples):
    """ArcFace's and CosFace's margins, of few classes and of those of face recognition."""
    CPU = [Row(shape, margins) for shape in ((8192, 1000), (128, MANY)) for margins in ({}, {"m2": 0.0, "m3": 0.35})]
    TARGETS = [Target("both", "mxnet", 2), Target("both", "torch", 1.3)]
    REFERENCE = "mxnet"
    TYPICAL, SMALL = Classes.TYPICAL, Classes.SMALL
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
    GPU_TARGETS = BOTH_NEARLY_AS_FAST

    def backends(self, shape):
        return ("native",) if shape[1] >= MANY else super().backends(shape)

    def in_mxnet(self, attrs, shape):
        """InsightFace's MXNet code: the difference that the margin makes, at the label's class; a line beyond pi."""
        scale, m2, m3 = attrs["scale"], attrs["m2"], attrs["m3"]

        def run(F, data, label):
            cosine = F.pick(data, label, axis=1, keepdims=True)
            within = F.cos(F.arccos(cosine) + m2)
            target = F.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
            difference = F.one_hot(label, depth=shape[1])
            logits = (data + F.broadcast_mul(difference, target - cosine)) * scale
            return -F.pick(F.log_softmax(logits, axis=1), label, axis=1)

        return {"mxnet": run}

    def in_torch(self, attrs, ndim):
        """InsightFace's PyTorch code, with the derivative of the margin, and the line."""
        scale, m2, m3 = attrs["scale"], attrs["m2"], attrs["m3"]
        unusual = attrs["m1"] != 1 or attrs["easy_margin"] or attrs["class_weight"] or attrs["ignore_label"] is not None

        def run(torch, data, label):
            cosine = data.gather(1, label[:, None])
            within = torch.cos(torch.acos(cosine) + m2)
            target = torch.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
            logits = data.scatter(1, label[:, None], target) * scale
            return torch.nn.functional.cross_entropy(logits, label, reduction="none")

        return None if unusual or ndim != 2 else run
