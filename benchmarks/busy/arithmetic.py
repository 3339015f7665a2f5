"""Arithmetic without memory: the least that a computation of several threads can take beside others."""
from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import time
from collections.abc import Callable

from gluonops.native.build import find_compiler

SOURCE = pathlib.Path(__file__).with_suffix(".cc")
STEPS = 8000    # of a piece: about 20 microseconds
SAMPLE = 2000   # pieces, to learn how long one takes


def arithmetic(milliseconds: float, folder: pathlib.Path) -> Callable[[], None]:
    """A function that computes as much as takes so long on all cores of the machine as it is now.

    Its threads never wait for one another.

    Parameters
    ----------
    milliseconds : float
        Of one call, while nothing else runs.
    folder : pathlib.Path
        For the compiled ``arithmetic.cc``.
    """
    library = _load(folder)
    library.start(_helpers(), STEPS, False)
    pieces = round(1e-3 * milliseconds / _seconds_of_piece(library.compute))
    return lambda: library.compute(pieces)


def arithmetic_in_layers(milliseconds: float, layers: int, folder: pathlib.Path) -> Callable[[], None]:
    """The same in layers of equal length: its threads wait for one another after each, as those of a network do.

    A thread takes the next piece when it has computed one. oneDNN gives each thread its share in advance, which takes
    longer where a thread has lost its processor.
    """
    library = _load(folder)
    library.start(_helpers(), STEPS, True)
    seconds = _seconds_of_piece(lambda pieces: library.compute_layers(1, pieces))
    pieces = round(1e-3 * milliseconds / layers / seconds)
    return lambda: library.compute_layers(layers, pieces)


def _helpers() -> int:
    return len(os.sched_getaffinity(0)) - 1


def _seconds_of_piece(compute: Callable[[int], None]) -> float:
    begin = time.perf_counter()
    compute(SAMPLE)
    return (time.perf_counter() - begin) / SAMPLE


def _load(folder: pathlib.Path) -> ctypes.CDLL:
    output = folder / "arithmetic.so"
    flags = ["-O2", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*find_compiler(), *flags, str(SOURCE), "-o", str(output)], check=True)
    library = ctypes.CDLL(str(output))
    library.start.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_bool]
    library.compute.argtypes = [ctypes.c_long]
    library.compute_layers.argtypes = [ctypes.c_long, ctypes.c_long]
    library.start.restype = library.compute.restype = library.compute_layers.restype = None
    return library
