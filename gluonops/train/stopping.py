"""Ctrl-C and SIGTERM in a run: it saves after the batch or the validation, on all workers alike, and stops."""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

import mxnet as mx

from .devices import Workers
from .interrupting import how_to_resume
from .progress import say

__all__ = ["Stopping"]

KEY = (1 << 30) - 1   # The kvstore of dist_sync has it; a trainer counts its keys from 0.


class Stopping:
    """Whether a run stops.

    - ``agreed``: whether all workers stop now.
    - ``after``: what is finished before, for the user.
    """

    def __init__(self, workers: Workers):
        self.agreed, self.after = False, "this batch"
        self._workers, self._requested, self._answers = workers, False, collections.deque()
        if workers.in_step:
            self._flag = mx.nd.zeros(1)
            workers.kvstore.init(KEY, self._flag)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests to stop."""
        previous = {number: signal.signal(number, self._request) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _request(self, number, frame):
        if self._requested:
            raise KeyboardInterrupt
        self._requested = True
        if self._workers.rank == 0:   # os.write, because a handler may interrupt a print, which cannot be entered twice
            text = f"\nThe run saves after {self.after}. Another Ctrl-C ends it at once, without saving.\n"
            os.write(2, text.encode())

    def agree(self, lag: int) -> None:
        """All workers of dist_sync stop after the same batch: one that went on alone would wait for ever.

        Each worker tells the others whether a stop was requested. The answers of ``lag`` calls ago count now. All calls
        send the same array, so that MXNet's engine sends one after the answer to the one before: the server counts
        messages, and takes two of one worker for those of two workers.
        """
        if not self._workers.in_step:
            self.agreed = self._requested
            return
        self._flag[:] = float(self._requested)
        self._workers.kvstore.pushpull(KEY, self._flag, out=self._flag)
        self._answers.append(self._flag.copy())
        while len(self._answers) > lag:
            self.agreed |= bool(self._answers.popleft().asscalar())

    def leave(self, saved: pathlib.Path) -> None:
        """End the process if all workers stop now."""
        if self.agreed:
            if self._workers.rank == 0:
                say(f"{saved} is saved. {how_to_resume()}")
            sys.exit(130)
