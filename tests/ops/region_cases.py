"""Darknet's recorded region layers, and the page's formulas in NumPy."""
import pathlib
import typing

import numpy as np

_GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "region.npz")
GOLDEN_CASES = sorted(name[:3] for name in _GOLDEN.files if name.endswith("_cfg"))
_CFG = ("softmax", "rescore", "bias_match", "seen", "thresh", "B", "W", "H", "A", "K", "coord_scale", "object_scale",
        "noobject_scale", "class_scale")


class Golden(typing.NamedTuple):
    """One recorded layer; maps as (B, A, 5+K, H, W)."""
    attrs: dict
    seen: float
    input: np.ndarray
    truth: np.ndarray
    output: np.ndarray
    gradient: np.ndarray   # with respect to the input
    cost: float


def golden(case):
    arrays = {name: _GOLDEN[f"{case}_{name}"] for name in ("anchors", "input", "truth", "output", "delta", "cost")}
    cfg = dict(zip(_CFG, _GOLDEN[f"{case}_cfg"].tolist()))
    attrs = {"anchors": tuple(arrays["anchors"].ravel().tolist()), "classes": int(cfg["K"])}
    for name in ("softmax", "rescore", "bias_match"):
        attrs[name] = bool(cfg[name])
    attrs.update((name, cfg[name]) for name in _CFG if name.endswith("_scale") or name == "thresh")
    output = split(arrays["output"].astype("float64"), attrs["classes"])
    gradient = -split(arrays["delta"].astype("float64"), attrs["classes"])
    gradient[:, :, [0, 1, 4]] *= (output * (1 - output))[:, :, [0, 1, 4]]
    return Golden(attrs, cfg["seen"], arrays["input"], arrays["truth"], output, gradient, float(arrays["cost"]))


