"""Folders in the layout of MS COCO: pictures, and a JSON file for each list of them.

``root`` has the JSON file of ``train`` and of ``val`` (or valid, test), and the images. The file of a list is one of

- ``annotations/instances_train2017.json``, or another whose name has the word ``train``: in ``annotations``, or in
  ``root``;
- a JSON file in the folder ``train``, such as Roboflow's ``_annotations.coco.json``.

Where there is but one JSON file, or none for ``val``, a fifth is held out. An image is found by the end of its
``coco_url``, or by its ``file_name`` in the folder of the list (train2017), in ``images`` or ``images/train2017``,
beside the JSON file, or in ``root``.
"""
from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Sequence

from ...contract.errors import OpError
from ...io.files import opened
from .. import layouts
from ..base import ALIASES, SPLITS, Classes, DetectionDataset, class_names
from ..images import headers, progress
from ..labels import Labelled, fit
from ..repairs import Repairs
from .darknet import suffixes

WHERE = "data.coco"
PREFIX = "instances_"
NUMBER = (int, float)
MAX_NUMBER = 2**53   # largest magnitude of a number: float64 represents all integers up to it
SHOWN = 60   # characters of a wrong value in an error
OTHERS = ("captions", "panoptic", "stuff", "image_info")   # files of COCO that have no boxes
LAYOUT = ("annotations/instances_train.json, train.json beside the folder train, or _annotations.coco.json beside the "
          "pictures")
FIELDS = {"images": ("id", "file_name"), "categories": ("id", "name"), "annotations": ("image_id", "category_id")}


class COCO(DetectionDataset):
    """A data set in the layout of COCO. The module describes the folder, and the base class the items.

    Crowds are left out. Images without objects are left out of ``train``, and stay in ``val``. Areas and the ids of
    annotations are not needed. The ids of images and categories may be numbers or text.

    ``split`` may also be the name of a list, without .json. ``classes`` are names in the order of their class ids, or a
    file with one name per line. By default they are the categories of the annotation file. A class that is not a
    category has no objects. A category that is not in ``classes`` is an error. A category without objects is not a
    class if others name it as their supercategory. With ``strict``, whatever would be repaired is an error.
    ``hold_out`` is for data sets without a part for validation: True holds out a fifth, and names hold out these
    pictures.

    An OpError is raised if a file is missing or malformed, or a class is unknown.
    """

    def __init__(self, root: str, split: str = "train", classes: Classes = None, strict: bool = False,
                 hold_out: bool | Sequence[str] = False):
        path, has_split = _find(root, split)
        content, repairs = _read(path), Repairs(WHERE, strict)
        categories = _categories(path, content, repairs)
        own = [*dict.fromkeys(categories.values())]
        names = class_names(own if classes is None else classes, WHERE)
        unknown = [category for category in own if category not in names]
        if unknown:
            raise OpError(WHERE, f"{path} has the category {unknown[0]!r}; expected one of {', '.join(names)}",
                          "Add this name to classes, or remove the category from the file")
        numbers = {key: names.index(name) for key, name in categories.items()}
        pictures = _pictures(root, path, content, numbers, repairs)
        paths = [picture.picture for picture in pictures]
        fitted = fit(pictures, headers(paths, WHERE, "checking pictures"), repairs)
        super().__init__(WHERE, names, [paths[i] for i in fitted.kept], fitted.labels, fitted.sizes, repairs)
        if not has_split and len(self):
            self._hold_out(split, root, hold_out)
        training = self.rest if self.rest is not None and split == "val" else self
        if training is self.rest or split == "train":
            training._keep([i for i, label in enumerate(training._labels) if len(label)])
        if not len(self):
            condition = " with an object" if split == "train" else ""
            raise OpError(WHERE, f"{path} has no image{condition}",
                          "Pass another split, or create the file again")


def _find(root: str, split: str) -> tuple[str, bool]:
    """Find the JSON file of a split. Returns its path, and whether there is a file for each split."""
    files = _files(root)
    if split not in SPLITS:
        path = next((path for path in files if _stem(path) == split), None)
        if path is None:
            raise OpError(WHERE, f"{root} has no {split}.json", "Pass the name of a JSON file that is there as split")
        return path, True
    parts = {part: next(iter(_of_split(files, part)), None) for part in SPLITS}
    if parts["val"] or parts["train"]:
        part = split if parts["val"] else "train"
        if parts[part] is None:
            raise OpError(WHERE, f"{root} has no annotations/{PREFIX}{part}.json, and no other JSON file of {part}; "
                          f"there is {os.path.relpath(parts['val'], root)}", "Add it, or pass split='val'")
        return parts[part], bool(parts["val"])
    likely = [path for path in files if path.endswith(".coco.json") or _stem(path).startswith(PREFIX)] or files
    if len(likely) != 1:
        named = f"{len(files)} JSON files, none of which is named train" if files else layouts.describe(root)
        remedy = "Rename the file to train on to train.json" if files else layouts.nearest(root)
        raise OpError(WHERE, f"{root} has {named}; expected {LAYOUT}", remedy)
    return likely[0], False


