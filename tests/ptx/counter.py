"""Counts what a launch executes: instructions per warp, sectors of global memory, wavefronts of shared memory."""
from __future__ import annotations

import collections
import typing

import numpy as np

from .memory import WRITE
from .parse import Instruction, Kernel

if typing.TYPE_CHECKING:
    from .machine import Launch

SECTOR = 32   # bytes that global memory moves at a time
BANKS, WORD = 32, 4


class Counter:
    """Sums over all launches since the last :meth:`reset`.

    ``executed``: instruction's name -> warps that have executed it. ``lanes``: threads that have, of all instructions.
    ``sectors``: "read" and "written". ``wavefronts``: passes through shared memory; a conflict-free access of 4 bytes
    per lane takes one.
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        self.executed, self.texts = collections.Counter(), {}
        self.lanes, self.warps = 0, 0
        self.sectors, self.wavefronts = {"read": 0, "written": 0}, 0

    def enter(self, launch: Launch, threads: np.ndarray) -> None:
        """A basic block is entered by these threads."""
        self._warps = _distinct(launch.warp[threads])
        self._lanes = len(threads)

    def instruction(self, kernel: Kernel, position: int) -> None:
        """One of its instructions is executed."""
        instruction = kernel.instructions[position]
        name = ".".join(instruction.parts)
        self.executed[name] += self._warps
        self.texts.setdefault(name, instruction)
        self.warps += self._warps
        self.lanes += self._lanes

    def access(self, launch: Launch, space: str, addresses: np.ndarray, size: int, threads: np.ndarray,
               permission: int) -> None:
        """Each thread accesses ``size`` bytes."""
        warps = launch.warp[threads].astype(np.int64)
        if space == "global":
            kind = "written" if permission == WRITE else "read"
            self.sectors[kind] += _sectors(addresses, size, warps)
        elif space == "shared":
            self.wavefronts += _wavefronts(addresses, size, warps, launch.lane[threads])

    @property
    def divergence(self) -> float:
        """The share of lanes that were idle in the warps' instructions."""
        return 1 - self.lanes / (32 * self.warps) if self.warps else 0.0

    def named(self) -> dict[str, tuple[Instruction, int]]:
        """Name -> an instruction of that name, and how many warps have executed it."""
        return {name: (self.texts[name], count) for name, count in self.executed.items()}


def _distinct(warps: np.ndarray) -> int:
    """How many warps there are among those of threads in ascending order."""
    return 1 + int(np.count_nonzero(np.diff(warps)))


def _sectors(addresses: np.ndarray, size: int, warps: np.ndarray) -> int:
    """The sectors that the warps touch."""
    first, last = addresses // SECTOR, (addresses + size - 1) // SECTOR
    touched = [warps << 40 | first]
    if (last > first).any():
        touched.append(warps << 40 | last)
    return len(np.unique(np.concatenate(touched)))


def _wavefronts(addresses: np.ndarray, size: int, warps: np.ndarray, lanes: np.ndarray) -> int:
    """The most different words in a bank, summed over the groups of lanes that are served together."""
    together = 32 if size <= 4 else 128 // size   # 8 bytes: half a warp at a time; 16 bytes: a quarter
    groups = warps * 8 + lanes // together
    words = [addresses // WORD + i for i in range(max(1, size // WORD))]
    keys = np.unique(np.concatenate([groups << 24 | word for word in words]))
    banks, counts = np.unique(keys >> 24 << 5 | keys % BANKS, return_counts=True)
    most = np.zeros(int(groups.max()) + 1, np.int64)
    np.maximum.at(most, banks >> 5, counts)
    return int(most.sum())
