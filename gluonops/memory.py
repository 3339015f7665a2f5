"""glibc's malloc, told to keep the memory of large tensors instead of handing it back after every use."""
import ctypes
import os

__all__ = ["tune_if_asked", "tune_malloc"]

# From glibc's malloc.h. mallopt takes an int, so this is the largest threshold there is.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
_LARGEST = 2**31 - 1


def tune_malloc():
    """Let the process keep the memory of large tensors; call it right after ``import gluonops``.

    MXNet frees every CPU block at once, and glibc gives a large one back to the system, so that every operator pays
    for having its output's pages mapped and zeroed again. This raises glibc's mmap and trim thresholds
    (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD) to 2 GiB, above which it stays as it was, and has all threads share one arena
    (M_ARENA_MAX): MXNet allocates in its engine's threads, and the arena of a thread returns what it frees whatever
    the thresholds say. The whole process is affected, other libraries too, until it ends.

    It is off by default because of what it costs: the process holds on to the most memory it ever had in use and,
    by fragmentation, several times the largest tensor more (``ctypes.CDLL(None).malloc_trim(0)`` returns what is
    free); and threads that allocate at the same time may wait for one another. What it gains: identity of a 44 MB
    float32 tensor, on two shared cores with glibc 2.36, took 2.3 ms in place of 16 ms, from about the tenth call on,
    when the heap has found its size; of 1 GB, 77 ms in place of 900 ms and more.
    ``python -m benchmarks.operators --both`` measures it on your machine.

    Call it before the first tensor is computed: a thread that has allocated by then keeps the arena it has. The
    environment variable ``GLUONOPS_TUNE_MALLOC=1`` has ``import gluonops`` call it.

    Returns
    -------
    bool
        Whether the allocator took the settings. False, and no effect, where the C library is not glibc.

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


def tune_if_asked():
    """:func:`tune_malloc` if the environment says ``GLUONOPS_TUNE_MALLOC=1``; False otherwise."""
    return os.environ.get("GLUONOPS_TUNE_MALLOC") == "1" and tune_malloc()


def _is_glibc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):   # Windows; another C library
        return False
