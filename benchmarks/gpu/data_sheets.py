"""What the model of the kernels' speed knows of GPUs: their data sheets, and the issue slots of PTX's instructions."""
import dataclasses
import functools
import re


@dataclasses.dataclass(frozen=True)
class GPU:
    """A GPU's data sheet.

    ``processors``: streaming multiprocessors. ``ghz``: boost clock. ``gigabytes``: bandwidth per second. ``fp64``:
    fused multiply-adds in float64 per processor and clock. ``cache``: megabytes of the second cache. ``threads`` and
    ``shared``: those that a processor has room for at a time, and its kilobytes of shared memory.
    """
    name: str
    processors: int
    ghz: float
    gigabytes: float
    fp64: int
    cache: int
    threads: int
    shared: int


# NVIDIA's data sheets and architecture white papers: A100 80GB SXM (2020), H100 SXM (2022), GeForce RTX 4090 (2022).
GPUS = (
    GPU("A100", 108, 1.41, 2039, 32, 40, 2048, 164),
    GPU("H100", 132, 1.755, 3352, 64, 50, 2048, 228),
    GPU("RTX 4090", 128, 2.52, 1008, 2, 72, 1536, 100),
)

# Of every one of them, from compute capability 8.0 on, per processor and clock.
SCHEDULERS = 4      # each issues one instruction of a warp
SPECIAL = 16        # lanes of the special function unit: ex2, lg2, rcp, sqrt
SECTORS = 4         # of 32 bytes between the first cache and the second
REGISTERS = 65536
BLOCKS = 32         # at a time
COPIED = 0.89       # of the data sheet's bandwidth that a copy reaches; measured on an H100: 2.98 of 3.35 TB/s
CACHED = 1.85       # times the data sheet's bandwidth that the second cache reaches; of an H100, measured by others

# Fitted to benchmarks/gpu/results.json, of an H100.
LAUNCH = 2.9e-6     # seconds between the last thread of a launch and the first one of the next
WAIT = 1.0e-7       # seconds that a warp waits for global memory, loads that the compiler moves together counted apart
CHAIN = 5.7         # clocks from an instruction of a warp to its next one, where no other warp is ready
OVERLAP = 4.2       # 1: one part of a GPU after the other; infinity: as long as the slowest part

# Instruction -> the issue slots that its machine code takes; the first pattern counts. From comparing PTX with the
# machine code for sm_90. A division is a call of a subroutine. A constant or a copy of a register is mostly folded.
SLOTS = (
    (r"(ld|st)\.param.*|cvta.*", 0),
    (r"div\.rn\.f32", 10),
    (r"rcp\.rn\.f32", 7),
    (r"(div|rcp|sqrt)\.rn\.f64", 25),
    (r"(div|rem)\..64", 70),
    (r"(div|rem)\..*", 16),
    (r"(mul\.lo|mad\.lo)\..64", 4),
    (r"(add|sub|setp|selp|and|or|xor|shl|shr|neg|min|max|not)\b.*\.[bsu]64", 2),
    (r"mov\..*", 0.3),
    (r"cvt\.([us]64\.[us]32|[us]32\.[us]64|[us]16\.[us]32|[us]32\.[us]16)", 0.2),
    (r".*", 1),
)
ON_SPECIAL_UNIT = re.compile(r"(ex2|lg2|sin|cos|sqrt|rsqrt|rcp)\..*f32|div\.rn\.f32")
IN_FLOAT64 = re.compile(r"(?!ld|st|mov|selp).*f64.*")


@functools.cache
def slots(name: str) -> float:
    """The issue slots of an instruction, such as ``add.s64``."""
    return next(count for pattern, count in SLOTS if re.fullmatch(pattern, name))
