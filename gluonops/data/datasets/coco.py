"""Folders in the layout of MS COCO. This module checks the annotations. gluoncv and pycocotools read them.

``root`` has ``annotations/<list>.json`` and the images. ``train`` is the list instances_train2017 (or
instances_train, or train). ``val`` is instances_val2017 (or instances_val, or val). The path of an image in ``root`` is
the end of its ``coco_url``, or its ``file_name`` in the folder of the list (train2017), in ``images``, or in ``root``.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import warnings

from ...core.errors import OpError
from ...core.optional import require
from ..base import SPLITS, Classes, DetectionDataset, class_names
from ..images import progress

__all__ = ["COCO"]

WHERE = "data.coco"
PREFIX = "instances_"
NUMBER = (int, float)
MAX_NUMBER = 2**53   # largest magnitude of a number: float64 represents all integers up to it
SHOWN = 60   # characters of a wrong value in an error
TOLERANCE = 1   # pixels by which a box may exceed its image because of rounding; the box is then clipped
FIELDS = {"images": {"id": int, "file_name": str, "width": NUMBER, "height": NUMBER},
          "categories": {"id": int, "name": str},
          "annotations": {"id": int, "image_id": int, "category_id": int, "bbox": list, "area": NUMBER}}


class COCO(DetectionDataset):
    """A data set in the layout of COCO. The module describes the folder, and the base class the items.

    Crowds are left out. Objects that are at most one pixel wide or high are left out with a warning: COCO's own files
    have two without a height. Images without objects are left out of ``train``, and stay in ``val``.

    - ``root``: the folder.
    - ``split``: "train" or "val"; the split, or the name of a list, without .json.
    - ``classes``: names in the order of their class ids, or a file with one name per line. The default is the names and
      order of the annotation file. A name without a category is a class without objects. A category without a name is
      an error.

    An OpError if a file is missing or malformed, a class is unknown, or a package is not installed.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        reader = require("gluoncv.data", WHERE).COCODetection
        require("pycocotools.coco", WHERE)   # if it were missing, gluoncv would run pip
        name, path = _find(root, split)
        categories = _check(path)
        names = categories if classes is None else class_names(classes, WHERE)
        unknown = [category for category in categories if category not in names]
        if unknown:
            raise OpError(WHERE, f"{path} has the category {unknown[0]!r}; expected one of {', '.join(names)}",
                          "Add it to classes, or remove it from the file")
        class_ids = [names.index(category) for category in categories]
        expected_sizes = {}

        class Reader(reader):
            CLASSES = list(categories)

            def _parse_image_path(self, entry):
                image_path = _image(root, name, entry, path)
                label = f"{path}, image {entry['id']},"
                expected_sizes[image_path] = (entry["width"], entry["height"]), label
                return image_path

        with contextlib.redirect_stdout(io.StringIO()):   # pycocotools prints its progress
            source = Reader(root=root, splits=name, skip_empty=split == "train", use_crowd=False)
        if not source._items:
            condition = " with an object" if split == "train" else ""
            raise OpError(WHERE, f"{path} has no image{condition}",
                          "Pass the name of another list, or create the file again")
        # gluoncv stores the last pixel inside a box, and the file stores its edge. A class of -1 means no object.
        labels = [[(left, top, right + 1, bottom + 1, class_ids[int(number)], 0)
                   for left, top, right, bottom, number in label if number >= 0]
                  for label in source._labels]
        super().__init__(WHERE, names, source._items, labels, [expected_sizes[item] for item in source._items])


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
    folder = name[len(PREFIX):] if name.startswith(PREFIX) else name
    file_name = entry["file_name"]
    candidates = [os.path.join(root, folder, file_name), os.path.join(root, "images", file_name),
                  os.path.join(root, file_name)]
    if entry.get("coco_url"):
        end_of_url = entry["coco_url"].split("/")[-2:]
        candidates.insert(0, os.path.join(root, *end_of_url))
    for candidate in candidates:
        if not _is_inside(root, candidate):
            raise _bad(path, f"image {entry['id']}", f"its file is {candidate}", f"a file in {root}")
        if os.path.isfile(candidate):
            return candidate
    raise OpError(WHERE, f"{path}, image {entry['id']}: there is no {candidates[0]}",
                  "Add the image, or remove it from the list")


def _is_inside(root, path):
    """Whether a path stays in a folder, without following links."""
    folder = os.path.abspath(root)
    return os.path.commonpath([folder, os.path.abspath(path)]) == folder


