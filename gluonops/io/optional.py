"""Packages that only some parts of gluonops need: imported on first use, with an error that names the cause."""
from __future__ import annotations

import importlib
import re
import types
import warnings

from ..contract.errors import OpError
from ..runtime.mxnet_wheel import installed, requirements


def require(module: str, where: str, install: str = "Run: pip install 'gluonops[detection]'") -> types.ModuleType:
    """Import a module of an optional package.

    ``module`` is its full name, such as ``gluoncv.data``. ``install`` is the sentence that tells the user how to
    install the package; the default names the extra that has most optional packages. Raise an OpError if the package
    is not installed, lacks a package that it needs itself, or fails when it is imported.
    """
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")   # gluoncv uses distutils
            return importlib.import_module(module)
    except Exception as error:   # gluoncv raises RuntimeError for versions it does not support
        reason, remedy = _explained(package, error, install)
        raise OpError(where, f"{package} cannot be imported ({reason})", remedy) from error


def _explained(package: str, error: Exception, install: str) -> tuple[str, str]:
    """(reason, remedy) of an import that failed."""
    missing = _missing_requirements(package)
    if missing:
        # gluoncv swallows the error that names them, and says that MXNet and torch are missing.
        return f"it needs {', '.join(missing)}, which is not installed", install
    if isinstance(error, ModuleNotFoundError):
        return str(error), install
    return f"{type(error).__name__}: {error}", f"{package} is installed, but raises this error itself: fix its cause"


def _missing_requirements(package: str) -> list[str]:
    """Return the distributions that an installed one needs and that are not installed."""
    always = [text for text in requirements(package) if ";" not in text]   # others belong to an extra or to a platform
    names = [re.match(r"[\w.-]+", text).group() for text in always]
    return [name for name in names if installed(name) is None]
