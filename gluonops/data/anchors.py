"""Anchors for YOLOv2: k-means over the sizes of a data set's boxes, with 1 - IoU as the distance.

Source: Redmon and Farhadi, "YOLO9000: Better, Faster, Stronger" (2016), section 2, "Dimension Clusters".
"""
import numpy as np

from ..contract.attributes import Attr, Int, parsed
from ..contract.errors import OpError
from .base import DetectionDataset, about_image
from .images import progress
from .transforms.letterbox import letterbox_boxes
from .transforms.pipeline import Size

MAX_STEPS = 300   # one restart takes no more
CHUNK = 100_000   # boxes that are compared with all centres at a time


def anchors_of(dataset: DetectionDataset, k: int = 5, size: Size = 416, stride: int = 32,
               seed: int = 0) -> tuple[np.ndarray, float, np.ndarray]:
    """Anchors for a data set, in grid cells, as in Darknet's cfg files and in ``gops.loss.RegionLoss``.

    Parameters
    ----------
    dataset : gluonops.data.DetectionDataset
        The anchors are computed for its boxes in letterboxed images.
    k : int, default 5
        Number of anchors, at least 1.
    size : int or tuple of int, default 416
        Input size of the net, or (width, height).
    stride : int, default 32
        Pixels per grid cell.
    seed : int, default 0
        Seed of the initial centres.

    Returns
    -------
    anchors : numpy.ndarray
        float64 (k, 2), width and height in cells, sorted by area.
    iou : float
        Mean over the boxes of the IoU with the best anchor.
    sizes : numpy.ndarray
        float64 (boxes, 2), width and height in cells of every box.

    Raises
    ------
    OpError
        There are fewer different sizes than ``k``, a box has no area, or an argument is out of range.
    """
    stride = Attr("stride", Int(1), 32).parse("data.anchors", stride)
    sizes = box_sizes(dataset, size) / stride
    anchors, iou = kmeans(sizes, k, seed)
    return anchors, iou, sizes


def box_sizes(dataset: DetectionDataset, size: Size = 416) -> np.ndarray:
    """Width and height in pixels, float64 (boxes, 2), of a data set's boxes after letterboxing to ``size``.

    ``size`` is the input size of the net, or (width, height). An OpError is raised if a box has no area.
    """
    size = tuple(size) if np.ndim(size) else (size, size)
    sizes = [np.zeros((0, 2))]
    for index in progress(range(len(dataset)), "reading boxes"):
        label = dataset.label(index)
        image_size = dataset.size(index)
        with about_image(dataset, index):
            moved = letterbox_boxes(label, image_size, size)
            sides = moved[:, 2:4].astype("float64") - moved[:, :2]
            empty = np.flatnonzero(~(sides > 0).all(1))
            if len(empty):
                edges = " ".join(f"{edge:g}" for edge in label[empty[0], :4])
                raise OpError("data.anchors", f"box {empty[0]} is {edges} in {image_size[0]} x {image_size[1]} pixels; "
                              "expected one with an area", "Correct its label")
        sizes.append(sides)
    return np.concatenate(sizes)


