"""Which instruction sets this processor has, and which of them MXNet and onnxruntime use for nets in 8 bits.

On x86 a product of unsigned and signed bytes is added to its neighbour in 16 bits (``vpmaddubsw``), and the sum
saturates at 32,767. VNNI adds in 32 bits. So does Arm.
"""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import platform

from . import cgroups

CPU_INFO = pathlib.Path("/proc/cpuinfo")
# x86's instruction sets by Linux's names, with the place where CPUID reports them: the leaf of glibc's table, the
# register and the bit.
BITS = {
    "sse4_1": (0, 2, 19), "fma": (0, 2, 12), "avx": (0, 2, 28), "f16c": (0, 2, 29), "avx2": (1, 1, 5),
    "avx512f": (1, 1, 16), "avx512dq": (1, 1, 17), "avx512bw": (1, 1, 30), "avx512vl": (1, 1, 31),
    "avx512_vnni": (1, 2, 11), "amx_bf16": (1, 3, 22), "amx_tile": (1, 3, 24), "amx_int8": (1, 3, 25),
    "avx_vnni": (6, 0, 4), "avx512_bf16": (6, 0, 5),
}
ARM = ("asimd", "asimddp", "i8mm", "bf16", "sve")   # names that are worth showing
AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"})
LIMIT = "DNNL_MAX_CPU_ISA"   # MXNet's oneDNN 2.4 uses no more than it says, and does not know ONEDNN_MAX_CPU_ISA.
LIMITS = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE")   # its values that limit what is told apart here
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16"})
# The levels that programs tell apart, the best one last. Each has a name, what it needs, and the limits that forbid it.
LEVELS = (
    ("SSE4.1", {"sse4_1"}, ()),
    ("AVX", {"avx"}, LIMITS[:1]),
    ("AVX2", {"avx2", "fma"}, LIMITS[:2]),
    ("AVX2 with VNNI", {"avx2", "fma", "avx_vnni"}, (*LIMITS[:3], "AVX512_CORE")),
    ("AVX-512", AVX512, LIMITS[:4]),
    ("AVX-512 with VNNI", AVX512 | {"avx512_vnni"}, LIMITS),
)
MXNET, ONNXRUNTIME = "MXNet", "onnxruntime"
# onnxruntime multiplies 16 bits with SSE4.1 and AVX.
SATURATING = {MXNET: ("SSE4.1", "AVX", "AVX2", "AVX-512"), ONNXRUNTIME: ("AVX2", "AVX-512")}


class _Leaf(ctypes.Structure):
    _fields_ = [("has", ctypes.c_uint * 4), ("usable", ctypes.c_uint * 4)]


@functools.cache
def instructions() -> frozenset[str]:
    """Return the instruction sets of this processor by Linux's names. On other systems there are none.

    glibc asks the processor itself, which gives the right answer in an emulator as well. glibc before version 2.33 does
    not tell, so Linux's list is read instead.
    """
    try:
        leaf = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    except (AttributeError, OSError, TypeError):   # another processor, another system, an older glibc
        return _listed()
    leaf.restype, leaf.argtypes = ctypes.POINTER(_Leaf), [ctypes.c_uint]
    return frozenset(name for name, (number, register, bit) in BITS.items()
                     if leaf(number).contents.usable[register] >> bit & 1)


def _listed():
    for line in (cgroups.text(CPU_INFO) or "").splitlines():
        name, _, words = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(words.split()).intersection((*BITS, *ARM))
    return frozenset()


def used(program: str) -> str | None:
    """Return the best of :data:`LEVELS` that MXNet's oneDNN or onnxruntime uses here, or None without an x86.

    The environment variable DNNL_MAX_CPU_ISA limits MXNet.
    """
    limit = os.environ.get(LIMIT, "").upper() if program == MXNET else ""
    usable = (name for name, needs, forbidding in reversed(LEVELS)
              if needs <= instructions() and limit not in forbidding)
    return next(usable, None)


def has_bfloat16() -> bool:
    """Return whether MXNet's oneDNN may use instructions for bfloat16 here."""
    forbidden = os.environ.get(LIMIT, "").upper() in (*LIMITS, "AVX512_CORE_VNNI")
    return bool(BFLOAT16 & instructions()) and not forbidden


def saturates(program: str) -> bool:
    """Return whether sums of 8-bit products saturate in MXNet or onnxruntime here. If it is not known, they do not."""
    return used(program) in SATURATING[program]


def examine() -> dict:
    """Return what the doctor reports of the processor.

    That is its instruction sets, which of them MXNet and onnxruntime use, and in which of these two sums saturate.
    """
    return {"name": platform.machine(), "instructions": sorted(instructions()),
            "used": {program: used(program) for program in SATURATING},
            "saturating": [program for program in SATURATING if saturates(program)]}
