"""How a data set lies on the disk: folders by the names that people give them, and what a folder has, in words.

Names of folders are compared without regard to case. Hidden files and folders, and what macOS and Jupyter leave behind,
are no part of a data set.
"""
from __future__ import annotations

import collections
import fnmatch
import os
import re
from collections.abc import Iterator, Sequence

from ..contract.errors import OpError
from .base import ALIASES
from .formats import XML
from .images import EXTENSIONS

IGNORED = ("__macosx", "thumbs.db")   # besides all whose names begin with a dot
PICTURES = ("JPEGImages", "images", "imgs", "image", "img", "pictures", "photos")   # folders of pictures
NO_CLASSES = {name.lower() for name in (*PICTURES, *XML, "data", *sum(ALIASES.values(), ()))}
# What a file is to a data set, by the ending of its name: in words, for one and for several.
KINDS = {".xml": ("XML file", "XML files"), ".txt": ("text file", "text files"), ".json": ("JSON file", "JSON files"),
         ".rec": (".rec file", ".rec files"), ".csv": ("CSV file", "CSV files"), ".zip": ("archive", "archives"),
         ".tar": ("archive", "archives"), ".gz": ("archive", "archives")}
PICTURE = ("picture", "pictures")
DEPTH = 3         # levels of folders that are looked at to describe one
MOST_NAMED = 3    # folders that a description names


def files_and_folders(folder: str) -> tuple[list[str], list[str]]:
    """The names of the files and of the folders in a folder, sorted; two empty lists if there is no such folder."""
    files, folders = [], []
    try:
        with os.scandir(folder) as listing:
            for item in listing:
                if not item.name.startswith(".") and item.name.lower() not in IGNORED:
                    (folders if item.is_dir() else files).append(item.name)
    except OSError:
        return [], []
    return sorted(files), sorted(folders)


def child(folder: str, *names: str) -> str | None:
    """The path of the first folder inside ``folder`` that has one of the names.

    Case counts only if two folders differ in nothing else.
    """
    _, folders = files_and_folders(folder)
    for name in names:
        if name in folders:
            return os.path.join(folder, name)
        for existing in folders:
            if existing.lower() == name.lower():
                return os.path.join(folder, existing)
    return None


def is_split(name: str, split: str) -> bool:
    """Whether a name is that of a split: an alias of it, perhaps with a year, such as train2017 or Val_2."""
    return any(re.fullmatch(rf"{alias}[-_ ]?\d*", name, re.IGNORECASE) for alias in ALIASES[split])


def split_folder(folder: str, split: str) -> str | None:
    """The path of the folder of a split in a folder, by the first of its aliases."""
    _, folders = files_and_folders(folder)
    for alias in ALIASES[split]:
        for name in folders:
            if re.fullmatch(rf"{alias}[-_ ]?\d*", name, re.IGNORECASE):
                return os.path.join(folder, name)
    return None


def is_picture(name: str) -> bool:
    """Whether the name of a file says that it is a picture."""
    return name.lower().endswith(EXTENSIONS)


def pictures_in(folder: str) -> list[str]:
    """The paths of the pictures in a folder, sorted."""
    return [os.path.join(folder, name) for name in files_and_folders(folder)[0] if is_picture(name)]


def pictures_below(folder: str) -> list[str]:
    """The paths of the pictures in a folder and in the folders inside it, sorted."""
    pictures = pictures_in(folder)
    for name in files_and_folders(folder)[1]:
        pictures += pictures_below(os.path.join(folder, name))
    return pictures


def by_stem(paths: Sequence[str]) -> dict[str, str]:
    """Files by their names without the ending.

    If two pictures share a name, the one counts whose ending comes first in EXTENSIONS.
    """
    def rank(path: str) -> int:
        ending = os.path.splitext(path)[1].lower()
        return EXTENSIONS.index(ending) if ending in EXTENSIONS else len(EXTENSIONS)

    return {os.path.splitext(os.path.basename(path))[0]: path for path in sorted(paths, key=rank, reverse=True)}


