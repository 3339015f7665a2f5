"""How many threads MXNet uses, and how they wait for each other: chosen before MXNet is imported."""
from __future__ import annotations

import contextlib
import math
import os
import pathlib
import sys
from collections.abc import Iterator

from . import cgroups

SWITCH = "GLUONOPS_TUNE_THREADS"
# MXNet takes each of them as the user's decision about the number of threads.
COUNTS = ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS")
# libgomp takes each of them as the user's decision about waiting.
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
# The turns of a loop for which a thread of OpenMP spins before it sleeps. OpenMP's default is so many that, on a busy
# machine, a waiting thread uses up the time of the thread for which it waits. With 1000, calls of 0.05 ms would wait
# for a thread that sleeps.
SPIN_COUNT = 10000
LIBGOMP = "libgomp.so.1"

# What was decided when MXNet was imported, and why: see examine().
_decision = {"chosen": None, "reason": "gluonops is not imported", "problems": []}


@contextlib.contextmanager
def chosen_environment() -> Iterator[None]:
    """Set the environment in which MXNet is imported. What the user has not set is chosen, and removed afterwards.

    It is removed so that child processes, and libraries that are imported later, decide for themselves.
    """
    added = _choose()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def examine() -> dict:
    """Return how many threads there are and why, as :func:`gluonops.doctor` reports it.

    ``cores`` is the number of physical cores that this process may use. ``chosen`` is the number of threads that MXNet
    and the native operators were given, or None, and ``reason`` says why. ``problems`` has sentences on what could not
    be set.
    """
    return {"cores": usable_cores(), **_decision}


def _choose() -> dict[str, str]:
    """Decide, note the decision for :func:`examine`, and return the variables to add, as a dict."""
    _decision.update(chosen=None, problems=[])
    if os.environ.get(SWITCH) == "0":
        _decision["reason"] = f"{SWITCH}=0"
        return {}
    if "mxnet" in sys.modules:
        _decision["reason"] = "MXNet was imported before gluonops"
        _decision["problems"] = ["MXNet was imported before gluonops and uses half of the processors. Import gluonops "
                                 "first, or set OMP_NUM_THREADS in the environment"]
        return {}
    return {**_choose_count(), **_choose_waiting()}


def _choose_count() -> dict[str, str]:
    set_by_user = [f"{name}={os.environ[name]}" for name in COUNTS if os.environ.get(name)]
    if set_by_user:
        _decision["reason"] = " and ".join(set_by_user)
        return {}
    _decision["chosen"] = usable_cores()
    _decision["reason"] = "the physical cores that this process may use"
    # A libgomp that is loaded has read OMP_NUM_THREADS already. MXNet then takes the other variable for its threads.
    name = "MXNET_OMP_MAX_THREADS" if libgomp_loaded() else "OMP_NUM_THREADS"
    return {name: str(_decision["chosen"])}


def _choose_waiting() -> dict[str, str]:
    if any(os.environ.get(name) for name in WAITING):
        return {}
    if libgomp_loaded():
        _decision["problems"] = [f"{LIBGOMP} was loaded before gluonops, by another package: MXNet's threads wait as "
                                 "OpenMP's do by default, which is slow on a busy machine. Import gluonops first, or "
                                 f"set GOMP_SPINCOUNT={SPIN_COUNT} in the environment"]
        return {}
    return {"GOMP_SPINCOUNT": str(SPIN_COUNT)}


def libgomp_loaded() -> bool:
    """Return whether the system's libgomp, which MXNet uses, is loaded. Then it no longer reads the environment."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any(line.rstrip().endswith(f"/{LIBGOMP}") or f"/{LIBGOMP}." in line for line in maps)
    except OSError:
        return False


def usable_cores(root: str | os.PathLike = "/") -> int:
    """Return the number of physical cores that this process may use, which is at least 1.

    Two hyper-threads of a core count once. The process's affinity mask and the CPU quota of its cgroup (version 1 or
    2, and those above it) are limits. A quota of 2.5 processors is 2 cores, because more threads than that would be
    stopped in the middle of their work.

    ``root`` is the folder that holds ``proc`` and ``sys``.
    """
    root = pathlib.Path(root)
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = {_core(root, processor) for processor in processors}
    quota = cgroups.lowest(root, "cpu", _quota_of_version_1, _quota_of_version_2)
    return max(1, math.floor(min(len(cores), quota)))


def _core(root: pathlib.Path, processor: int) -> str:
    """Return what the processors of a core have in common, or the processor's number if the system does not say."""
    siblings = root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
    return cgroups.text(siblings) or str(processor)


def _quota_of_version_2(group: pathlib.Path) -> float:
    quota, period = ((cgroups.text(group / "cpu.max") or "max 100000").split() + ["100000"])[:2]
    return math.inf if quota == "max" else int(quota) / int(period)


def _quota_of_version_1(group: pathlib.Path) -> float:
    quota = int(cgroups.text(group / "cpu.cfs_quota_us") or -1)
    period = int(cgroups.text(group / "cpu.cfs_period_us") or 100000)
    return quota / period if quota > 0 else math.inf
