"""Nets that are ready to run: they take pictures, and return names, scores and boxes."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Union

import mxnet as mx
import numpy as np

from ..contract.errors import OpError, plural
from ..export.preprocessing import Preprocessing
from .annotate import Detection, Prediction, draw_boxes, draw_caption, read_picture

if TYPE_CHECKING:   # Pillow is optional
    from PIL.Image import Image

Picture = Union[str, os.PathLike, np.ndarray, mx.nd.NDArray, "Image"]
THRESHOLD = 0.25   # Darknet's


@dataclasses.dataclass(eq=False, repr=False)
class _LoadedNet:
    """What detectors and classifiers have in common. ``device`` and ``dtype`` are those of the net's input."""

    where = "export.load"   # what errors call it
    source = "the net"      # what was loaded; for errors

    net: Callable
    classes: Sequence[str]
    size: tuple[int, int]
    preprocessing: Preprocessing | None = None
    device: mx.Context | None = None
    dtype: str = "float32"

    def __post_init__(self):
        self.classes = tuple(self.classes)
        self.preprocessing = self.preprocessing or Preprocessing()

    def __repr__(self) -> str:
        width, height = self.size
        return f"{type(self).__name__}({len(self.classes)} classes, {width} x {height} pixels)"

    def _run(self, image):
        """The outputs of the net for one image, without the dimension of the batch."""
        batch = mx.nd.array(self.preprocessing(image, self.size)[None], ctx=self.device or mx.cpu(), dtype=self.dtype)
        outputs = self.net(batch)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return [output[0].asnumpy().astype("float32") for output in outputs]

    def _check_classes(self, count):
        """Raise an OpError if the net has more classes than there are names."""
        if count > len(self.classes):
            raise OpError(self.where, f"{self.source} has at least {count} classes, and classes has "
                          f"{plural(len(self.classes), 'name')}; expected a name for each class",
                          "Pass the names of the net's own classes")


@dataclasses.dataclass(eq=False, repr=False)
class LoadedDetector(_LoadedNet):
    """A detector from a file. :func:`gluonops.export.load` makes it::

        detector = gluonops.export.load("out/detector")
        for found in detector.detect("street.jpg"):
            print(found.name, found.score, found.box)
        detector.draw("street.jpg").save("found.png")

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    size : tuple of int
        (width, height) of the net's input.
    preprocessing : Preprocessing
        What happens to an image before the net sees it.
    net : callable
        Takes a batch of prepared images, NDArray (B, C, H, W), and returns ids (B, N, 1), scores (B, N, 1) and boxes
        (B, N, 4).
    threshold : float
        The net returns no detection whose score is not above it.
    """

    where = "export.LoadedDetector.detect"

    threshold: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if self.preprocessing.resize == "crop":
            raise OpError("export.load", "preprocessing has resize 'crop', and the net is a detector; expected "
                          "letterbox or stretch, which keep all of the image",
                          "Correct net.preprocessing, and export it again")

    @property
    def detector(self) -> Callable:
        """The same as ``net``."""
        return self.net

    def detect(self, image: Picture, threshold: float | None = None) -> list[Detection]:
        """Find the objects in an image.

        Parameters
        ----------
        image : str, os.PathLike, numpy.ndarray, NDArray or PIL.Image.Image
            A file, or pixels: uint8 (H, W, 3) in RGB, or (H, W) in grey.
        threshold : float, optional
            Least score, from 0 to 1. The default is 0.25, or the threshold of the file if that is higher.

        Returns
        -------
        list of Detection
            The most probable first. The boxes are cut at the edges of the image.

        Raises
        ------
        OpError
            The image cannot be read, or the threshold is below that of the file.
        """
        least = self._least_score(threshold)
        pixels = read_picture(image, self.where)
        height, width = pixels.shape[:2]
        ids, scores, boxes = self._run(pixels)
        is_found = (ids[:, 0] >= 0) & (scores[:, 0] >= least)
        ids, scores, boxes = ids[is_found, 0], scores[is_found, 0], boxes[is_found]
        self._check_classes(int(ids.max(initial=-1)) + 1)
        boxes = self.preprocessing.boxes_of_image(boxes, (width, height), self.size).clip(0, [width, height] * 2)
        has_area = (boxes[:, 2:] > boxes[:, :2]).all(1)   # False in the border of a letterbox, and for NaN
        order = np.argsort(-scores[has_area], kind="stable")
        rows = zip(ids[has_area][order], scores[has_area][order], boxes[has_area][order])
        return [Detection(self.classes[int(class_id)], int(class_id), float(score), tuple(map(float, box)))
                for class_id, score, box in rows]

    def draw(self, image: Picture, detections: Sequence[Detection] | None = None) -> Image:
        """Draw the boxes into the image. It needs Pillow.

        Parameters
        ----------
        image
            As in :meth:`detect`.
        detections : sequence of Detection, optional
            What to draw. The default is ``detect(image)``.

        Returns
        -------
        PIL.Image.Image
            ``.save("found.png")`` writes it.
        """
        pixels = read_picture(image, self.where)
        return draw_boxes(pixels, self.detect(pixels) if detections is None else detections)

    def _least_score(self, threshold):
        if threshold is None:
            return max(THRESHOLD, self.threshold)
        if not self.threshold <= threshold <= 1:
            remedy = f"Export net.detector(threshold={threshold})" if 0 <= threshold <= 1 else "Choose another one"
            raise OpError(self.where, f"threshold is {threshold}; expected {self.threshold:g} to 1, because the net "
                          "leaves out what is below", remedy)
        return threshold