def _files(root: str) -> list[str]:
    """The JSON files of a data set: in the folder, in ``annotations``, and in the folders of splits."""
    folders = [layouts.child(root, "annotations", "annotation", "annots", "labels"), root,
               *(layouts.split_folder(root, split) for split in SPLITS)]
    paths = [os.path.join(folder, name) for folder in folders if folder for name in layouts.files_and_folders(folder)[0]
             if name.lower().endswith(".json") and not name.lower().startswith(OTHERS)]
    return paths


def _stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def _of_split(files: Sequence[str], split: str) -> list[str]:
    """The files of a split, the likeliest first: by the folder that a file is in, or by a word in its name."""
    ranked = []
    for path in files:
        words = re.split("[^a-z]+", _stem(path).lower())
        words.append(re.sub(r"[-_ ]?\d*$", "", os.path.basename(os.path.dirname(path)).lower()))
        ranks = [rank for rank, alias in enumerate(ALIASES[split]) if alias in words]
        if ranks:
            ranked.append((ranks[0], not _stem(path).startswith(PREFIX), path))
    return [path for *_, path in sorted(ranked)]


def _pictures(root, path, content, numbers, repairs) -> list[Labelled]:
    """The pictures of a file in the order of their ids, with their labels."""
    rows, lines, folders = {}, {}, _folders(root, path)
    for item in content["images"]:
        key = _key(item["id"])
        if key in rows:
            raise _bad(path, "images", f"two items have the id {item['id']!r}", "another id for each")
        rows[key], lines[key] = [], []
    for index, item in enumerate(progress(content["annotations"], f"checking {os.path.basename(path)}")):
        name = f"annotation {item['id']}" if "id" in item else f"annotations[{index}]"
        if _key(item["category_id"]) not in numbers:
            raise _bad(path, name, f"category_id is {item['category_id']!r}", "the id of a category")
        left, top, width, height = _box(path, name, item, repairs)
        key = _key(item["image_id"])
        if key not in rows:
            repairs.note("no_picture", f"{path}, {name}", f"image_id is {item['image_id']!r}", "the id of an image")
        elif not (_is_set(item.get("iscrowd")) or _is_set(item.get("ignore"))):
            rows[key].append((left, top, left + width, top + height, numbers[_key(item["category_id"])], 0))
            lines[key].append(name)
    images = sorted(content["images"], key=lambda image: (isinstance(_key(image["id"]), str), _key(image["id"])))
    return [Labelled(_image(root, folders, image, path), path, rows[_key(image["id"])], lines[_key(image["id"])],
                     (_side(image, "width"), _side(image, "height")), f"{path}, image {image['id']}")
            for image in images]


def _folders(root: str, path: str) -> list[str]:
    """The folders in which the pictures of a file may be."""
    stem, own = _stem(path), os.path.dirname(path)
    name = stem[len(PREFIX):] if stem.startswith(PREFIX) else stem
    split = next((split for split in SPLITS if _of_split([path], split)), None)
    pictures = layouts.child(root, *layouts.PICTURES)
    of_split = split and layouts.split_folder(root, split)
    candidates = [layouts.child(root, name), pictures and layouts.child(pictures, name),
             pictures and split and layouts.split_folder(pictures, split), of_split,
             of_split and layouts.child(of_split, *layouts.PICTURES), pictures, own,
             layouts.child(own, *layouts.PICTURES), layouts.child(root, "data"), root]
    return [*dict.fromkeys(filter(None, candidates))]


def _image(root, folders, image, path) -> str | OpError:
    """The path of an image, or why there is none. An OpError is raised if it is outside of the folder."""
    inside, file_name = os.path.join(os.path.abspath(root), ""), image["file_name"].replace("\\", "/")
    is_absolute = file_name.startswith("/")
    names = [*([] if is_absolute else [file_name]), *suffixes(file_name)]   # the end of a path of another machine
    candidates = [os.path.join(folder, name) for name in names for folder in folders]
    if image.get("coco_url"):
        candidates.insert(0, os.path.join(root, *image["coco_url"].split("/")[-2:]))
    for candidate in candidates:
        if not os.path.abspath(candidate).startswith(inside):   # links are not followed
            raise _bad(path, f"image {image['id']}", f"its file is {candidate}", f"a file in {root}")
        if os.path.isfile(candidate):
            return candidate
    return OpError(WHERE, f"{path}, image {image['id']}: there is no {candidates[0]}",
                   "Add the image, or remove it from the list")