def _bad(path, place, got, expected):
    return OpError(WHERE, f"{path}, {place}: {got}; expected {expected}", "Correct the file, or create it again")


def _check(path):
    """Check everything that pycocotools and gluoncv rely on. Return the class names."""
    content = _read_json(path)
    for key, types in FIELDS.items():
        _check_items(path, key, content[key], types)
    images = {item["id"]: item for item in content["images"]}
    categories = {item["id"]: item["name"] for item in content["categories"]}
    for item in images.values():
        _check_image(path, item)

    tiny = []
    for item in progress(content["annotations"], f"checking {os.path.basename(path)}"):
        _check_annotation(path, item, images, categories)
        if _is_tiny(item, images[item["image_id"]]):
            tiny.append(item["id"])
    if tiny:
        shown = [str(number) for number in tiny[:5]]
        if len(tiny) > len(shown):
            shown.append("...")
        warnings.warn(f"{path}: {len(tiny)} objects without an area, or not larger than a pixel, are left out: "
                      f"annotation {', '.join(shown)}", stacklevel=4)
    return class_names(categories.values(), WHERE)


def _read_json(path):
    """The content of the file, with the three lists."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise OpError(WHERE, f"{path} cannot be read: {error}", "Create the file again") from error
    except json.JSONDecodeError as error:
        raise _bad(path, f"line {error.lineno}", error.msg, "JSON") from error
    except (RecursionError, ValueError) as error:   # lists in lists; a number of thousands of digits
        raise _bad(path, "top level", f"{type(error).__name__}: {error}", "JSON of usual depth and numbers") from error
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise _bad(path, "top level", f"no list {key!r}", "one")
    return content


def _check_items(path, key, items, types):
    """Check that each item of a list has the fields in ``types``, with the right types, and an id of its own."""
    for index, item in enumerate(items):
        place = f"{key}[{index}]"
        missing = [field for field in types if not isinstance(item, dict) or field not in item]
        if missing:
            raise _bad(path, place, f"no {', no '.join(missing)}", f"{', '.join(types)}")
        for field, type_ in types.items():
            if not _is(item[field], type_):
                expected = {str: "text", list: "a list"}.get(type_, "a number")
                raise _bad(path, place, f"{field} is {repr(item[field])[:SHOWN]}", expected)
    if len({item["id"] for item in items}) < len(items):
        raise _bad(path, key, "two have the same id", "another for each")


def _is(value, type_):
    """Whether a value has a type. A number is no bool, and not NaN or larger than float64 represents exactly."""
    if isinstance(value, NUMBER) and (isinstance(value, bool) or not abs(value) <= MAX_NUMBER):
        return False
    return isinstance(value, type_)


def _check_image(path, item):
    url = item.get("coco_url")
    if min(item["width"], item["height"]) < 1 or not isinstance(url or "", str):
        raise _bad(path, f"image {item['id']}", f"it is {item['width']} x {item['height']}, its coco_url {url!r}",
                   "a size above 0, and text")


def _check_annotation(path, item, images, categories):
    place = f"annotation {item['id']}"
    if item["image_id"] not in images:
        raise _bad(path, place, f"image_id is {item['image_id']!r}", "the id of an image")
    if item["category_id"] not in categories:
        raise _bad(path, place, f"category_id is {item['category_id']!r}", "the id of a category")

    box = item["bbox"]
    if len(box) != 4 or not all(_is(value, NUMBER) for value in box) or min(box[2:]) < 0:
        raise _bad(path, place, f"bbox is {box!r}", "x, y, width, height")
    image = images[item["image_id"]]
    width, height = image["width"], image["height"]
    left, top, right, bottom = _edges(box)
    if min(left, top) < -TOLERANCE or right > width + TOLERANCE or bottom > height + TOLERANCE:
        raise _bad(path, place, f"bbox is {box!r} in an image of {width} x {height}", "a box inside of it")

    crowd = item.get("iscrowd", 0)
    if item["area"] < 0 or crowd not in (0, 1):
        raise _bad(path, place, f"area is {item['area']!r}, iscrowd {crowd!r}", "a number from 0, and 0 or 1")


def _is_tiny(item, image):
    """Whether gluoncv leaves an object out because of its size."""
    if item.get("iscrowd", 0):
        return False
    left, top, right, bottom = _edges(item["bbox"])
    clipped_width = min(right, image["width"]) - max(left, 0)
    clipped_height = min(bottom, image["height"]) - max(top, 0)
    return item["area"] == 0 or min(clipped_width, clipped_height) <= 1


def _edges(box):
    left, top, width, height = box
    return left, top, left + width, top + height
