"""What gluonops supports: versions of Python and NumPy, processors, systems, CUDA. This file is the only place for it.

It uses nothing of gluonops and runs on any Python 3: setup.py and tools/venv.sh run it as a file.
"""
import sys

PYTHONS = ((3, 9), (3, 15))   # the oldest and the newest
NUMPYS = ((1, 21), (2, 5))    # the oldest, and the newest that was tried; later ones of the same major are accepted
# The pairs of Python and NumPy on which `make test-matrix` has passed.
TRIED = (("3.9", "1.21"), ("3.9", "1.23"), ("3.10", "1.23"), ("3.11", "1.23"), ("3.9", "1.26"), ("3.10", "1.26"),
         ("3.11", "1.26"), ("3.12", "1.26"), ("3.12", "2.0"), ("3.13", "2.5"), ("3.14", "2.5"), ("3.15", "2.5"))
NO_MXNET = ("gluonops: MXNet is not installed. Run: gluonops install-mxnet (on an NVIDIA machine: "
            "gluonops install-mxnet cu117). Without MXNet, `gluonops files` lists, checks and converts files, and "
            "`gluonops export --torch` writes PyTorch.")


def supported() -> str:
    """Return the supported ranges of Python and NumPy as text."""
    return "Python {}.{} to {}.{}, NumPy {}.{} to {}.{}".format(*PYTHONS[0], *PYTHONS[1], *NUMPYS[0], *NUMPYS[1])


def table() -> list[tuple[str, str, str, str]]:
    """Return what is supported, on what of it tests ran, and what fails without gluonops.

    The first row has the headings.
    """
    pythons, numpys = ((_text(oldest), _text(newest)) for oldest, newest in (PYTHONS, NUMPYS))
    tried_numpys = ", ".join(dict.fromkeys(numpy for _, numpy in TRIED))
    return [
        ("", "supported", "tests ran on", "error without gluonops"),
        ("Python", " to ".join(pythons), _tried_pythons(), "No module named 'distutils'"),
        ("NumPy", " to ".join(numpys), tried_numpys, "module 'numpy' has no attribute 'bool'"),
        ("processor", "x86-64, Arm (aarch64)", "x86-64; Arm emulated", "libarmpl_lp64_mp.so"),
        ("system", "Linux with glibc", "Debian 12, 13", ""),
        ("CUDA", "none, 11.7, 11.2, 10.2", "11.7: kernels on an H200", "libcudnn.so.8"),
    ]


def markdown() -> str:
    """Return the table for pages."""
    headings, *rows = table()
    marked = [(*row, f"`{error}`" if error else "") for *row, error in rows]
    head, *body = [f"| {' | '.join(line)} |" for line in [headings, *marked]]
    return "\n".join([head, "|---|---|---|---|", *body])


def lines() -> list[str]:
    """Return the table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table())]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table()]


def python_problem(version: tuple = sys.version_info) -> str:
    """Return a line that says why a Python is not supported. It is empty if it is supported."""
    if PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        return ""
    return "gluonops needs Python {}.{} to {}.{}. This is Python {}.{}.".format(*PYTHONS[0], *PYTHONS[1], *version[:2])


def numpy_requirement() -> str:
    """Return the supported versions of NumPy, as pip takes them."""
    return "numpy>={}.{},<{}".format(*NUMPYS[0], NUMPYS[1][0] + 1)


def numpy_problem(version: str) -> str:
    """Return a line that says why this version of NumPy is not supported. It is empty if it is supported."""
    if NUMPYS[0] <= _release(version) < (NUMPYS[1][0] + 1, 0):
        return ""
    return f"gluonops: found NumPy {version}, which gluonops does not support. Run: pip install '{numpy_requirement()}'"


def numpy_was_tried(version: str) -> bool:
    """Return whether a version of NumPy is at most the newest that was tried."""
    return _release(version) <= NUMPYS[1]


def _tried_pythons() -> str:
    """Return the minor versions of Python 3 that were tried, such as ``3.9 to 3.11, 3.13``."""
    minors = sorted({int(python.split(".")[1]) for python, _ in TRIED})
    firsts = [minor for minor in minors if minor - 1 not in minors]
    lasts = [minor for minor in minors if minor + 1 not in minors]
    return ", ".join(f"3.{first}" if first == last else f"3.{first} to 3.{last}" for first, last in zip(firsts, lasts))


def _text(release: tuple) -> str:
    return ".".join(map(str, release))


def _release(version: str) -> tuple:
    return tuple(int(part) for part in version.split(".")[:2])


if __name__ == "__main__":
    sys.exit(python_problem() or 0)