@dataclasses.dataclass(eq=False, repr=False)
class LoadedClassifier(_LoadedNet):
    """A classifier from a file. :func:`gluonops.export.load` makes it::

        classifier = gluonops.export.load("out/classifier")
        for guess in classifier.classify("cat.jpg", top=3):
            print(guess.name, guess.score)

    Attributes
    ----------
    classes, size, preprocessing
        As in :class:`LoadedDetector`.
    net : callable
        Takes a batch of prepared images, NDArray (B, C, H, W), and returns logits or probabilities, (B, classes).
    returns : {"logits", "probabilities"}
        What ``net`` returns.
    """

    where = "export.LoadedClassifier.classify"

    returns: str = "logits"

    def classify(self, image: Picture, top: int = 5) -> list[Prediction]:
        """The most probable classes of an image.

        Parameters
        ----------
        image
            As in :meth:`LoadedDetector.detect`.
        top : int, default 5
            Number of classes to return, at least 1.

        Returns
        -------
        list of Prediction
            The most probable first.

        Raises
        ------
        OpError
            The image cannot be read, or ``top`` is below 1.
        """
        if isinstance(top, bool) or not isinstance(top, int) or top < 1:
            raise OpError(self.where, f"top is {top!r}; expected a whole number of at least 1", "Pass for instance 5")
        scores = self._run(read_picture(image, self.where))[0].ravel()
        self._check_classes(len(scores))
        if self.returns == "logits":
            scores = np.exp(scores - scores.max())
            scores /= scores.sum()
        order = np.argsort(-scores, kind="stable")[:top]
        return [Prediction(self.classes[class_id], int(class_id), float(scores[class_id])) for class_id in order]

    def draw(self, image: Picture, predictions: Sequence[Prediction] | None = None) -> Image:
        """Write the most probable classes below the image. It needs Pillow.

        Parameters
        ----------
        image
            As in :meth:`classify`.
        predictions : sequence of Prediction, optional
            What to write. The default is ``classify(image, top=3)``.
        """
        pixels = read_picture(image, self.where)
        predictions = self.classify(pixels, top=3) if predictions is None else predictions
        return draw_caption(pixels, [f"{guess.name}  {guess.score:.1%}" for guess in predictions])
