"""The parts of the package that lie beside it in a clone: ``models/`` and ``examples/``.

An installation puts them into the package, as ``gluonops.models`` and ``gluonops.examples``; setup.py says so. Python
started in the root of a clone finds the folder ``gluonops`` there first, whether gluonops is installed or not. Then the
finder of this file finds the two beside it.
"""
from __future__ import annotations

import importlib.abc
import importlib.util
import pathlib
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("models", "examples")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``<package>.models`` and ``<package>.examples`` in the folders of these names beside the package."""

    def __init__(self, package: str, root: pathlib.Path):
        self._folders = {f"{package}.{part}": root / part for part in PARTS}

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> ModuleSpec | None:
        folder = self._folders.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(name, folder / "__init__.py",
                                                      submodule_search_locations=[str(folder)])


def find_parts(package: str) -> None:
    """Make the parts of a package importable, if it lies in a clone and no installation provides them.

    Raises
    ------
    ImportError
        They are neither in the package nor beside it.
    """
    if importlib.util.find_spec(f"{package}.models") is not None:
        return
    root = PACKAGE.parent
    if not all((root / part / "__init__.py").is_file() for part in PARTS):
        raise ImportError(f"gluonops: {PACKAGE} lacks its models, and they do not lie beside it. Run in the clone: "
                          "pip install .")
    sys.meta_path.append(_Finder(package, root))
