"""Folders in the layout of MS COCO.

``root`` has ``annotations/<list>.json`` and the images. ``train`` is the list instances_train2017 (or
instances_train, or train). ``val`` is instances_val2017 (or instances_val, or val). The path of an image in ``root`` is
the end of its ``coco_url``, or its ``file_name`` in the folder of the list (train2017), in ``images``, or in ``root``.
pycocotools computes COCO's average precision, for a data set in any format.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import warnings
from collections.abc import Sequence

import numpy as np

from ...core.errors import OpError
from ...core.optional import require
from ..base import SPLITS, Classes, DetectionDataset, class_names, listed
from ..images import progress

WHERE = "data.coco"
PREFIX = "instances_"
NUMBER = (int, float)
MAX_NUMBER = 2**53   # largest magnitude of a number: float64 represents all integers up to it
SHOWN = 60   # characters of a wrong value in an error
SHOWN_IDS = 5   # A warning shows so many annotations.
TOLERANCE = 1   # pixels by which a box may exceed its image because of rounding; the box is then clipped
STATISTICS = ("AP", "AP50", "AP75")   # the first of pycocotools' twelve
FIELDS = {"images": {"id": int, "file_name": str, "width": NUMBER, "height": NUMBER},
          "categories": {"id": int, "name": str},
          "annotations": {"id": int, "image_id": int, "category_id": int, "bbox": list, "area": NUMBER}}


class COCO(DetectionDataset):
    """A data set in the layout of COCO. The module describes the folder, and the base class the items.

    Crowds are left out. Objects that are at most one pixel wide or high are left out with a warning: COCO's own files
    have two without a height. Images without objects are left out of ``train``, and stay in ``val``.

    ``split`` may also be the name of a list, without .json. ``classes`` are names in the order of their class ids, or a
    file with one per line, by default those of the annotation file. A name without a category is a class without
    objects. A category without a name is an error.

    An OpError if a file is missing or malformed, or a class is unknown.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        name, path = _find(root, split)
        content = _read(path)
        categories = class_names([item["name"] for item in content["categories"]], WHERE)
        names = categories if classes is None else class_names(classes, WHERE)
        unknown = [category for category in categories if category not in names]
        if unknown:
            raise OpError(WHERE, f"{path} has the category {unknown[0]!r}; expected one of {', '.join(names)}",
                          "Add it to classes, or remove it from the file")
        class_ids = {item["id"]: names.index(item["name"]) for item in content["categories"]}
        boxes = _labels(path, content, class_ids)
        paths, labels, expected_sizes = [], [], []
        for entry in sorted(content["images"], key=lambda entry: entry["id"]):
            image = _image(root, name, entry, path)
            if boxes[entry["id"]] or split != "train":
                paths.append(image)
                labels.append(boxes[entry["id"]])
                expected_sizes.append(((entry["width"], entry["height"]), f"{path}, image {entry['id']},"))
        if not paths:
            condition = " with an object" if split == "train" else ""
            raise OpError(WHERE, f"{path} has no image{condition}",
                          "Pass the name of another list, or create the file again")
        super().__init__(WHERE, names, paths, labels, expected_sizes)


def _find(root, split):
    names = [f"{PREFIX}{split}2017", f"{PREFIX}{split}", split] if split in SPLITS else [split]
    for name in names:
        path = os.path.join(root, "annotations", f"{name}.json")
        if os.path.isfile(path):
            return name, path
    raise OpError(WHERE, f"{os.path.join(root, 'annotations')} has no {' or '.join(f'{name}.json' for name in names)}",
                  "Pass the folder that has annotations, or the name of another list")