def split(data, classes):
    """(B, A*(5+K), H, W) -> (B, A, 5+K, H, W)."""
    batch, channels, height, width = data.shape
    return data.reshape(batch, channels // (5 + classes), 5 + classes, height, width)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(maps, softmax):
    """Darknet's layer output, from (B, A, 5+K, H, W)."""
    out = maps.copy()
    out[:, :, [0, 1, 4]] = sigmoid(maps[:, :, [0, 1, 4]])
    if softmax:
        powers = np.exp(maps[:, :, 5:] - maps[:, :, 5:].max(axis=2, keepdims=True))
        out[:, :, 5:] = powers / powers.sum(axis=2, keepdims=True)
    else:
        out[:, :, 5:] = sigmoid(maps[:, :, 5:])
    return out


def boxes(out, anchors):
    """(B, A, 4, H, W) boxes from (B, A, 5+K, H, W) activations; anchors flat."""
    height, width = out.shape[3:]
    found = np.empty_like(out[:, :, :4])
    found[:, :, 0] = (np.arange(width) + out[:, :, 0]) / width
    found[:, :, 1] = (np.arange(height)[:, None] + out[:, :, 1]) / height
    for a in range(out.shape[1]):
        found[:, a, 2] = np.exp(out[:, a, 2]) * anchors[2 * a] / width
        found[:, a, 3] = np.exp(out[:, a, 3]) * anchors[2 * a + 1] / height
    return found


def decode(attrs, data):
    """The output of region_decode."""
    out = activate(split(data, attrs.classes), attrs.softmax)
    if attrs.layout == "map":
        return out.reshape(data.shape)
    decoded = np.concatenate([boxes(out, attrs.anchors), out[:, :, 4:]], axis=2)
    return decoded.transpose(0, 1, 3, 4, 2)


def decode_gradient(attrs, head, data):
    """What region_decode passes back to its data."""
    maps = split(data, attrs.classes)
    out, height, width = activate(maps, attrs.softmax), *data.shape[2:]
    grad = (head.reshape(maps.shape) if attrs.layout == "map" else head.transpose(0, 1, 4, 2, 3)).copy()
    if attrs.softmax:
        grad[:, :, 5:] -= (grad * out)[:, :, 5:].sum(axis=2, keepdims=True)
        grad[:, :, 5:] *= out[:, :, 5:]
    slope = sigmoid(maps) * (1 - sigmoid(maps))
    for channel in [0, 1, 4] + [*range(5, 5 + attrs.classes)] * (not attrs.softmax):
        grad[:, :, channel] *= slope[:, :, channel]
    if attrs.layout == "boxes":
        grad[:, :, 0] /= width
        grad[:, :, 1] /= height
        grad[:, :, 2:4] *= boxes(out, attrs.anchors)[:, :, 2:4]
    return grad.reshape(data.shape)


def iou(first, second):
    """Of two boxes (x, y, w, h)."""
    sides = [min(first[i] + first[i + 2] / 2, second[i] + second[i + 2] / 2)
             - max(first[i] - first[i + 2] / 2, second[i] - second[i + 2] / 2) for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    return common / (first[2] * first[3] + second[2] * second[3] - common) if common else 0.0


class Asked:
    """What the truths ask of one image's activations (A, 5+K, H, W), worked off truth by truth as Darknet does.

    ``scale`` and ``target`` (A, 5, H, W) of x, y, w, h and objectness; ``hot`` (A, K, H, W), the classes asked for,
    where ``claimed`` (A, H, W); ``stats``: sums of IoU, recall and probability, and the number of truths.
    """

    def __init__(self, attrs, out, truth, early):
        count, _, height, width = out.shape
        self.out, anchors = out, attrs.anchors
        rows = [row for row in truth if row.any()]
        decoded = boxes(out[None], anchors)[0]
        self.scale, self.target = np.zeros((2, count, 5, height, width))
        self.claimed, self.hot = np.zeros((count, height, width), bool), np.zeros_like(out[:, 5:])
        self.stats = np.zeros(4)
        for a, j, i in np.ndindex(count, height, width):
            overlap = max([iou(decoded[a, :, j, i], row) for row in rows], default=0)
            self.scale[a, 4, j, i] = 0 if overlap > attrs.thresh else attrs.noobject_scale
            if early:
                self.scale[a, :4, j, i], self.target[a, :4, j, i] = 0.01, (0.5, 0.5, 0, 0)
        for x, y, w, h, named in rows:
            i, j, k = min(int(x * width), width - 1), min(int(y * height), height - 1), int(named)
            sizes = [(anchors[2 * a] / width, anchors[2 * a + 1] / height) if attrs.bias_match
                     else decoded[a, 2:, j, i] for a in range(count)]
            a = int(np.argmax([iou((0, 0, *size), (0, 0, w, h)) for size in sizes]))
            overlap, p = iou(decoded[a, :, j, i], (x, y, w, h)), out[a, 5:, j, i]
            self.scale[a, :4, j, i] = attrs.coord_scale * (2 - w * h)
            self.target[a, :4, j, i] = (x * width - i, y * height - j, np.log(w * width / anchors[2 * a]),
                                        np.log(h * height / anchors[2 * a + 1]))
            self.scale[a, 4, j, i] = attrs.object_scale
            self.target[a, 4, j, i] = overlap if attrs.rescore else 1
            delta = attrs.class_scale * (self.hot[a, 0, j, i] - p[0]) if self.claimed[a, j, i] else 0
            if attrs.softmax or not delta:
                self.hot[a, :, j, i] = 0
            self.hot[a, k, j, i] = 1
            self.claimed[a, j, i] = True
            self.stats += overlap, overlap > 0.5, p[k], 1

    def pull(self, attrs):
        """Minus Darknet's delta, (A, 5+K, H, W)."""
        classes = attrs.class_scale * (self.out[:, 5:] - self.hot) * self.claimed[:, None]
        return np.concatenate([self.scale * (self.out[:, :5] - self.target), classes], axis=1)

    def terms(self, attrs, out):
        """Coordinates, objectness at truths and elsewhere, classes: of other activations under the same demands."""
        errors = self.scale * (out[:, :5] - self.target) ** 2 / 2
        objects = errors[:, 4]
        surprise = np.where(self.hot == 1, -np.log(out[:, 5:]), 0 if attrs.softmax else -np.log1p(-out[:, 5:]))
        return [errors[:, :4].sum(), objects[self.claimed].sum(), objects[~self.claimed].sum(),
                attrs.class_scale * (surprise * self.claimed[:, None]).sum()]


def region(attrs, data, truth, seen):
    """Activations (B, A, 5+K, H, W), and what is asked of every image."""
    out = activate(split(data, attrs.classes), attrs.softmax)
    return out, [Asked(attrs, image, rows, seen[0] < attrs.warmup_images) for image, rows in zip(out, truth)]


def loss_gradient(attrs, out, asked):
    """Of every image's loss, (B, A, 5+K, H, W)."""
    gradient = np.array([one.pull(attrs) for one in asked]).reshape(out.shape)
    gradient[:, :, [0, 1, 4]] *= (out * (1 - out))[:, :, [0, 1, 4]]
    return gradient


def loss_parts(attrs, out, asked):
    """Of every image: the terms of its loss, Darknet's cost and the statistics."""
    return np.array([one.terms(attrs, image) + [(one.pull(attrs) ** 2).sum(), *one.stats]
                     for one, image in zip(asked, out)])


def draw_truth(rng, anchors, classes, batch, truths, cells):
    """Boxes well inside their cells, about as large as an anchor; a fifth of the rows are padding."""
    height, width = cells
    truth = np.zeros((batch, truths, 5))
    for row in truth.reshape(-1, 5):
        if rng.rand() < 0.8:
            pick = 2 * rng.randint(len(anchors) // 2)
            center = (np.array([rng.randint(width), rng.randint(height)]) + rng.uniform(0.1, 0.9, 2)) / (width, height)
            size = anchors[pick:pick + 2] * rng.uniform(0.85, 1.15, 2) / (width, height)
            row[:] = (*center, *np.minimum(size, 0.95), rng.randint(classes))
    return truth
