"""How much memory this process may use, and how much of it is free."""
from __future__ import annotations

import math
import os
import pathlib

from . import cgroups


def usable_memory(root: str | os.PathLike = "/") -> int:
    """Return how many bytes this process may use: the machine's, or the limit of its cgroup (version 1 or 2).

    ``root`` is the folder that holds ``proc`` and ``sys``.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    readers = _limit("memory.limit_in_bytes"), _limit("memory.max")
    return int(min(machine, cgroups.lowest(pathlib.Path(root), "memory", *readers)))


def available_memory(root: str | os.PathLike = "/") -> int:
    """Return how many bytes this process may use and no other process has, as far as the system says so."""
    lines = (cgroups.text(pathlib.Path(root, "proc/meminfo")) or "").splitlines()
    free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min([usable_memory(root), *free])


def _limit(file: str) -> cgroups.Read:
    """Return what reads a limit from a file of a group. ``max`` is no number, and so no limit."""
    return lambda group: float(cgroups.text(group / file) or math.inf)
