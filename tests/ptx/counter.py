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
    """Sums over all launches since the last :meth:`reset`.

    ``executed``: instruction's name -> warps that have executed it. ``lanes``: threads that have, of all instructions.
    ``sectors``: "read" and "written". ``wavefronts``: passes through shared memory; a conflict-free access of 4 bytes
    per lane takes one. Loads that do not need one another's values are waited for together. ``of_warps``: instructions
    and waits of each warp of the last launch.
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        self.executed, self.texts = collections.Counter(), {}
        self.lanes, self.warps = 0, 0
        self.sectors, self.wavefronts = {"read": 0, "written": 0}, 0
        self._launch, self._position, self._touched = None, 0, {"read": [], "written": []}
        self.of_warps = np.zeros((2, 1), np.int64)
        self._waits, self._addresses = collections.Counter(), {}   # loads -> waits for them; load -> an address

    def enter(self, launch: Launch, threads: np.ndarray) -> None:
        """A basic block is entered by these threads."""
        if launch is not self._launch:
            self._launch, self._pending, self._loaded_by = launch, {}, {}
            self.of_warps = np.zeros((2, int(launch.warp[-1]) + 1), np.int64)
        warps = _distinct(launch.warp[threads])
        self._running, self._warps = warps, len(warps)
        self._lanes = len(threads)
        self._wait(loads_of(launch.kernel, int(launch.pc[threads[0]])), warps)

    def _wait(self, loads: Loads, warps: np.ndarray) -> None:
        """These warps run a basic block: which of them wait for loads before it and in it."""
        waiting, awaited = np.full(len(warps), loads.depth), set(loads.used)
        for name in loads.needed & self._pending.keys():
            flags = self._pending[name][warps]
            if flags.any():
                waiting = np.maximum(waiting, flags)
                awaited |= self._loaded_by[name]
        arrived = warps[waiting > 0]
        if len(arrived):
            self._waits[frozenset(awaited)] += int(waiting.sum())
            self.of_warps[1, warps] += waiting
            for flags in self._pending.values():
                flags[arrived] = False
        for target, sources in loads.passed_on.items():
            for source in sources & self._pending.keys():
                self._flags(target, self._loaded_by[source])[warps] |= self._pending[source][warps]
        for name, position in loads.left.items():
            self._flags(name, {position})[warps] = True

    def _flags(self, name: str, loaded_by: set) -> np.ndarray:
        """Of each warp, whether it has not waited for a register yet, which these instructions load."""
        self._loaded_by.setdefault(name, set()).update(loaded_by)
        return self._pending.setdefault(name, np.zeros(int(self._launch.warp[-1]) + 1, bool))

    def waits(self, is_far: typing.Callable[[int], bool]) -> tuple[int, int]:
        """How often warps have waited for global memory: for an address that is far, and for others only."""
        found = [0, 0]
        for awaited, count in self._waits.items():
            is_near = not any(is_far(self._addresses[position]) for position in awaited if position in self._addresses)
            found[is_near] += count
        return found[0], found[1]

    def instruction(self, kernel: Kernel, position: int) -> None:
        """One of its instructions is executed."""
        instruction = kernel.instructions[position]
        name = ".".join(instruction.parts)
        self._position = position
        self.executed[name] += self._warps
        self.of_warps[0, self._running] += 1
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
            self._addresses.setdefault(self._position, int(addresses[0]))
            self._touched[kind].append(np.unique(launch.block_of[threads].astype(np.int64) << 40 | addresses // SECTOR))
        elif space == "shared":
            self.wavefronts += _wavefronts(addresses, size, warps, launch.lane[threads])

    @property
    def divergence(self) -> float:
        """The share of lanes that were idle in the warps' instructions."""
        return 1 - self.lanes / (32 * self.warps) if self.warps else 0.0

    def touched(self, kind: str) -> np.ndarray:
        """The sectors that are "read" or "written", in order, once for each block that does so."""
        found = np.unique(np.concatenate(self._touched[kind] or [np.zeros(0, np.int64)]))
        return np.sort(found & ((1 << 40) - 1))

    def named(self) -> dict[str, tuple[Instruction, int]]:
        """Name -> an instruction of that name, and how many warps have executed it."""
        return {name: (self.texts[name], count) for name, count in self.executed.items()}


@dataclasses.dataclass(frozen=True)
class Loads:
    """What a basic block does with loads of global memory.

    ``depth``: the longest chain of loads in it whose values it uses. ``used``: the positions of these loads.
    ``needed``: the registers from before it that it uses. ``passed_on``: register -> those from before it that are only
    moved to it. ``left``: register that is loaded and not used yet -> the position of its load.
    """
    depth: int
    used: frozenset
    needed: frozenset
    passed_on: dict
    left: dict


def loads_of(kernel: Kernel, start: int) -> Loads:
    """The Loads of the basic block that starts there."""
    if not hasattr(kernel, "loads"):
        kernel.loads = {}
    if start not in kernel.loads:
        kernel.loads[start] = _loads(kernel, start)
    return kernel.loads[start]


def _loads(kernel: Kernel, start: int) -> Loads:
    needed, used = set(), {}   # used: load -> its place in a chain of loads
    level, load, before = {}, {}, {}   # of each register: loads in its chain, the last one, registers moved to it
    for position, instruction in _basic_block(kernel, start):
        written, read = _registers(instruction)
        last = max(read, key=lambda name: level.get(name, 0), default=None)
        chain = level.get(last, 0)
        origin = set().union(*(before.get(name, {name}) for name in read))
        is_load = _is_load(instruction)
        if instruction.root not in PASSED_ON:
            needed |= origin
            origin = set()
            if chain:
                used[load[last]] = chain
        for name in written:
            before[name] = origin
            if is_load:
                level[name], load[name] = chain + 1, position
            elif instruction.root in PASSED_ON and chain:
                level[name], load[name] = chain, load[last]
            else:
                level.pop(name, None)
    depth = max(used.values(), default=0)
    return Loads(
        depth=depth,
        used=frozenset(used),
        needed=frozenset(needed),
        passed_on={name: frozenset(origin) for name, origin in before.items() if origin},
        left={name: load[name] for name, chain in level.items() if chain > depth})


def _is_load(instruction: Instruction) -> bool:
    """Whether its result comes from global memory."""
    return instruction.root in ("ld", "ldu", "atom") and not {"param", "shared", "local"} & set(instruction.parts)


def _basic_block(kernel: Kernel, start: int) -> typing.Iterator[tuple[int, Instruction]]:
    for position in range(start, len(kernel.instructions)):
        if position > start and position in kernel.leaders:
            return
        yield position, kernel.instructions[position]
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
