"""Processes that keep every core busy."""
from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def busy(per_core: int) -> Iterator[list[subprocess.Popen]]:
    """So many processes for every core that this one may use, which only compute."""
    count = per_core * len(os.sched_getaffinity(0))
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
