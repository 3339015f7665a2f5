"""Schedules the threads of a launch. Every thread has a pc of its own; those at one pc run a basic block together.

Lockstep takes the lowest pc, as far as a GPU lets threads of a warp meet again. With a seed the pc is drawn at random,
and often only some of the warps there go on. ``bar.sync`` waits for all threads of a block. ``shfl.sync``,
``vote.sync`` and the like wait for the lanes of their mask.
"""
from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

import numpy as np

from . import memory as spaces
from .memory import Memory, Shadow, Times
from .operations import DTYPES, operation
from .parse import SIZES, WAITS, Instruction, Kernel, PtxError

RUNS, AT_BARRIER, AT_COLLECTIVE, EXITED = range(4)
WARP = 32
MOST_STEPS = 10 ** 7
ADDRESS = re.compile(r"\[\s*(%?[\w$]+)(?:\s*\+\s*(-?\d+))?\s*\]")
NOTHING = ("membar", "fence", "prefetch", "prefetchu", "discard")
STRONG = {"volatile", "relaxed", "acquire", "release"}   # loads and stores that do not race with one another
COLLECTIVES = ("shfl", "vote", "match", "redux")


def unsigned(size: int) -> np.dtype:
    return np.dtype(f"u{size}")


class Launch:
    """A kernel on a grid.

    Parameters
    ----------
    kernel : Kernel
    memory : Memory
    arguments : list of int or float
        A pointer is an address in ``memory``.
    grid, block : tuple of int
    seed : int, optional
        Draws the schedule. The default is lockstep.
    """

    def __init__(self, kernel: Kernel, memory: Memory, arguments: list, grid: tuple, block: tuple,
                 seed: int | None = None):
        self.kernel, self.memory = kernel, memory
        self.per_block, blocks = math.prod(block), math.prod(grid)
        self.count = blocks * self.per_block
        everyone = np.arange(self.count)
        thread, self.block_of = everyone % self.per_block, everyone // self.per_block
        self.lane = thread % WARP
        self.warp = self.block_of * -(-self.per_block // WARP) + thread // WARP
        self.special = _special(thread, self.block_of, self.lane, grid, block)
        self.times = Times(self.count, self.per_block, self.warp)

        self.registers, self.call_parameters = {}, {}
        if len(arguments) != len(kernel.parameters):
            raise PtxError(f"{kernel.name} takes {len(kernel.parameters)} arguments, and gets {len(arguments)}")
        self.parameters = {name: np.array([value]).astype(DTYPES[kind])
                           for (kind, name), value in zip(kernel.parameters, arguments)}
        self.shared = np.full(blocks * kernel.shared_size, 0xFF, np.uint8)
        self.shared_written = np.zeros(len(self.shared), bool)
        self.local = np.full(self.count * kernel.local_size, 0xFF, np.uint8)
        self.tables = placed_tables(kernel)
        granules = _granules(kernel)
        self.shadows = {"global": Shadow(len(memory.bytes), granules["global"], self.times),
                        "shared": Shadow(len(self.shared), granules["shared"], self.times)}
        self.pc, self.status = np.zeros(self.count, np.int64), np.full(self.count, RUNS, np.int8)
        self.random = None if seed is None else np.random.RandomState(seed)

    # -- registers -------------------------------------------------------------------------------------------
    def register(self, name: str) -> np.ndarray:
        """Return all threads' values of a register: unsigned bits, or a predicate."""
        values = self.registers.get(name)
        if values is None:
            kind = self.kernel.register_type(name)
            values = np.zeros(self.count, bool if kind == "pred" else unsigned(SIZES[kind]))
            self.registers[name] = values
        return values

    def write(self, name: str, values: np.ndarray, threads) -> None:
        if name == "_":
            return
        register, values = self.register(name), np.asarray(values)
        if register.dtype.kind != "b" and values.dtype != register.dtype:
            if values.dtype.itemsize != register.dtype.itemsize:   # a narrow value, with its sign
                values = values.astype(f"{values.dtype.kind}{register.dtype.itemsize}")
            values = np.ascontiguousarray(values).view(register.dtype)
        register[threads] = values

    # -- scheduling ------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Run until every thread has exited."""
        program = compiled(self.kernel)
        with np.errstate(all="ignore"):
            for _ in range(MOST_STEPS):
                running = np.flatnonzero(self.status == RUNS)
                if len(running):
                    self._block(program, self._chosen(running))
                elif (self.status == EXITED).all():
                    return
                elif not self._met():
                    raise PtxError(f"threads wait for ever: {self._waiting()}")
        raise PtxError("the launch does not end")

    def _chosen(self, running: np.ndarray) -> np.ndarray:
        """Threads at one pc."""
        places = self.pc[running]
        if self.random is None:
            return running[places == places.min()]
        chosen = running[places == self.random.choice(np.unique(places))]
        if self.random.rand() < 0.5:
            warps = np.unique(self.warp[chosen])
            some = chosen[np.isin(self.warp[chosen], warps[self.random.rand(len(warps)) < 0.5])]
            return some if len(some) else chosen
        return chosen

    def _block(self, program: list, threads: np.ndarray) -> None:
        """Run a basic block for these threads."""
        position = int(self.pc[threads[0]])
        everyone = len(threads) == self.count
        selected = slice(None) if everyone else threads
        while True:
            instruction, step = program[position]
            if instruction.root in WAITS and instruction.root != "activemask":
                self._wait(instruction, position, threads)
                return
            if step(self, selected):
                return   # it has set the pc, or the threads have exited
            position += 1
            if position in self.kernel.leaders:
                self.pc[threads] = position
                return

    def _wait(self, instruction: Instruction, position: int, threads: np.ndarray) -> None:
        self.pc[threads] = position
        if instruction.guard:
            goes = self.register(instruction.guard)[threads] ^ instruction.negated
            self.pc[threads[~goes]] += 1
            threads = threads[goes]
        is_collective = instruction.root in COLLECTIVES or instruction.parts[:2] == ["bar", "warp"]
        self.status[threads] = AT_COLLECTIVE if is_collective else AT_BARRIER
        self._met()

    def _met(self) -> bool:
        """Let those go on who wait for nobody any more. Whether there were any."""
        progress = False
        waiting = np.flatnonzero(self.status == AT_COLLECTIVE)
        for position in np.unique(self.pc[waiting]):
            progress |= collective(self, int(position), waiting[self.pc[waiting] == position])
        status = self.status.reshape(-1, self.per_block)
        at_barrier, gone = status == AT_BARRIER, status == EXITED
        complete = (at_barrier | gone).all(axis=1) & at_barrier.any(axis=1)
        for block in np.flatnonzero(complete):
            self._release(int(block), gone[block])
        return progress or bool(complete.any())

    def _release(self, block: int, gone: np.ndarray) -> None:
        """All threads of a block have come to a barrier."""
        threads = slice(block * self.per_block, (block + 1) * self.per_block)
        places = np.unique(self.pc[threads][~gone])
        if gone.any():
            raise PtxError("bar.sync waits for threads that have exited")
        if len(places) > 1:
            raise PtxError("the threads of a block wait at two barriers")
        instruction = self.kernel.instructions[int(places[0])]
        if "red" in instruction.parts:
            block_reduction(self, instruction, np.arange(self.count)[threads])
        self.pc[threads] += 1
        self.status[threads] = RUNS
        self.times.of_block[block] += 1

    def _waiting(self) -> str:
        places = np.unique(self.pc[self.status != EXITED])
        return "; ".join(self.kernel.instructions[int(place)].text for place in places[:3])


def _special(thread: np.ndarray, number: np.ndarray, lane: np.ndarray, grid: tuple, block: tuple) -> dict:
    """Return the special registers."""
    registers = {"%laneid": lane, "%warpid": thread // WARP, "%lanemask_lt": (1 << lane) - 1,
                 "%lanemask_eq": 1 << lane}
    for name, index, sizes in (("tid", thread, block), ("ctaid", number, grid)):
        for axis, size in zip("xyz", sizes):
            registers[f"%{name}.{axis}"] = index % size
            registers[f"%n{name}.{axis}"] = np.full(len(thread), size)
            index = index // size
    return {name: values.astype(np.uint32) for name, values in registers.items()}


def _granules(kernel: Kernel) -> dict[str, int]:
    """Return the smallest element that a kernel accesses in each space."""
    smallest = {"global": 16, "shared": 16}
    for instruction in kernel.instructions:
        if instruction.root not in ("ld", "st", "atom", "red") or "param" in instruction.parts:
            continue
        for space in smallest:
            if space in instruction.parts or not {"global", "shared", "local"} & set(instruction.parts):
                smallest[space] = min(smallest[space], SIZES[instruction.type])
    return smallest


def placed_tables(kernel: Kernel) -> Memory:
    """Return the tables that a kernel uses, in a memory of their own that may only be read."""
    if not hasattr(kernel, "placed_tables"):
        memory = Memory(sum(len(values) for _, values in kernel.tables.values()), len(kernel.tables))
        for name, (alignment, values) in kernel.tables.items():
            memory.add(name, np.frombuffer(values, np.uint8), alignment)   # aligned as it says, and no better
            memory.permit(name, spaces.READ)
        kernel.placed_tables = memory
    return kernel.placed_tables


# -- instructions ------------------------------------------------------------------------------------------------
Step = Callable   # step(launch, threads) -> whether it ends the basic block


def compiled(kernel: Kernel) -> list[tuple[Instruction, Step]]:
    """Return each instruction with what it does."""
    if not hasattr(kernel, "compiled"):
        kernel.compiled = [(instruction, _step(kernel, position))
                           for position, instruction in enumerate(kernel.instructions)]
    return kernel.compiled


def _step(kernel: Kernel, position: int) -> Step:
    instruction = kernel.instructions[position]
    if instruction.root == "bra":
        return _branch(kernel, instruction, position)
    if instruction.root in ("ret", "exit"):
        return _exit(instruction, position)
    if instruction.root in WAITS and instruction.root != "activemask":
        check_collective(instruction)
        return lambda launch, threads: True
    return _guarded(instruction, _effect(kernel, instruction))


def _guarded(instruction: Instruction, effect: Callable) -> Step:
    """Return the effect for the threads whose predicate holds."""
    guard, negated = instruction.guard, instruction.negated
    if guard is None:
        return effect

    def step(launch, threads):
        holds = launch.register(guard)[threads] ^ negated
        everyone = np.arange(launch.count) if isinstance(threads, slice) else threads
        chosen = everyone[holds]
        if len(chosen):
            effect(launch, chosen)
    return step


def _branch(kernel, instruction, position):
    if len(instruction.operands) != 1 or instruction.operands[0] not in kernel.labels:
        raise PtxError(f"unknown instruction: {instruction.text}")
    target = kernel.labels[instruction.operands[0]]

    def step(launch, threads):
        if instruction.guard is None:
            launch.pc[threads] = target
        else:
            taken = launch.register(instruction.guard)[threads] ^ instruction.negated
            launch.pc[threads] = np.where(taken, target, position + 1)
        return True
    return step


def _exit(instruction, position):
    def step(launch, threads):
        launch.pc[threads] = position + 1
        status = EXITED
        if instruction.guard is not None:
            status = np.where(launch.register(instruction.guard)[threads] ^ instruction.negated, EXITED, RUNS)
        launch.status[threads] = status
        return True
    return step


def _effect(kernel: Kernel, instruction: Instruction) -> Callable:
    """Return what an instruction does that neither waits nor branches."""
    root = instruction.root
    if root in ("ld", "ldu"):
        return _load(kernel, instruction)
    if root == "st":
        return _store(kernel, instruction)
    if root in ("atom", "red"):
        return _atomic(kernel, instruction)
    if root == "mov":
        return _move(kernel, instruction)
    if root == "cvta":
        return _convert_address(kernel, instruction)
    if root == "activemask":
        return _active_mask(instruction)
    if root in NOTHING:
        return lambda launch, threads: None
    return _compute(kernel, instruction)


def _compute(kernel, instruction):
    rule = operation(instruction)
    target, *operands = instruction.operands
    if len(operands) != len(rule.operands):
        raise PtxError(f"unknown instruction: {instruction.text}")
    readers = [reader(kernel, operand, kind) for operand, kind in zip(operands, rule.operands)]
    first, _, second = target.partition("|")   # setp has a second target, for the opposite

    def effect(launch, threads):
        values = rule.function(*[read(launch, threads) for read in readers])
        launch.write(first, values, threads)
        if second:
            launch.write(second, ~values, threads)
    return effect


def reader(kernel: Kernel, operand: str, kind: str) -> Callable:
    """``read(launch, threads)`` of a register, a number or the address of a variable, as this type."""
    dtype = np.dtype(DTYPES[kind])
    if operand.startswith("%"):
        return _register_reader(operand, dtype)
    constant = np.array([_constant(kernel, operand, dtype)]).view(dtype)
    return lambda launch, threads: constant


def _register_reader(operand, dtype):
    def read(launch, threads):
        special = launch.special.get(operand)
        values = (launch.register(operand) if special is None else special)[threads]
        if values.dtype.itemsize > dtype.itemsize:   # the lower bits
            values = values.astype(unsigned(dtype.itemsize))
        elif values.dtype.itemsize < dtype.itemsize:
            values = values.astype(unsigned(dtype.itemsize))
        return values.view(dtype)
    return read


def _constant(kernel, operand, dtype):
    """Return a number in the source, as a NumPy scalar of a type of the same size."""
    if operand[:2].lower() == "0f":
        return np.uint32(int(operand[2:], 16))
    if operand[:2].lower() == "0d":
        return np.uint64(int(operand[2:], 16))
    for offsets in (kernel.shared, kernel.local):
        if operand in offsets:
            return unsigned(dtype.itemsize).type(offsets[operand])
    if operand in kernel.tables:
        return np.uint64(spaces.TABLES + placed_tables(kernel).arrays[operand].address)
    try:
        value = int(operand.rstrip("U"), 0)
    except ValueError as error:
        raise PtxError(f"unknown operand: {operand}") from error
    if dtype.kind == "f":
        return dtype.type(value)
    if dtype.kind == "b":
        return np.bool_(value)
    bits = 8 * dtype.itemsize
    return unsigned(dtype.itemsize).type(value & (1 << bits) - 1)


def _vector(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{}").split(",")]


def _move(kernel, instruction):
    """``mov``, which also packs and unpacks registers, and takes the address of a variable."""
    target, source = instruction.operands
    kind = instruction.type
    if source.startswith("{"):
        return _pack(kernel, target, _vector(source), kind)
    if target.startswith("{"):
        return _unpack(kernel, _vector(target), source, kind)
    read = reader(kernel, source, kind)
    return lambda launch, threads: launch.write(target, read(launch, threads), threads)


def _pack(kernel, target, sources, kind):
    size = SIZES[kind] // len(sources)
    readers = [reader(kernel, source, f"b{8 * size}") for source in sources]
    whole = unsigned(SIZES[kind]).type

    def effect(launch, threads):
        parts = [read(launch, threads).astype(whole) << whole(8 * size * place) for place, read in enumerate(readers)]
        launch.write(target, functools.reduce(np.bitwise_or, parts), threads)
    return effect


def _unpack(kernel, targets, source, kind):
    size = SIZES[kind] // len(targets)
    read = reader(kernel, source, f"b{8 * SIZES[kind]}")
    whole = unsigned(SIZES[kind]).type

    def effect(launch, threads):
        values = read(launch, threads)
        for place, target in enumerate(targets):
            launch.write(target, (values >> whole(8 * size * place)).astype(unsigned(size)), threads)
    return effect


def _convert_address(kernel, instruction):
    """``cvta``: between the addresses of a space and generic ones."""
    target, source = instruction.operands
    window = {"shared": spaces.SHARED, "local": spaces.LOCAL}.get(
        next((part for part in instruction.parts if part in ("shared", "local")), ""), 0)
    distance = np.uint64(window)
    read = reader(kernel, source, "u64")
    if "to" in instruction.parts:
        return lambda launch, threads: launch.write(target, read(launch, threads) - distance, threads)
    return lambda launch, threads: launch.write(target, read(launch, threads) + distance, threads)


def _active_mask(instruction):
    def effect(launch, threads):
        threads = np.arange(launch.count)[threads]
        masks = np.zeros(int(launch.warp.max()) + 1, np.uint32)
        np.bitwise_or.at(masks, launch.warp[threads], np.uint32(1) << launch.lane[threads].astype(np.uint32))
        launch.write(instruction.operands[0], masks[launch.warp[threads]], threads)
    return effect


# -- memory ------------------------------------------------------------------------------------------------------
def _address(kernel, operand):
    match = ADDRESS.fullmatch(operand)
    if not match:
        raise PtxError(f"unknown address: {operand}")
    read, offset = reader(kernel, match[1], "u64"), int(match[2] or 0)
    return lambda launch, threads: read(launch, threads).view(np.int64) + offset


def _load(kernel, instruction):
    kind, target = instruction.type, instruction.operands[0]
    if "param" in instruction.parts:
        return _load_parameter(instruction)
    targets = _vector(target) if target.startswith("{") else [target]
    address = _address(kernel, instruction.operands[1])
    size, is_strong = SIZES[kind], not STRONG.isdisjoint(instruction.parts)

    def effect(launch, threads):
        addresses, everyone = _all(launch, address(launch, threads), threads)
        data, places = _accessed(launch, instruction, addresses, size, len(targets), everyone, spaces.READ, is_strong)
        for place, name in enumerate(targets):
            launch.write(name, data.view(DTYPES[kind])[places // size + place], threads)
    return effect


def _store(kernel, instruction):
    kind, source = instruction.type, instruction.operands[1]
    if "param" in instruction.parts:
        return _store_parameter(kernel, instruction)
    sources = _vector(source) if source.startswith("{") else [source]
    readers = [reader(kernel, name, f"b{8 * SIZES[kind]}") for name in sources]
    address = _address(kernel, instruction.operands[0])
    size, is_strong = SIZES[kind], not STRONG.isdisjoint(instruction.parts)

    def effect(launch, threads):
        addresses, everyone = _all(launch, address(launch, threads), threads)
        data, places = _accessed(launch, instruction, addresses, size, len(readers), everyone, spaces.WRITE, is_strong)
        for place, read in enumerate(readers):
            data.view(unsigned(size))[places // size + place] = read(launch, threads)
    return effect


def _all(launch, addresses, threads):
    """Return an address and a number for each thread."""
    everyone = np.arange(launch.count)[threads]
    return np.broadcast_to(addresses, len(everyone)), everyone


def _space(instruction: Instruction, addresses: np.ndarray) -> tuple[str, np.ndarray]:
    """(Space, addresses within it): a generic address has the space in it, and a global one whether it is a table's."""
    named = next((part for part in instruction.parts if part in ("global", "shared", "local")), None)
    if named in ("shared", "local"):
        return named, addresses
    in_tables = (addresses >= spaces.TABLES) & (addresses < spaces.SHARED)
    if in_tables.all():
        return "tables", addresses - spaces.TABLES
    if named == "global":
        return named, addresses
    for name, window, end in (("global", 0, spaces.TABLES), ("shared", spaces.SHARED, spaces.LOCAL),
                              ("local", spaces.LOCAL, 1 << 62)):
        inside = (addresses >= window) & (addresses < end)
        if inside.all():
            return name, addresses - window
    raise PtxError(f"addresses of several spaces in {instruction.text}")


def _accessed(launch, instruction, addresses, size, elements, threads, permission, atomic=False):
    """(Bytes of the space, place of each thread's first element), after all checks."""
    space, addresses = _space(instruction, addresses)
    text, whole = instruction.text, size * elements
    spaces.check_alignment(addresses, whole, text)
    if space == "tables":
        launch.tables.check(addresses, whole, permission, text)
        return launch.tables.bytes, addresses
    if space == "global":
        launch.memory.check(addresses, whole, permission, text)
        data, places = launch.memory.bytes, addresses
    else:
        limit = launch.kernel.shared_size if space == "shared" else launch.kernel.local_size
        if ((addresses < 0) | (addresses + whole > limit)).any():
            raise PtxError(f"out of bounds: {text} in {space} memory of {limit} bytes")
        if space == "local":
            return launch.local, threads * limit + addresses
        data, places = launch.shared, launch.block_of[threads] * limit + addresses
        _check_written(launch, places, whole, permission, text)
    launch.shadows[space].access(places, whole, threads, text, permission == spaces.WRITE, atomic)
    return data, places


def _check_written(launch, places, size, permission, text):
    """Shared memory has no values before it is written."""
    covered = (places[:, None] + np.arange(size)).ravel()
    if permission == spaces.WRITE:
        launch.shared_written[covered] = True
    elif not launch.shared_written[covered].all():
        raise PtxError(f"uninitialised: {text} reads shared memory that no thread has written")


def _load_parameter(instruction):
    match = ADDRESS.fullmatch(instruction.operands[1])
    name, offset, kind = match[1], int(match[2] or 0), instruction.type

    def effect(launch, threads):
        value = launch.parameters.get(name)
        if value is None:
            value = launch.call_parameters[name, offset][threads].astype(unsigned(SIZES[kind]))
        launch.write(instruction.operands[0], value.astype(unsigned(SIZES[kind])) if value.dtype.kind == "u"
                     else value.view(unsigned(value.itemsize)), threads)
    return effect


def _store_parameter(kernel, instruction):
    match = ADDRESS.fullmatch(instruction.operands[0])
    name, offset, kind = match[1], int(match[2] or 0), instruction.type
    read = reader(kernel, instruction.operands[1], f"b{8 * SIZES[kind]}")

    def effect(launch, threads):
        values = launch.call_parameters.setdefault((name, offset), np.zeros(launch.count, np.uint64))
        values[threads] = read(launch, threads)
    return effect


ATOMICS = {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
           "max": np.maximum, "exch": lambda old, new: new,
           "inc": lambda old, most: np.where(old >= most, 0, old + 1)}


def _atomic(kernel, instruction):
    """``atom`` and ``red``: one thread after another, in the order of their numbers."""
    kind = instruction.type
    name = next((part for part in instruction.parts if part in (*ATOMICS, "cas")), None)
    if name is None:
        raise PtxError(f"unknown instruction: {instruction.text}")
    operands = list(instruction.operands)
    target = operands.pop(0) if instruction.root == "atom" else "_"
    address = _address(kernel, operands[0])
    readers = [reader(kernel, operand, kind) for operand in operands[1:]]

    def effect(launch, threads):
        addresses, everyone = _all(launch, address(launch, threads), threads)
        size = SIZES[kind]
        data, places = _accessed(launch, instruction, addresses, size, 1, everyone, spaces.WRITE, atomic=True)
        values = [np.broadcast_to(read(launch, threads), len(everyone)) for read in readers]
        memory, before = data.view(DTYPES[kind]), np.zeros(len(everyone), DTYPES[kind])
        for number, place in enumerate(places // size):
            before[number] = old = memory[place]
            first, *others = (value[number] for value in values)
            if name != "cas":
                memory[place] = ATOMICS[name](old, first)
            elif old == first:
                memory[place] = others[0]
        launch.write(target, before, threads)
    return effect


# -- what threads do together ------------------------------------------------------------------------------------
SHUFFLES = ("bfly", "up", "down", "idx")


def check_collective(instruction: Instruction) -> None:
    """Raise a PtxError for one that is not known here."""
    parts, operands = instruction.parts, instruction.operands
    is_known = (parts[:2] == ["bar", "sync"] and operands == ["0"]
                or parts[:2] == ["bar", "warp"]
                or parts[:2] == ["bar", "red"] and parts[2] in ("and", "or", "popc") and operands[1] == "0"
                or parts[:2] == ["barrier", "sync"] and operands == ["0"]
                or parts[:2] == ["shfl", "sync"] and parts[2] in SHUFFLES
                or parts[:2] == ["vote", "sync"] and parts[2] in ("any", "all", "uni", "ballot")
                or parts[:2] == ["match", "any"] or parts[:2] == ["redux", "sync"] and parts[2] in ATOMICS)
    if not is_known:
        raise PtxError(f"unknown instruction: {instruction.text}")


def collective(launch: Launch, position: int, threads: np.ndarray) -> bool:
    """Run a collective instruction for the lanes whose whole mask has come. Whether there were any."""
    instruction = launch.kernel.instructions[position]
    masks = _read(launch, instruction.operands[-1], "u32", threads).astype(np.int64)
    lanes, warps = launch.lane[threads], launch.warp[threads]
    if not (masks >> lanes & 1).all():
        raise PtxError(f"a lane is not in its own mask: {instruction.text}")
    here = np.zeros(int(warps.max()) + 1, np.int64)
    np.bitwise_or.at(here, warps, np.int64(1) << lanes)
    complete = here[warps] & masks == masks
    if not complete.any():
        return False
    threads, masks, lanes, warps = threads[complete], masks[complete], lanes[complete], warps[complete]
    of_lane = np.zeros((int(warps.max()) + 1, WARP), np.int64)
    of_lane[warps, lanes] = masks
    members = masks[:, None] >> np.arange(WARP) & 1 == 1
    if (members & (of_lane[warps] != 0) & (of_lane[warps] != masks[:, None])).any():
        raise PtxError(f"lanes have come with different masks: {instruction.text}")
    _exchange(launch, instruction, threads, masks, lanes, warps)
    launch.pc[threads] += 1
    launch.status[threads] = RUNS
    return True


def _exchange(launch, instruction, threads, masks, lanes, warps):
    if instruction.root == "bar":
        launch.times.of_warp[np.unique(warps)] += 1
        return
    target, source = instruction.operands[0], instruction.operands[1]
    kind = "pred" if instruction.root == "vote" else instruction.type
    values = np.broadcast_to(_read(launch, source, kind, threads), len(threads))
    table = np.zeros((int(warps.max()) + 1, WARP), values.dtype)
    table[warps, lanes] = values
    members = masks[:, None] >> np.arange(WARP) & 1 == 1
    if instruction.root == "shfl":
        _shuffle(launch, instruction, threads, masks, lanes, table[warps])
    elif instruction.root == "vote":
        launch.write(target, _vote(instruction.parts[2], table[warps], members, source), threads)
    elif instruction.root == "match":
        equal = members & (table[warps] == values[:, None])
        launch.write(target, (equal << np.arange(WARP)).sum(axis=1).astype(np.uint32), threads)
    else:
        reduce = ATOMICS[instruction.parts[2]]
        result = [functools.reduce(reduce, row[member]) for row, member in zip(table[warps], members)]
        launch.write(target, np.array(result, values.dtype), threads)


def _vote(name, table, members, source):
    values = table ^ source.startswith("!")
    if name == "ballot":
        return ((values & members) << np.arange(WARP)).sum(axis=1).astype(np.uint32)
    has_any, has_all = (values & members).any(axis=1), (values | ~members).all(axis=1)
    return {"any": has_any, "all": has_all, "uni": has_all | ~has_any}[name]


def _shuffle(launch, instruction, threads, masks, lanes, table):
    """``shfl.sync`` of the ISA, with segments and clamps."""
    by = _read(launch, instruction.operands[2], "u32", threads).astype(np.int64) & 31
    limits = _read(launch, instruction.operands[3], "u32", threads).astype(np.int64)
    segment, clamp = limits >> 8 & 31, limits & 31
    last, first = lanes & segment | clamp & ~segment, lanes & segment
    name = instruction.parts[2]
    if name == "up":
        source = lanes - by
        inside = source >= last
    else:
        source = {"bfly": lanes ^ by, "down": lanes + by, "idx": first | by & ~segment}[name]
        inside = source <= last
    source = np.where(inside, source, lanes)
    if not (masks >> source & 1).all():
        raise PtxError(f"a lane reads from one that is not in the mask: {instruction.text}")
    value, _, predicate = instruction.operands[0].partition("|")
    launch.write(value, table[np.arange(len(threads)), source], threads)
    if predicate:
        launch.write(predicate, inside, threads)


def block_reduction(launch: Launch, instruction: Instruction, threads: np.ndarray) -> None:
    """``bar.red``: a barrier that also combines a predicate of all threads."""
    name, source = instruction.parts[2], instruction.operands[-1]
    values = _read(launch, source, "pred", threads) ^ source.startswith("!")
    result = {"and": values.all(), "or": values.any(), "popc": np.uint32(np.count_nonzero(values))}[name]
    launch.write(instruction.operands[0], np.broadcast_to(result, len(threads)), threads)


def _read(launch, operand, kind, threads):
    return np.broadcast_to(reader(launch.kernel, operand.lstrip("!"), kind)(launch, threads), len(threads))