def kmeans(sizes: np.ndarray, k: int = 5, seed: int = 0, restarts: int = 10) -> tuple[np.ndarray, float]:
    """Cluster boxes by size. The distance is 1 - IoU of two boxes with a common centre.

    Each restart draws initial centres as k-means++ does. Then it repeats two steps: each box is assigned to the centre
    with the largest IoU, and each centre becomes the mean of its boxes. The mean does not maximise the IoU, so a step
    can make the result worse. The result is therefore the centres of the best step, and not of the last one. An OpError
    is raised if there are fewer different sizes than ``k``, or one is not above 0.

    Parameters
    ----------
    sizes : array_like
        (boxes, 2), width and height above 0.
    k : int, default 5
        Number of clusters, at least 1.
    seed : int, default 0
        Seed of the initial centres, from 0 to 2**32 - 1.
    restarts : int, default 10
        Number of restarts, at least 1. The best one counts.

    Returns
    -------
    centres : numpy.ndarray
        float64 (k, 2), sorted by area.
    iou : float
        Mean over the boxes of the IoU with the best centre.
    """
    where = "data.kmeans"
    k, restarts, seed = parsed(where, {"k": Int(1), "restarts": Int(1), "seed": Int(0)}, k=k, restarts=restarts,
                               seed=seed).values()
    if seed >= 2**32:
        raise OpError(where, f"seed is {seed}; expected an integer below {2**32}", "Pass another seed")
    sizes = np.asarray(sizes, "float64")
    _check_sizes(where, sizes, k)

    results = [_restart(sizes, k, np.random.RandomState([seed, number])) for number in range(restarts)]
    centres, iou = max(results, key=lambda result: result[1])
    areas = centres.prod(1)
    return centres[np.argsort(areas, kind="stable")], iou


def _check_sizes(where, sizes, k):
    if sizes.ndim != 2 or sizes.shape[1] != 2:
        raise OpError(where, f"sizes has shape {sizes.shape}; expected (boxes, 2)", "Pass widths and heights")
    bad = np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0)).all(1))
    if len(bad):
        raise OpError(where, f"box {bad[0]} is {sizes[bad[0]][0]:g} x {sizes[bad[0]][1]:g}; expected finite numbers "
                      "above 0", "Leave out boxes without an area")
    distinct = len(np.unique(sizes, axis=0))
    if distinct < k:
        raise OpError(where, f"there are {distinct} different sizes of boxes; expected at least k, {k}",
                      "Choose a smaller k, or more data")


def _restart(sizes, k, rng):
    """The centres of the best step, and their mean IoU."""
    centres = _initial_centres(sizes, k, rng)
    best_centres, best_iou = None, -1
    previous = None
    for _ in range(MAX_STEPS):
        nearest, overlap = _assign(sizes, centres)
        if overlap.mean() > best_iou:
            best_centres, best_iou = centres, float(overlap.mean())
        if previous is not None and (nearest == previous).all():
            break
        previous = nearest
        centres = _mean_sizes(sizes, nearest, overlap, k)
    return best_centres, best_iou


def _mean_sizes(sizes, nearest, overlap, k):
    """The mean of the boxes of each centre. A centre without boxes moves to one of the boxes with the smallest IoU."""
    members = np.bincount(nearest, minlength=k)
    sums = np.stack([np.bincount(nearest, sizes[:, axis], k) for axis in (0, 1)], 1)
    centres = sums / np.maximum(members, 1)[:, None]

    empty = np.flatnonzero(members == 0)
    worst_boxes = np.argsort(overlap, kind="stable")[:len(empty)]
    centres[empty] = sizes[worst_boxes]
    return centres


def _initial_centres(sizes, k, rng):
    """Initial centres as in k-means++: random boxes, weighted by the squared distance to the nearest centre so far."""
    centres = sizes[[rng.randint(len(sizes))]]
    while len(centres) < k:
        _, overlap = _assign(sizes, centres)
        weight = (1 - overlap).clip(0) ** 2
        drawn = rng.choice(len(sizes), p=weight / weight.sum())
        centres = np.append(centres, sizes[[drawn]], 0)
    return centres


def _assign(sizes, centres):
    """The index of the centre with the largest IoU for each box, and this IoU."""
    nearest = np.empty(len(sizes), int)
    overlap = np.empty(len(sizes))
    for start in range(0, len(sizes), CHUNK):
        chunk = slice(start, start + CHUNK)
        part = sizes[chunk, None]
        common = np.minimum(part, centres).prod(2)
        iou = common / (part.prod(2) + centres.prod(1) - common)
        nearest[chunk] = iou.argmax(1)
        overlap[chunk] = iou.max(1)
    return nearest, overlap
