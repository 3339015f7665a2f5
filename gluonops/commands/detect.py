"""``gluonops detect``: run an exported or a Darknet detector on images, and print and draw what it finds."""
from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from typing import Any

from ..core.progress import over
from ..export import Detection, LoadedDetector
from .on_images import as_json, load_net, output_paths, write

__all__ = ["run"]

WHERE = "detect"


def run(args: argparse.Namespace) -> int:
    """Detect the objects in the images. Return the exit code."""
    detector, images = load_net(args, WHERE, LoadedDetector)
    paths = output_paths(args.output, images, WHERE)
    found = {image: detector.detect(image, args.threshold) for image in over(images, "detecting", "image")}
    rows = [_row(image, paths.get(image), detections) for image, detections in found.items()]
    pictures = {path: functools.partial(detector.draw, image, found[image]) for image, path in paths.items()}
    write(WHERE, pictures, args.json, rows)
    if args.json == "-":
        print(as_json(rows))
        return 0
    for image, detections in found.items():
        print(f"{image}: {len(detections)} found")
        for line in _lines(detections):
            print(line)
    if args.output:
        print(f"drawn into {args.output}")
    return 0


def _row(image: str, path: str | None, detections: Sequence[Detection]) -> dict[str, Any]:
    """The JSON of an image."""
    row: dict[str, Any] = {"image": image}
    if path:
        row["output"] = path
    row["detections"] = [found.as_dict() for found in detections]
    return row


def _lines(detections: Sequence[Detection]) -> list[str]:
    width = max((len(found.name) for found in detections), default=0)
    return [f"  {found.name:{width}}  {found.score:.2f}  at " + " ".join(f"{side:.0f}" for side in found.box)
            for found in detections]
