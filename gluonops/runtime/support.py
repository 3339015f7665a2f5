"""The versions of Python and NumPy that gluonops supports. This file is the only place for them.

It uses nothing of gluonops and runs on any Python 3: setup.py and tools/venv.sh run it as a file.
"""
import sys

PYTHONS = ((3, 9), (3, 15))   # the oldest and the newest
NUMPYS = ((1, 21), (2, 5))    # the oldest, and the newest that was tried; gluonops accepts later ones of the same major


def supported() -> str:
    """Both ranges, as text."""
    return "Python {}.{} to {}.{}, NumPy {}.{} to {}.{}".format(*PYTHONS[0], *PYTHONS[1], *NUMPYS[0], *NUMPYS[1])


def python_problem(version: tuple = sys.version_info) -> str:
    """Why a Python is not supported, in a line; empty if it is."""
    if PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        return ""
    return "gluonops needs Python {}.{} to {}.{}. This is Python {}.{}.".format(*PYTHONS[0], *PYTHONS[1], *version[:2])


def numpy_requirement() -> str:
    """The supported versions of NumPy, as pip takes them."""
    return "numpy>={}.{},<{}".format(*NUMPYS[0], NUMPYS[1][0] + 1)


def numpy_problem(version: str) -> str:
    """Why a NumPy, given by its version, is not supported, in a line; empty if it is."""
    if NUMPYS[0] <= _release(version) < (NUMPYS[1][0] + 1, 0):
        return ""
    return f"gluonops: found NumPy {version}, which gluonops does not support. Run: pip install '{numpy_requirement()}'"


def numpy_was_tried(version: str) -> bool:
    """Whether a NumPy is not newer than the newest that was tried."""
    return _release(version) <= NUMPYS[1]


def _release(version: str) -> tuple:
    return tuple(int(part) for part in version.split(".")[:2])


if __name__ == "__main__":
    sys.exit(python_problem() or 0)
