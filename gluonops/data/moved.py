"""Old names, which still work with a DeprecationWarning."""
import importlib
import sys
import types
import warnings
from collections.abc import Mapping
from typing import Any

__all__ = ["MovedModule", "deprecated", "install"]


def deprecated(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name has been replaced by another."""
    warnings.warn(f"{old} is {new} now; the old name will go", DeprecationWarning, stacklevel=stacklevel)


class MovedModule(types.ModuleType):
    """A module under its old name. Reading an attribute warns and returns that of the new module.

    Parameters
    ----------
    old, new : str
        Full names of the modules.
    renamed : mapping of str to str
        Attributes that have another name in the new module: old name -> new name.
    """

    def __init__(self, old: str, new: str, renamed: Mapping[str, str]):
        super().__init__(old, f"{new} under its old name.")
        self.__dict__["_target"] = new, dict(renamed)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):   # the import system reads these
            raise AttributeError(name)
        module, renamed = self.__dict__["_target"]
        new = renamed.get(name, name)
        value = getattr(importlib.import_module(module), new)
        deprecated(f"{self.__name__}.{name}", f"{module}.{new}")
        return value


def install(package: str, modules: Mapping[str, tuple]) -> None:
    """Make modules importable under their old names, ``package.<old>``.

    Parameters
    ----------
    package : str
        Full name of the package.
    modules : mapping of str to tuple
        Old name -> (full name of the new module, its renamed attributes). If the package already has an attribute with
        the old name, such as a function, this attribute stays.
    """
    for old, (new, renamed) in modules.items():
        name = f"{package}.{old}"
        module = sys.modules[name] = MovedModule(name, new, renamed)
        parent = sys.modules[package]
        if not hasattr(parent, old):
            setattr(parent, old, module)
