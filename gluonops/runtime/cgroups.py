"""The limits that Linux's control groups set to this process. A container is such a group."""
from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Callable, Iterator

Read = Callable[[pathlib.Path], float]


def lowest(root: pathlib.Path, controller: str, version_1: Read, version_2: Read) -> float:
    """Return the lowest limit of the process's groups and of those above them, or infinity without a limit.

    ``root`` is the folder that holds ``proc`` and ``sys``. ``controller`` is what is limited, as version 1 names it:
    ``cpu``, ``memory``. ``version_1`` and ``version_2`` each read the limit of a group from the group's folder.
    """
    limits = [math.inf]
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, _, group = line.partition(":")
        controllers, _, path = group.partition(":")
        if not controllers:
            limits += _limits(root / "sys/fs/cgroup", path, version_2)
        elif controller in controllers.split(","):
            for mount in {controller, controllers}:   # "cpu" may be mounted as "cpu,cpuacct"
                limits += _limits(root / "sys/fs/cgroup" / mount, path, version_1)
    return min(limits)


def _limits(mount: pathlib.Path, path: str, read: Read) -> Iterator[float]:
    """Yield the limits of a group and of all above it. In a container the path may be one that only the host has."""
    folder = mount / path.lstrip("/")
    for group in (folder, *folder.parents):
        if group == mount or mount in group.parents:
            # In an emulated system the group's files hold no such number.
            with contextlib.suppress(ValueError, ArithmeticError):
                limit = read(group)
                yield limit if limit >= 0 else math.inf


def text(path: pathlib.Path) -> str | None:
    """Return the text of a file of the kernel, without blanks at its ends, or None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
