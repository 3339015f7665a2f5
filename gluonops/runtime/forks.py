"""Fork a process that uses MXNet: finish MXNet's work first.

``os.fork``, ``multiprocessing`` with its usual method, a ``DataLoader`` with workers and, before Python 3.10,
``subprocess`` fork. MXNet stops its threads for that while the thread that forks holds Python's lock, and this has
three faults. MXNet waits for ever for a ``CustomOp`` that is still computing, and for one that it is just removing,
because both need Python's lock. It loses a ``CustomOp`` that has not begun, and then waits for it. And if an operator
has failed whose result nobody has read yet, its error leaves MXNet where nothing can catch it, and the process is
aborted. Each fault needs work that is not finished, so this work is finished before MXNet is asked to stop.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
import time
import types
from collections.abc import Callable

STEP = 0.001     # seconds between two looks, in which MXNet's threads may have Python's lock
IDLE_LOOKS = 3   # so many looks in a row must find them asleep
MOST_LOOKS = 100   # a thread that never sleeps, such as a user's own, does not hold the fork up for longer


def install() -> None:
    """Finish MXNet's work before each fork of this process, whether Python or a library forks."""
    os.register_at_fork(before=finish_work)   # before Python takes the lock of its imports, which a CustomOp may need
    _call_before_fork(finish_work)


def finish_work() -> None:
    """Wait for every operator that MXNet was asked for, and let other threads of Python run meanwhile.

    Raises
    ------
    RuntimeError
        An operator has failed, and nobody has read its result. Python prints what is raised before a fork, and forks.
    """
    import mxnet as mx  # not above: it is this package that imports MXNet
    try:
        mx.nd.waitall()
    except Exception as error:   # MXNet's own, or the one that a CustomOp has raised
        raise RuntimeError("gluonops: an operator had failed before this process forked, and nobody had read its "
                           "result, which is not valid. Call mx.nd.waitall() before the fork, to get the error where "
                           f"it can be caught. It says: {error}") from error
    finally:
        held_by_mxnet = list(mx.operator._registry.ref_holder.values())   # functions that make CustomOps, and CustomOps
        if any(not isinstance(held, types.FunctionType) for held in held_by_mxnet):
            _wait_for_removal()


def _wait_for_removal() -> None:
    """Wait until MXNet's threads sleep. After its last operator a thread may still remove a CustomOp, in Python."""
    idle = 0
    for _ in range(MOST_LOOKS):
        time.sleep(STEP)
        idle = 0 if _another_thread_runs() else idle + 1
        if idle == IDLE_LOOKS:
            return


def _another_thread_runs() -> bool:
    """Return whether a thread of this process but the caller's has, or waits for, a processor.

    On systems other than Linux the answer is always False.
    """
    for folder in pathlib.Path("/proc/self/task").glob("*"):
        try:
            state = (folder / "stat").read_text("utf-8", "replace").rpartition(") ")[2][:1]
        except OSError:   # it has ended
            continue
        if state == "R" and folder.name != str(threading.get_native_id()):
            return True
    return False


def _call_before_fork(function: Callable[[], None]) -> None:
    """Have the C library call a function before it forks, and before it calls MXNet, which was registered earlier."""
    library = ctypes.CDLL(None)
    register = getattr(library, "pthread_atfork", None) or getattr(library, "__register_atfork", None)
    if register is None:
        return
    called = ctypes.CFUNCTYPE(None)(function)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(called))   # the C library keeps its address until the process ends
    register(called, None, None, None)