def _image(root, name, entry, path):
    """The path of an image; an OpError if it does not exist, or is outside of the folder."""
    folder, inside = name[len(PREFIX):] if name.startswith(PREFIX) else name, os.path.abspath(root)
    file_name = entry["file_name"]
    candidates = [os.path.join(root, folder, file_name), os.path.join(root, "images", file_name),
                  os.path.join(root, file_name)]
    if entry.get("coco_url"):
        candidates.insert(0, os.path.join(root, *entry["coco_url"].split("/")[-2:]))
    for candidate in candidates:
        if os.path.commonpath([inside, os.path.abspath(candidate)]) != inside:   # links are not followed
            raise _bad(path, f"image {entry['id']}", f"its file is {candidate}", f"a file in {root}")
        if os.path.isfile(candidate):
            return candidate
    raise OpError(WHERE, f"{path}, image {entry['id']}: there is no {candidates[0]}",
                  "Add the image, or remove it from the list")


def _bad(path, name, got, expected):
    return OpError(WHERE, f"{path}, {name}: {got}; expected {expected}", "Correct the file, or create it again")


def _read(path):
    """The content of the file. Its three lists have items with the right fields."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise OpError(WHERE, f"{path} cannot be read: {error}", "Create the file again") from error
    except json.JSONDecodeError as error:
        raise _bad(path, f"line {error.lineno}", error.msg, "JSON") from error
    except (RecursionError, ValueError) as error:   # lists in lists; a number of thousands of digits
        raise _bad(path, "top level", f"{type(error).__name__}: {error}", "JSON of usual depth and numbers") from error
    for key, types in FIELDS.items():
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise _bad(path, "top level", f"no list {key!r}", "one")
        _check_items(path, key, content[key], types)
    for item in content["images"]:
        url = item.get("coco_url")
        if min(item["width"], item["height"]) < 1 or not isinstance(url or "", str):
            raise _bad(path, f"image {item['id']}", f"it is {item['width']} x {item['height']}, its coco_url {url!r}",
                       "a size above 0, and text")
    return content


def _labels(path, content, class_ids):
    """The label of each image, by its id."""
    images = {item["id"]: item for item in content["images"]}
    labels, tiny = {number: [] for number in images}, []
    for item in progress(content["annotations"], f"checking {os.path.basename(path)}"):
        _check_annotation(path, item, images, class_ids)
        if item.get("iscrowd", 0) or item.get("ignore", 0) == 1:
            continue
        image = images[item["image_id"]]
        left, top, width, height = item["bbox"]
        left, right = _span(left, width, image["width"])
        top, bottom = _span(top, height, image["height"])
        if item["area"] == 0 or min(right - left, bottom - top) <= 0:
            tiny.append(str(item["id"]))
        else:
            label = left, top, right + 1, bottom + 1, class_ids[item["category_id"]], 0
            labels[item["image_id"]].append(label)
    if tiny:
        warnings.warn(f"{path}: {len(tiny)} objects without an area, or not larger than a pixel, are left out: "
                      f"annotation {listed(tiny, SHOWN_IDS)}", stacklevel=4)
    return labels


def _span(start, length, room):
    """The first and the last pixel of a box along an axis, within its image."""
    first, last = start, start + max(length - 1, 0)
    return min(max(first, 0), room - 1), min(max(last, 0), room - 1)


def _check_items(path, key, items, types):
    """Check that each item of a list has the fields in ``types``, with the right types, and an id of its own."""
    for index, item in enumerate(items):
        name = f"{key}[{index}]"
        missing = [field for field in types if not isinstance(item, dict) or field not in item]
        if missing:
            raise _bad(path, name, f"no {', no '.join(missing)}", f"{', '.join(types)}")
        for field, type_ in types.items():
            if not _is(item[field], type_):
                expected = {str: "text", list: "a list"}.get(type_, "a number")
                raise _bad(path, name, f"{field} is {repr(item[field])[:SHOWN]}", expected)
    if len({item["id"] for item in items}) < len(items):
        raise _bad(path, key, "two have the same id", "another for each")


def _is(value, type_):
    """Whether a value has a type. A number is no bool, and not NaN or larger than float64 represents exactly."""
    if isinstance(value, NUMBER) and (isinstance(value, bool) or not abs(value) <= MAX_NUMBER):
        return False
    return isinstance(value, type_)


def _check_annotation(path, item, images, categories):
    name = f"annotation {item['id']}"
    if item["image_id"] not in images:
        raise _bad(path, name, f"image_id is {item['image_id']!r}", "the id of an image")
    if item["category_id"] not in categories:
        raise _bad(path, name, f"category_id is {item['category_id']!r}", "the id of a category")

    box = item["bbox"]
    if len(box) != 4 or not all(_is(value, NUMBER) for value in box) or min(box[2:]) < 0:
        raise _bad(path, name, f"bbox is {box!r}", "x, y, width, height")
    image = images[item["image_id"]]
    width, height = image["width"], image["height"]
    left, top, *sides = box
    if min(left, top) < -TOLERANCE or left + sides[0] > width + TOLERANCE or top + sides[1] > height + TOLERANCE:
        raise _bad(path, name, f"bbox is {box!r} in an image of {width} x {height}", "a box inside of it")

    crowd = item.get("iscrowd", 0)
    if item["area"] < 0 or crowd not in (0, 1):
        raise _bad(path, name, f"area is {item['area']!r}, iscrowd {crowd!r}", "a number from 0, and 0 or 1")


def coco_average_precision(detections: Sequence[np.ndarray], labels: Sequence[np.ndarray],
                           classes: Sequence[str]) -> dict[str, float]:
    """Average precision as COCO's server computes it: a mean over 101 recalls, the classes, and IoUs from 0.5 to 0.95.

    Parameters
    ----------
    detections : sequence of numpy.ndarray
        One array (detections, 6) per image: class id, score, xmin, ymin, xmax, ymax in pixels of the image.
    labels : sequence of numpy.ndarray
        One array (objects, 6) per image, as :meth:`gluonops.data.DetectionDataset.label` returns it. A difficult
        object is ignored like a crowd in COCO: it is neither a hit nor a miss.
    classes : sequence of str

    Returns
    -------
    dict of str to float
        ``AP``, and ``AP50`` and ``AP75`` for a single IoU. Values are from 0 to 1, or NaN if every object is ignored.

    Raises
    ------
    OpError
        The numbers of detections and labels differ, or pycocotools is not installed.
    """
    where = "data.coco_average_precision"
    if len(detections) != len(labels):
        raise OpError(where, f"there are detections of {len(detections)} images and labels of {len(labels)}",
                      "Pass an array for every image, empty if nothing is detected")
    coco = require("pycocotools.coco", where).COCO()
    evaluation = require("pycocotools.cocoeval", where).COCOeval
    annotations = [_entry(image, row[4], row[:4], iscrowd=int(row[5]))
                   for image, label in enumerate(labels) for row in np.asarray(label)]
    results = [_entry(image, row[0], row[2:6], score=float(row[1]))
               for image, rows in enumerate(detections) for row in np.asarray(rows)]
    if all(annotation["iscrowd"] for annotation in annotations):
        return dict.fromkeys(STATISTICS, float("nan"))
    if not results:
        return dict.fromkeys(STATISTICS, 0.0)

    for number, annotation in enumerate(annotations, 1):   # pycocotools uses id 0 for no match
        annotation["id"] = number
    coco.dataset = {"images": [{"id": image} for image in range(len(labels))], "annotations": annotations,
                    "categories": [{"id": number, "name": name} for number, name in enumerate(classes)]}
    with contextlib.redirect_stdout(io.StringIO()):   # pycocotools prints its progress
        coco.createIndex()
        evaluator = evaluation(coco, coco.loadRes(results), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return {name: float(value) for name, value in zip(STATISTICS, evaluator.stats)}


def _entry(image: int, class_id: float, box: np.ndarray, **others: float) -> dict:
    left, top, right, bottom = map(float, box)
    return {"image_id": image, "category_id": int(class_id), "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top), **others}