def class_folders(folder: str) -> list[str]:
    """The names of the folders in a folder that can be classes.

    Folders that layouts have, such as ``images``, cannot.
    """
    return [name for name in files_and_folders(folder)[1] if name.lower() not in NO_CLASSES
            and not any(is_split(name, split) for split in ALIASES)]


def matching(folder: str, pattern: str) -> Iterator[str]:
    """The paths in a folder that match a pattern, such as ``*/labels/``, without regard to case.

    A pattern that ends in a slash means folders that can be classes.
    """
    head, _, rest = pattern.partition("/")
    files, folders = files_and_folders(folder)
    if pattern.endswith("/") and not rest:
        names = [name for name in class_folders(folder) if fnmatch.fnmatch(name.lower(), head.lower())]
    else:
        names = [name for name in (*folders, *(() if rest else files)) if fnmatch.fnmatch(name.lower(), head.lower())]
    for name in names:
        path = os.path.join(folder, name)
        if rest:
            yield from matching(path, rest)
        else:
            yield path


def describe(folder: str) -> str:
    """Say in words what a folder has, such as ``8 pictures and 8 XML files in one folder``."""
    counts = dict(_counts(folder, "", DEPTH))
    if not counts:
        return "no pictures and no labels"
    if len(counts) == 1:
        (name, count), = counts.items()
        return f"{_in_words(count)} in {'one folder' if name == os.curdir else f'the folder {name}'}"
    named = [f"{_in_words(count)} in {'the folder itself' if name == os.curdir else name}"
             for name, count in [*counts.items()][:MOST_NAMED]]
    return ", ".join(named) + (f", and more in {len(counts) - MOST_NAMED} other folders" * (len(counts) > MOST_NAMED))


def _counts(folder: str, name: str, depth: int) -> Iterator[tuple[str, collections.Counter]]:
    """(path inside of the data set, how many files of each kind) for each folder that has some."""
    files, folders = files_and_folders(folder)
    kinds = (PICTURE if is_picture(file) else KINDS.get(os.path.splitext(file)[1].lower()) for file in files)
    count = collections.Counter(filter(None, kinds))
    if count:
        yield name or os.curdir, count
    if depth > 1:
        for each in folders:
            yield from _counts(os.path.join(folder, each), os.path.join(name, each), depth - 1)


def _in_words(count: collections.Counter) -> str:
    kinds = sorted(count.items(), key=lambda item: item[0] != PICTURE)   # pictures first
    parts = [f"{number} {kind[number > 1]}" for kind, number in kinds]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def nearest(folder: str) -> str:
    """The remedy for a folder that has no known layout. It names the layout that is nearest to what the folder has."""
    total = sum((count for _, count in _counts(folder, "", DEPTH)), collections.Counter())
    pictures = total[PICTURE]
    if total[KINDS[".zip"]] and not pictures:
        return "Unpack the archive, and pass its folder"
    if total[KINDS[".xml"]]:
        return "Move the pictures to JPEGImages and the XML files to Annotations, as in Pascal VOC"
    if total[KINDS[".json"]] > 2:
        return "Convert the JSON files to one in the layout of COCO, or to VOC's XML"
    if total[KINDS[".json"]]:
        return "Put the JSON file, in COCO's layout, beside the pictures as _annotations.coco.json"
    if total[KINDS[".txt"]] > 1:
        return ("Move the pictures to images and the text files to labels, as in YOLO, and name the classes in "
                "classes.txt")
    if pictures:
        return "Put the pictures of each class in a folder with the name of the class"
    return "Pass the folder of a data set; docs/fine_tuning.md has the layouts"


def unknown(where: str, folder: str, expected: str) -> OpError:
    """The error for a folder that does not have the expected layout."""
    return OpError(where, f"{folder} has {describe(folder)}; expected {expected}", nearest(folder))
