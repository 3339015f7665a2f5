"""Tune glibc's malloc to keep the memory of large tensors instead of returning it to the system after each use."""
from __future__ import annotations

import ctypes
import os

__all__ = ["tune_if_asked", "tune_malloc"]

# From glibc's malloc.h. mallopt takes an int, so this is the largest threshold there is.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
_LARGEST = 2**31 - 1


def tune_malloc() -> bool:
    """Let the process keep the memory of large tensors; call it right after ``import gluonops``.

    MXNet frees every CPU block at once, and glibc returns large blocks to the system. So each operator waits while the
    pages of its output are mapped and zeroed again. This function raises glibc's mmap and trim thresholds
    (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD) to 2 GiB; larger blocks behave as before. All threads share one arena
    (M_ARENA_MAX), because MXNet allocates in its engine's threads, and the arena of a thread ignores the thresholds.
    The settings affect the whole process, other libraries included, until it ends.

    It is off by default because of its costs. The process keeps its peak memory and, because of fragmentation,
    several times the largest tensor more (``ctypes.CDLL(None).malloc_trim(0)`` returns free memory). Threads that
    allocate at the same time may wait for one another. What it gains: the identity of a 44 MB float32 tensor, on two
    shared cores with glibc 2.36, takes 2.3 ms instead of 16 ms from about the tenth call on, when the heap no longer
    grows; that of a 1 GB tensor takes 77 ms instead of 900 ms or more. ``python -m benchmarks.operators --both``
    measures it on your machine.

    Call it before the first tensor is computed: a thread that has already allocated keeps its own arena. The
    environment variable ``GLUONOPS_TUNE_MALLOC=1`` makes ``import gluonops`` call it.

    Returns
    -------
    bool
        Whether the allocator accepted the settings. False, without effect, if the C library is not glibc.

    Examples
    --------
    >>> import gluonops as gops
    >>> gops.tune_malloc()  # doctest: +SKIP
    True
    """
    if not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # Older glibc takes no mmap threshold above 32 MiB, but it can be told not to use mmap at all.
    keeps = mallopt(_MMAP_THRESHOLD, _LARGEST) or mallopt(_MMAP_MAX, 0)
    return bool(keeps and mallopt(_TRIM_THRESHOLD, _LARGEST) and mallopt(_ARENA_MAX, 1))


def tune_if_asked() -> bool:
    """:func:`tune_malloc` if the environment says ``GLUONOPS_TUNE_MALLOC=1``; False otherwise."""
    return os.environ.get("GLUONOPS_TUNE_MALLOC") == "1" and tune_malloc()


def _is_glibc() -> bool:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):   # Windows; another C library
        return False
