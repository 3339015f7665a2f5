"""What a user may set: the threads of the native operators, and the memory of freed tensors that is kept."""
from __future__ import annotations

import os

from ..contract.errors import OpError
from ..runtime import memory, threads
from . import native

TUNE_MEMORY = "GLUONOPS_TUNE_MEMORY"
SHARE = 8   # at most this part, 1 / SHARE, of the usable memory is kept

_kept = {"bound": None}


def tune_at_import() -> None:
    """Set both as ``import gluonops`` does, after the native library is loaded."""
    tune_threads()
    if os.environ.get(TUNE_MEMORY) != "0":
        tune_memory()


def tune_threads(count: int | None = None) -> int | None:
    """Set how many threads the native operators use, and MXNet's own where it is not loaded yet.

    ``import gluonops`` calls it, before MXNet is imported, with the number of physical cores that the process may use.
    Its affinity mask and the CPU quota of its control group are limits. MXNet's own rule is half of the processors it
    sees, which halves its speed on a machine without hyper-threading, and which oversubscribes a container that may use
    one core of 64.

    The environment has precedence. Where ``OMP_NUM_THREADS`` or ``MXNET_OMP_MAX_THREADS`` is set, the numbers stay as
    they are; where ``GOMP_SPINCOUNT`` or ``OMP_WAIT_POLICY`` is set, so does the waiting. ``GLUONOPS_TUNE_THREADS=0``
    switches all of it off.

    Parameters
    ----------
    count : int, optional
        The number of threads, 1 or more. By default what ``import gluonops`` chose.

    Returns
    -------
    int or None
        The number of threads that the native operators use; None if the native library is not loaded.

    Raises
    ------
    OpError
        ``count`` is not an integer from 1 to 4096.

    Notes
    -----
    MXNet reads its number of threads once, when it is imported. A later call sets the native operators' number, and
    that of MXNet's operators which run in the calling thread only. To set both, write before the import:
    ``os.environ["OMP_NUM_THREADS"] = "4"``.

    Examples
    --------
    >>> import gluonops as gops
    >>> gops.tune_threads(1)  # doctest: +SKIP
    1
    """
    if count is None:
        count = threads.examine()["chosen"]
    elif isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 4096:
        raise OpError("tune_threads", f"count is {count!r}; expected an integer from 1 to 4096",
                      "Pass the number of cores to use, or leave count out")
    if count is not None:
        native.set_threads(count)
    return native.threads()


def tune_memory(keep: int | None = None) -> int | None:
    """Set how many bytes of freed tensors the process keeps for the next tensors.

    ``import gluonops`` calls it. ``GLUONOPS_TUNE_MEMORY=0`` in the environment switches that off.

    MXNet frees the memory of a tensor on the CPU as soon as the tensor is gone, and glibc gives large blocks back to
    the system. The next operator then waits while the system maps and zeroes its pages. That can take ten times as
    long as a copy of the tensor. So gluonops keeps the freed blocks of 64 KiB and more, and gives them to the next
    tensors of about the same size. It does that for MXNet's tensors only; the rest of the process is left alone.

    Parameters
    ----------
    keep : int, optional
        The most bytes that are kept, 0 or more. What exceeds it is given back at once, and the block that was freed
        first goes first. 0 gives back everything, and keeps nothing. The default is an eighth of the memory that the
        process may use: the machine's, or the limit of its control group.

    Returns
    -------
    int or None
        The bound in bytes. None if nothing can be kept here: the native library is not loaded, or this MXNet was linked
        in another way than its wheels.

    Raises
    ------
    OpError
        ``keep`` is not an integer from 0 to 2**63 - 1.

    Examples
    --------
    >>> import gluonops as gops
    >>> gops.tune_memory(512 * 2**20)  # doctest: +SKIP
    536870912
    """
    if keep is None:
        keep = memory.usable_memory() // SHARE
    elif isinstance(keep, bool) or not isinstance(keep, int) or not 0 <= keep < 2**63:
        raise OpError("tune_memory", f"keep is {keep!r}; expected an integer from 0 to 2**63 - 1",
                      "Pass a number of bytes, or leave keep out")
    _kept["bound"] = keep if native.keep_blocks(keep) else None
    return _kept["bound"]


def examine() -> dict:
    """Return what :func:`gluonops.doctor` reports of both.

    ``threads`` is what :func:`gluonops.runtime.threads.examine` returns, and how many threads the ``native`` operators
    use. ``memory`` has, in bytes, what is ``usable``, the ``bound`` of what is kept, and what is ``kept`` now.
    """
    return {"threads": {**threads.examine(), "native": native.threads()},
            "memory": {"usable": memory.usable_memory(), "bound": _kept["bound"], "kept": native.kept_bytes()}}