def _bad(path, name, got, expected):
    return OpError(WHERE, f"{path}, {name}: {got}; expected {expected}", "Correct the file, or create it again")


def _read(path: str) -> dict:
    """The content of the file. Its three lists have items with the right fields."""
    with opened(WHERE, path, "Create the file again") as file:
        text = file.read()
    try:
        content = json.loads(text)
    except UnicodeDecodeError as error:
        raise OpError(WHERE, f"{path} cannot be read: {error}", "Create the file again") from error
    except json.JSONDecodeError as error:
        raise _bad(path, f"line {error.lineno}", error.msg, "JSON") from error
    except (RecursionError, ValueError) as error:   # lists in lists; a number of thousands of digits
        raise _bad(path, "top level", f"{type(error).__name__}: {error}", "JSON of usual depth and numbers") from error
    for key, fields in FIELDS.items():
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise _bad(path, "top level", f"no list {key!r}", "one")
        _check_items(path, key, content[key], fields)
    return content


def _check_items(path, key, items, fields):
    """Check that each item of a list has the fields, ids that are numbers or text, and names that are text."""
    for index, item in enumerate(items):
        missing = [field for field in fields if not isinstance(item, dict) or field not in item]
        if missing:
            raise _bad(path, f"{key}[{index}]", f"it has no {' and no '.join(missing)}",
                       f"the fields {', '.join(fields)}")
        for field in (*fields, "coco_url"):
            value = item.get(field)
            is_text = field in ("file_name", "name", "coco_url")
            is_right = isinstance(value, str) if is_text else isinstance(value, str) or _is_number(value)
            if not is_right and not (field == "coco_url" and value is None):
                raise _bad(path, f"{key}[{index}]", f"{field} is {repr(value)[:SHOWN]}",
                           "text" if is_text else "a number")


def _is_number(value):
    """Whether a value is a number: no bool, and not NaN or larger than float64 represents exactly."""
    return isinstance(value, NUMBER) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _key(value: str | float) -> str | int | float:
    """An id as a key of a dict. The text "7" and the number 7 are the same key."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text
    return value


def _is_set(value: object) -> bool:
    """Whether a flag such as iscrowd is set: it is 1 or true, or one of these as text."""
    return value in (1, "1", "true", "True")


def _side(image, field):
    """A side of an image as the file states it, or 0 if it does not."""
    value = image.get(field, 0)
    return value if _is_number(value) else 0


def _categories(path, content, repairs) -> dict[str | int | float, str]:
    """The name of each category by its id."""
    used = {_key(item["category_id"]) for item in content["annotations"]}
    parents = {item.get("supercategory") for item in content["categories"]}
    names, ids = {}, set()
    for item in content["categories"]:
        key, name = _key(item["id"]), item["name"]
        if key in names:
            raise _bad(path, "categories", f"two items have the id {item['id']!r}", "another id for each")
        if name in parents and item.get("supercategory") in (None, "", "none") and key not in used:
            continue
        if name in ids:
            repairs.note("same_name", f"{path}, category {item['id']} {name!r}", "another category has this name too",
                         "another name for each")
        ids.add(name)
        names[key] = name
    return names


def _box(path, name, item, repairs) -> Sequence[float]:
    """x, y, width and height of an annotation. If it has only a polygon, they are those of its bounding box."""
    box, polygons = item.get("bbox"), item.get("segmentation")
    if not box and isinstance(polygons, list) and polygons:
        points = [*itertools.chain(*polygons)] if all(isinstance(each, list) for each in polygons) else polygons
        if len(points) >= 6 and len(points) % 2 == 0 and all(map(_is_number, points)):
            repairs.note("polygon", f"{path}, {name}", "it has a polygon and no bbox", "a bbox")
            left, top = min(points[::2]), min(points[1::2])
            return left, top, max(points[::2]) - left, max(points[1::2]) - top
    if box is None:
        raise _bad(path, name, "it has no bbox", "four numbers: x, y, width, height")
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        raise _bad(path, name, f"bbox is {repr(box)[:SHOWN]}", "four numbers: x, y, width, height")
    return box
