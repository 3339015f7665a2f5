"""``gluonops classify``: run an exported or a Darknet classifier on images, and print and draw their classes."""
from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from typing import Any

from ..core.progress import over
from ..export import LoadedClassifier, Prediction
from .on_images import as_json, load_net, output_paths, write

__all__ = ["run"]

WHERE = "classify"


def run(args: argparse.Namespace) -> int:
    """Classify the images. Return the exit code."""
    classifier, images = load_net(args, WHERE, LoadedClassifier)
    paths = output_paths(args.output, images, WHERE)
    guessed = {image: classifier.classify(image, args.top) for image in over(images, "classifying", "image")}
    rows = [_row(image, paths.get(image), predictions) for image, predictions in guessed.items()]
    pictures = {path: functools.partial(classifier.draw, image, guessed[image]) for image, path in paths.items()}
    write(WHERE, pictures, args.json, rows)
    if args.json == "-":
        print(as_json(rows))
        return 0
    for image, predictions in guessed.items():
        print(image)
        for guess in predictions:
            print(f"  {guess.score:6.1%}  {guess.name}")
    if args.output:
        print(f"drawn into {args.output}")
    return 0


def _row(image: str, path: str | None, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The JSON of an image."""
    row: dict[str, Any] = {"image": image}
    if path:
        row["output"] = path
    row["predictions"] = [guess.as_dict() for guess in predictions]
    return row
