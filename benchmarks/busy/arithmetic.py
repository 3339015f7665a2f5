"""Arithmetic without memory, in threads that never wait: the least that a computation can take beside others."""
from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import time
from collections.abc import Callable

from gluonops.native.build import find_compiler

SOURCE = pathlib.Path(__file__).with_suffix(".cc")
SAMPLE = 2000   # pieces, to learn how long one takes


def arithmetic(milliseconds: float, folder: pathlib.Path) -> Callable[[], None]:
    """A function that computes as much as takes so long on all cores of the machine as it is now.

    Parameters
    ----------
    milliseconds : float
        Of one call, while nothing else runs.
    folder : pathlib.Path
        For the compiled ``arithmetic.cc``.
    """
    library = _load(folder)
    library.start(len(os.sched_getaffinity(0)) - 1)
    begin = time.perf_counter()
    library.compute(SAMPLE)
    seconds_of_one = (time.perf_counter() - begin) / SAMPLE
    pieces = round(1e-3 * milliseconds / seconds_of_one)
    return lambda: library.compute(pieces)


def _load(folder: pathlib.Path) -> ctypes.CDLL:
    output = folder / "arithmetic.so"
    flags = ["-O2", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*find_compiler(), *flags, str(SOURCE), "-o", str(output)], check=True)
    library = ctypes.CDLL(str(output))
    library.start.argtypes = [ctypes.c_int]
    library.compute.argtypes = [ctypes.c_long]
    library.start.restype = library.compute.restype = None
    return library
