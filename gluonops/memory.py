"""How much memory of freed tensors the process keeps for the next ones."""
from __future__ import annotations

import math
import os
import pathlib

from . import cgroups
from .core import native
from .core.errors import OpError

__all__ = ["tune_memory", "usable_memory"]

SWITCH = "GLUONOPS_TUNE_MEMORY"
SHARE = 8   # one part in so many of the usable memory is kept at most

_state = {"bound": None}


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
        process may use: see :func:`usable_memory`.

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
        keep = usable_memory() // SHARE
    elif isinstance(keep, bool) or not isinstance(keep, int) or not 0 <= keep < 2**63:
        raise OpError("gluonops.tune_memory", f"keep is {keep!r}; expected an integer from 0 to 2**63 - 1",
                      "Pass a number of bytes, or nothing")
    _state["bound"] = keep if native.keep_blocks(keep) else None
    return _state["bound"]


def tune_at_import() -> None:
    """Call :func:`tune_memory`, unless the environment says ``GLUONOPS_TUNE_MEMORY=0``."""
    if os.environ.get(SWITCH) != "0":
        tune_memory()


def examine() -> dict:
    """What :func:`gluonops.doctor` reports, in bytes: ``usable``, ``bound`` and what is ``kept`` now."""
    return {"usable": usable_memory(), "bound": _state["bound"], "kept": native.kept_bytes()}


def usable_memory(root: str | os.PathLike = "/") -> int:
    """Bytes of memory that this process may use: the machine's, or the limit of its cgroup (version 1 or 2).

    Parameters
    ----------
    root : path, optional
        Folder that holds ``proc`` and ``sys``.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min(machine, cgroups.lowest(pathlib.Path(root), "memory", _limit_of_version_1, _limit_of_version_2)))


def _limit_of_version_1(group: pathlib.Path) -> float:
    return float(cgroups.text(group / "memory.limit_in_bytes") or math.inf)


def _limit_of_version_2(group: pathlib.Path) -> float:
    limit = cgroups.text(group / "memory.max") or "max"
    return math.inf if limit == "max" else float(limit)
