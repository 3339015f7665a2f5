"""Folders in MS COCO's layout. The annotations are checked, then gluoncv and pycocotools read them.

``root`` has ``annotations/<list>.json`` and the images. ``train`` is the list instances_train2017 (or
instances_train, train), ``val`` instances_val2017 (or instances_val, val). An image lies in ``root`` where its
``coco_url`` says, or by its ``file_name`` in the folder of the list (train2017), in ``images``, or in ``root``.
"""
import contextlib
import io
import json
import math
import os
import warnings

from ...core.errors import OpError
from ...core.optional import require
from ..base import SPLITS, Classes, Detection, class_names
from ..images import progress

__all__ = ["COCO"]

WHERE = "data.coco"
PREFIX = "instances_"
NUMBER = (int, float)
SLACK = 1   # pixels by which a box may exceed its image, because of rounding; it is then clipped
FIELDS = {"images": {"id": int, "file_name": str, "width": NUMBER, "height": NUMBER},
          "categories": {"id": int, "name": str},
          "annotations": {"id": int, "image_id": int, "category_id": int, "bbox": list, "area": NUMBER}}


class COCO(Detection):
    """A data set in COCO's layout; see this module, and :class:`gluonops.data.Detection` for its items.

    Crowds are left out. Objects that are not larger than a pixel in both directions are left out with a warning: COCO's
    own files have two without a height. Only ``val`` has images without objects.

    Parameters
    ----------
    root : str
        The folder.
    split : {"train", "val"} or str
        Or a list's name, without .json.
    classes : sequence of str or str, optional
        Names in the order to number them, or a file with one per line; the file's own names and order if left out. A
        name that no category has is a class without objects; a category that is not among them is refused.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None):
        reader = require("gluoncv.data", WHERE).COCODetection
        require("pycocotools.coco", WHERE)   # gluoncv would run pip, were it missing
        name, path = _find(root, split)
        categories = _check(path)
        names = categories if classes is None else class_names(classes, WHERE)
        unknown = [category for category in categories if category not in names]
        if unknown:
            raise OpError(WHERE, f"{path} has the category {unknown[0]!r}; expected one of {', '.join(names)}",
                          "Pass it in classes as well, or take it out of the file")
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
                          "Pass the name of another list, or make the file anew")
        # gluoncv stores the last pixel inside a box; the file stores its edge. A class of -1 means no object.
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
    places = [(name[len(PREFIX):] if name.startswith(PREFIX) else name, entry["file_name"]),
              ("images", entry["file_name"]), (entry["file_name"],)]
    if entry.get("coco_url"):
        places.insert(0, tuple(entry["coco_url"].split("/")[-2:]))
    for place in places:
        if os.path.isfile(os.path.join(root, *place)):
            return os.path.join(root, *place)
    raise OpError(WHERE, f"{path}, image {entry['id']}: there is no {os.path.join(root, *places[0])}",
                  "Add the image, or remove it from the list")


def _bad(path, place, got, expected):
    return OpError(WHERE, f"{path}, {place}: {got}; expected {expected}", "Correct the file, or create it again")


def _check(path):
    """Check the file for what pycocotools and gluoncv cannot read; return the class names."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except json.JSONDecodeError as error:
        raise _bad(path, f"line {error.lineno}", error.msg, "JSON") from error
    except (OSError, UnicodeDecodeError) as error:
        raise OpError(WHERE, f"{path} cannot be read: {error}", "Make the file anew") from error
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise _bad(path, "top level", f"no list {key!r}", "one")
    for key, needed in FIELDS.items():
        for place, item in enumerate(content[key]):
            missing = [word for word in needed if not isinstance(item, dict) or word not in item]
            if missing:
                raise _bad(path, f"{key}[{place}]", f"no {', no '.join(missing)}", f"{', '.join(needed)}")
            for word, kinds in needed.items():
                if not isinstance(item[word], kinds) or isinstance(item[word], float) and not math.isfinite(item[word]):
                    raise _bad(path, f"{key}[{place}]", f"{word} is {item[word]!r}",
                               "text" if kinds is str else "a list" if kinds is list else "a number")
        if len({item["id"] for item in content[key]}) < len(content[key]):
            raise _bad(path, key, "two have the same id", "another for each")
    images = {item["id"]: item for item in content["images"]}
    categories = {item["id"]: item["name"] for item in content["categories"]}
    for number, item in images.items():
        if min(item["width"], item["height"]) < 1 or not isinstance(item.get("coco_url") or "", str):
            raise _bad(path, f"image {number}", f"it is {item['width']} x {item['height']}, its coco_url "
                       f"{item.get('coco_url')!r}", "a size above 0, and text")
    tiny = []
    for item in progress(content["annotations"], f"checking {os.path.basename(path)}"):
        place = f"annotation {item['id']}"
        if item["image_id"] not in images:
            raise _bad(path, place, f"image_id is {item['image_id']!r}", "the id of an image")
        if item["category_id"] not in categories:
            raise _bad(path, place, f"category_id is {item['category_id']!r}", "the id of a category")
        box = item["bbox"]
        if len(box) != 4 or not all(_is_number(value) for value in box) or min(box[2:]) < 0:
            raise _bad(path, place, f"bbox is {box!r}", "x, y, width, height")
        width, height = (images[item["image_id"]][side] for side in ("width", "height"))
        (left, right), (top, bottom) = ((box[axis], box[axis] + box[axis + 2]) for axis in (0, 1))
        if min(left, top) < -SLACK or right > width + SLACK or bottom > height + SLACK:
            raise _bad(path, place, f"bbox is {box!r} in an image of {width} x {height}", "a box inside of it")
        if item["area"] < 0 or item.get("iscrowd", 0) not in (0, 1):
            raise _bad(path, place, f"area is {item['area']!r}, iscrowd {item.get('iscrowd', 0)!r}",
                       "a number from 0, and 0 or 1")
        sides = min(right, width) - max(left, 0), min(bottom, height) - max(top, 0)
        if not item.get("iscrowd", 0) and (item["area"] == 0 or min(sides) <= 1):   # gluoncv skips them
            tiny.append(item["id"])
    if tiny:
        shown = [str(number) for number in tiny[:5]]
        if len(tiny) > len(shown):
            shown.append("...")
        warnings.warn(f"{path}: {len(tiny)} objects without an area, or not larger than a pixel, are left out: "
                      f"annotation {', '.join(shown)}", stacklevel=4)
    return class_names(categories.values(), WHERE)


def _is_number(value):
    return isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)
