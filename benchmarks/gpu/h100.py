"""What the model of the kernels' speed knows of an H100, and the issue slots of PTX's instructions."""
import functools
import re

# NVIDIA's data sheet of the H100 SXM (2022) and its architecture white paper.
PROCESSORS = 132       # streaming multiprocessors; what follows is of one of them, unless it says otherwise
HERTZ = 1.755e9        # the boost clock
BANDWIDTH = 3.352e12   # bytes of memory per second, of the GPU
CACHE = 50e6           # bytes of the second cache, of the GPU
FLOAT64 = 64           # fused multiply-adds per clock
SCHEDULERS = 4         # each issues one instruction of a warp per clock
SPECIAL = 16           # lanes of the special function unit: ex2, lg2, rcp, sqrt
SECTORS = 4            # The first cache and the second exchange so many, of 32 bytes each, per clock.
REGISTERS = 65536
THREADS = 2048         # at a time
BLOCKS = 32            # at a time
SHARED = 228 * 1024    # bytes of shared memory

# Measured: a copy reached 2.98 of the 3.35 TB/s. The second cache's figure is of others.
COPIED = 0.89 * BANDWIDTH
CACHED = 1.85 * BANDWIDTH

# Fitted to benchmarks/gpu/results.json.
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
