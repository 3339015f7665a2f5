"""Counts what a launch executes: instructions per warp, sectors of global memory, wavefronts of shared memory."""
from __future__ import annotations

import collections
import dataclasses
import re
import typing

import numpy as np

from .memory import WRITE
from .parse import ENDS, Instruction, Kernel

if typing.TYPE_CHECKING:
    from .machine import Launch

SECTOR = 32   # bytes that global memory moves at a time
BANKS, WORD = 32, 4
REGISTER = re.compile(r"%\w+")
PASSED_ON = ("mov", "cvt")   # the compiler moves them behind other loads, to where their result is used


class Counter:
    """Sums over the launches.

    ``executed``: instruction's name -> warps that have executed it. ``sectors``: "read" and "written". ``wavefronts``:
    passes through shared memory; a conflict-free access of 4 bytes per lane takes one. ``waits``: how often warps have
    waited for global memory; loads that do not need one another's values are waited for together. ``of_warps``:
    instructions and waits of each warp of the last launch.
    """

    def __init__(self):
        self.executed = collections.Counter()
        self.sectors, self.wavefronts, self.waits = {"read": 0, "written": 0}, 0, 0
        self.of_warps = np.zeros((2, 1), np.int64)
        self._launch, self._touched = None, {"read": [], "written": []}

    def enter(self, launch: Launch, threads: np.ndarray) -> None:
        """A basic block is entered by these threads."""
        if launch is not self._launch:
            self._launch, self._pending = launch, {}
            self.of_warps = np.zeros((2, int(launch.warp[-1]) + 1), np.int64)
        self._running = _distinct(launch.warp[threads])
        self._wait(loads_of(launch.kernel, int(launch.pc[threads[0]])), self._running)

    def _wait(self, loads: Loads, warps: np.ndarray) -> None:
        """These warps run a basic block: which of them wait for loads before it and in it."""
        waiting = np.full(len(warps), loads.depth)
        for name in loads.needed & self._pending.keys():
            waiting = np.maximum(waiting, self._pending[name][warps])
        arrived = warps[waiting > 0]
        if len(arrived):
            self.waits += int(waiting.sum())
            self.of_warps[1, warps] += waiting
            for flags in self._pending.values():
                flags[arrived] = False
        for target, sources in loads.passed_on.items():
            for source in sources & self._pending.keys():
                self._flags(target)[warps] |= self._pending[source][warps]
        for name in loads.left:
            self._flags(name)[warps] = True

    def _flags(self, name: str) -> np.ndarray:
        """Whether a warp has not waited yet for a register that was loaded."""
        return self._pending.setdefault(name, np.zeros(int(self._launch.warp[-1]) + 1, bool))

    def instruction(self, kernel: Kernel, position: int) -> None:
        """One of its instructions is executed."""
        self.executed[".".join(kernel.instructions[position].parts)] += len(self._running)
        self.of_warps[0, self._running] += 1

    def access(self, launch: Launch, space: str, addresses: np.ndarray, size: int, threads: np.ndarray,
               permission: int) -> None:
        """Each thread accesses ``size`` bytes."""
        warps = launch.warp[threads].astype(np.int64)
        if space == "global":
            kind = "written" if permission == WRITE else "read"
            self.sectors[kind] += _sectors(addresses, size, warps)
            self._touched[kind].append(np.unique(launch.block_of[threads].astype(np.int64) << 40 | addresses // SECTOR))
        elif space == "shared":
            self.wavefronts += _wavefronts(addresses, size, warps, launch.lane[threads])

    def touched(self, kind: str) -> np.ndarray:
        """The sectors that are "read" or "written", in order, once for each block that does so."""
        found = np.unique(np.concatenate(self._touched[kind] or [np.zeros(0, np.int64)]))
        return np.sort(found & ((1 << 40) - 1))


@dataclasses.dataclass(frozen=True)
class Loads:
    """What a basic block does with loads of global memory.

    ``depth``: the longest chain of loads in it whose values it uses. ``needed``: the registers from before it that it
    uses. ``passed_on``: register -> those from before it that are only moved to it. ``left``: the registers that are
    loaded and not used yet.
    """
    depth: int
    needed: frozenset
    passed_on: dict
    left: frozenset


def loads_of(kernel: Kernel, start: int) -> Loads:
    """The Loads of the basic block that starts there."""
    if not hasattr(kernel, "loads"):
        kernel.loads = {}
    if start not in kernel.loads:
        kernel.loads[start] = _loads(kernel, start)
    return kernel.loads[start]


def _loads(kernel: Kernel, start: int) -> Loads:
    needed, depth = set(), 0
    level, before = {}, {}   # a register's loads in its chain, and the registers moved to it
    for instruction in _basic_block(kernel, start):
        written, read = _registers(instruction)
        chain = max((level.get(name, 0) for name in read), default=0)
        origin = set().union(*(before.get(name, {name}) for name in read))
        is_load, is_passed_on = _is_load(instruction), instruction.root in PASSED_ON
        if not is_passed_on:
            needed |= origin
            origin = set()
            depth = max(depth, chain)
        for name in written:
            before[name] = origin
            level[name] = chain + 1 if is_load else chain if is_passed_on else 0
    return Loads(
        depth=depth,
        needed=frozenset(needed),
        passed_on={name: frozenset(origin) for name, origin in before.items() if origin},
        left=frozenset(name for name, chain in level.items() if chain > depth))


def _is_load(instruction: Instruction) -> bool:
    """Whether its result comes from global memory."""
    return instruction.root in ("ld", "ldu", "atom") and not {"param", "shared", "local"} & set(instruction.parts)


def _basic_block(kernel: Kernel, start: int) -> typing.Iterator[Instruction]:
    for position in range(start, len(kernel.instructions)):
        if position > start and position in kernel.leaders:
            return
        yield kernel.instructions[position]
        if kernel.instructions[position].root in ENDS:
            return


def _registers(instruction: Instruction) -> tuple[list, list]:
    """The registers that an instruction writes, and those that it reads."""
    targets = 0 if instruction.root in ("st", "red", "bra", "bar", "barrier", "ret", "exit") else 1
    written = REGISTER.findall(" ".join(instruction.operands[:targets]))
    read = REGISTER.findall(" ".join(instruction.operands[targets:]))
    return written, [*read, instruction.guard] if instruction.guard else read


def _distinct(warps: np.ndarray) -> np.ndarray:
    """The warps of threads in ascending order."""
    return warps[np.flatnonzero(np.diff(warps, prepend=-1))]


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
