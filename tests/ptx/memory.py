"""The address spaces, and what is checked at every access: bounds, alignment, races, memory that was never written."""
from __future__ import annotations

import dataclasses

import numpy as np

from .parse import PtxError

GUARD = 256                       # bytes between two arrays
SHARED, LOCAL = 1 << 60, 1 << 61   # where the windows of these spaces begin among generic addresses
TABLES = 1 << 59                  # where the tables of a module begin among global addresses
READ, WRITE = 1, 2
NONE, SEVERAL = -1, -2            # threads, warps or blocks


@dataclasses.dataclass(frozen=True)
class Array:
    """An array in global memory."""
    name: str
    address: int
    shape: tuple
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


class Memory:
    """Global memory: arrays with guards between them.

    Parameters
    ----------
    size : int
        Bytes of all arrays; the guards are added.
    """

    def __init__(self, size: int, arrays: int):
        size = -(-(size + (arrays + 1) * 4 * GUARD) // 16) * 16
        self.bytes = np.full(size, 0xFF, np.uint8)
        self.permissions = np.zeros(size, np.uint8)
        self.arrays, self._end = {}, GUARD

    def add(self, name: str, values: np.ndarray, offset: int = 0) -> Array:
        """Place an array ``offset`` bytes behind a multiple of 256."""
        address = -(-self._end // GUARD) * GUARD + GUARD + offset
        array = Array(name, address, values.shape, values.dtype)
        self._end = address + array.nbytes
        self.arrays[name] = array
        self.put(name, values)
        self.permit(name, READ | WRITE)
        return array

    def put(self, name: str, values: np.ndarray) -> None:
        array = self.arrays[name]
        values = np.ascontiguousarray(values, array.dtype)
        self.bytes[array.address:array.address + array.nbytes] = np.frombuffer(values.tobytes(), np.uint8)

    def get(self, name: str) -> np.ndarray:
        array = self.arrays[name]
        part = self.bytes[array.address:array.address + array.nbytes]
        return np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape)

    def permit(self, name: str, permissions: int) -> None:
        array = self.arrays[name]
        self.permissions[array.address:array.address + array.nbytes] = permissions

    def check(self, addresses: np.ndarray, size: int, permission: int, text: str) -> None:
        """Raise a PtxError for an access outside the arrays, or to one that may not be accessed so."""
        inside = (addresses >= 0) & (addresses + size <= len(self.bytes))
        if not inside.all():
            raise PtxError(f"out of bounds: {text} at {self._place(int(addresses[~inside][0]))}")
        allowed = self.permissions[addresses] & self.permissions[addresses + size - 1] & permission
        if not allowed.all():
            raise PtxError(f"out of bounds: {text} at {self._place(int(addresses[allowed == 0][0]))}")

    def _place(self, address: int) -> str:
        if not self.arrays:
            return f"address {address}"
        nearest = min(self.arrays.values(), key=lambda array: min(abs(address - array.address),
                                                                  abs(address - array.address - array.nbytes)))
        return f"byte {address - nearest.address} of {nearest.name}, which has {nearest.nbytes}"


def check_alignment(addresses: np.ndarray, size: int, text: str) -> None:
    wrong = addresses % size != 0
    if wrong.any():
        raise PtxError(f"misaligned: {text} at address {int(addresses[wrong][0])}, no multiple of {size}")


class Times:
    """How often each block and each warp has synchronised, and which thread belongs to which."""

    def __init__(self, threads: int, per_block: int, warps: np.ndarray):
        self.blocks = np.arange(threads) // per_block
        self.warps = warps
        self.of_block = np.zeros(int(self.blocks[-1]) + 1, np.int64)
        self.of_warp = np.zeros(int(warps.max()) + 1, np.int64)


class Shadow:
    """Who has last read and written each granule of a space, to find races.

    Two accesses race if they are by two threads, one is a write, not both are atomic, and no barrier separates them:
    ``bar.sync`` separates the threads of a block, ``bar.warp.sync`` those of a warp, nothing separates two blocks.
    """

    def __init__(self, size: int, granule: int, times: Times):
        self.granule, self.times = granule, times
        count = size // granule
        self.written, self.read = _Accesses(count), _Accesses(count)
        self.atomic = np.zeros(count, bool)

    def access(self, addresses: np.ndarray, size: int, threads: np.ndarray, text: str, writes: bool,
               atomic: bool = False) -> None:
        """Note an access of ``size`` bytes by each thread. Raises a PtxError if it races."""
        places = addresses // self.granule
        count = size // self.granule
        if count > 1:
            places = (places[:, None] + np.arange(count)).ravel()
            threads = np.repeat(threads, count)
        races = self.written.concurrent(places, threads, self.times)
        if atomic:
            races &= ~self.atomic[places]
        if writes:
            races |= self.read.concurrent(places, threads, self.times)
        if races.any():
            raise PtxError(f"race: {text} {'writes' if writes else 'reads'} what another thread has accessed since the "
                           "last barrier")
        if not writes:
            if atomic:   # a later write is checked against plain reads only
                return
            self.read.add(places, threads, self.times)
            return
        self.written.replace(places, threads, self.times)
        if not atomic and (self.written.thread[places] != threads).any():
            raise PtxError(f"race: two threads write to one place in {text}")
        self.atomic[places] = atomic


class _Accesses:
    """The last accesses of one kind to each granule. Several since a barrier leave SEVERAL."""

    def __init__(self, count: int):
        self.thread, self.warp, self.block = (np.full(count, NONE, np.int32) for _ in range(3))
        self.block_time, self.warp_time = np.zeros(count, np.int32), np.zeros(count, np.int32)

    def concurrent(self, places: np.ndarray, threads: np.ndarray, times: Times) -> np.ndarray:
        """Return whether the access there is another thread's and not separated from now."""
        before = self.thread[places]
        by_others = (before != NONE) & (before != threads)
        if not by_others.any():
            return by_others
        blocks, warps = times.blocks[threads], times.warps[threads]
        in_block = self.block[places] == blocks
        in_warp = self.warp[places] == warps
        ordered = in_block & (self.block_time[places] < times.of_block[blocks])
        ordered |= in_warp & (self.warp_time[places] < times.of_warp[warps])
        return by_others & ~ordered

    def replace(self, places: np.ndarray, threads: np.ndarray, times: Times) -> None:
        blocks, warps = times.blocks[threads], times.warps[threads]
        self.thread[places], self.warp[places], self.block[places] = threads, warps, blocks
        self.block_time[places], self.warp_time[places] = times.of_block[blocks], times.of_warp[warps]

    def add(self, places: np.ndarray, threads: np.ndarray, times: Times) -> None:
        """Do as ``replace``, but keep in mind what is concurrent."""
        together = self.concurrent(places, threads, times)
        values = []
        for before, now in ((self.thread, threads), (self.warp, times.warps[threads]),
                            (self.block, times.blocks[threads])):
            values.append(np.where(together & (before[places] != now), SEVERAL, now))
        self.replace(places, threads, times)
        for before, now in zip((self.thread, self.warp, self.block), values):
            before[places] = now
            several = before[places] != now   # threads of this instruction
            before[places[several]] = SEVERAL
