"""Blocks that share a row, ``ops/_shared_rows/shared_rows.cuh``: the last one finishes it, under any schedule."""
import functools
import re

import numpy as np
import pytest
from gluonops.contract import registry
from gluonops.cuda import cuda_source, nvrtc

from ptx.machine import Launch
from ptx.memory import Memory
from ptx.parse import PtxError, kernel, parse

pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")

BLOCKS, THREADS, ROWS = 3, 64, 2
SEEDS = range(8)
KERNEL = r"""
extern "C" __global__ void shared_rows(const float *data, float *output, unsigned *counts, float *partial) {
    const PartialResults<float> scratch(counts, partial);
    const int64_t first = blockIdx.x * gridDim.y * blockDim.x + threadIdx.x;
    const int64_t own = first + blockIdx.y * blockDim.x;
    // A warp of one block is late.
    volatile float *const late = output + own;
    for (int i = 0; i < (blockIdx.y == 1 && threadIdx.x >= 32 ? 200 : 0); ++i)
        *late = i;
    scratch.partial[own] = data[own];
    if (scratch.is_last_block(blockIdx.x, gridDim.y)) {
        // Another thread of each block writes it, so that a thread needs what others have left.
        const int64_t other = first - threadIdx.x + (blockDim.x - 1 - threadIdx.x);
        output[first] = scratch.sum(other, gridDim.y, blockDim.x);
    }
}
"""
BLOCKS_FILE = registry.get("dice_loss").folder.parent / "_shared_rows/shared_rows.cuh"
SOURCE = cuda_source.joined(cuda_source.prelude()) + BLOCKS_FILE.read_text() + KERNEL


@functools.cache
def compiled(old="", new=""):
    """Return the kernel's PTX, from a source with a planted fault."""
    assert old in SOURCE
    program = nvrtc.Compiler().compile(SOURCE.replace(old, new, 1), ())
    assert program.compiled, program.messages
    return program.ptx.decode()


@functools.cache
def parsed(ptx):
    """Return the kernel in a PTX."""
    return kernel(parse(ptx), "shared_rows")


def launched(ptx, seed, times=1):
    """(What the last blocks have written, the counts) after some launches, of which the last one has these data."""
    data = np.arange(1, 1 + ROWS * BLOCKS * THREADS, dtype="float32").reshape(ROWS, BLOCKS, THREADS)
    memory = Memory(3 * data.nbytes + 4 * ROWS, 4)
    addresses = [memory.add(name, values).address for name, values in (
        ("data", data), ("output", np.zeros_like(data)), ("counts", np.zeros(ROWS, "uint32")),
        ("partial", np.zeros_like(data)))]
    for left in reversed(range(times)):
        memory.put("data", data + left)
        Launch(parsed(ptx), memory, addresses, (ROWS, BLOCKS, 1), (THREADS, 1, 1), seed).run()
    return memory.get("output")[:, 0], memory.get("counts")


EXPECTED = np.arange(1, 1 + ROWS * BLOCKS * THREADS).reshape(ROWS, BLOCKS, THREADS).sum(1)[:, ::-1]


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_the_last_block_finishes_and_the_counts_are_ready_again(seed):
    sums, counts = launched(compiled(), seed, times=2)
    np.testing.assert_array_equal(sums, EXPECTED)
    assert not counts.any()


FAULTS = {
    "no_barrier_before": ("__syncthreads();   // the block has left its partial results", ""),
    "no_barrier_behind": ("__syncthreads();   // the block has been counted", ""),
    "a_block_too_early": ("== all - 1;\n    __threadfence();", "== all - 2;\n    __threadfence();"),
    "no_count": ("atomicInc(count, all - 1) == all - 1", "true"),
    "a_count_that_stays": ("atomicInc(count, all - 1)", "atomicInc(count, all)"),
    "partial_results_that_are_not_volatile": ("volatile A *partial;", "A *partial;"),
    "a_row_too_far": ("counts + row", "counts + row + 100000"),
    "a_block_left_out": ("i < count; ++i", "i < count - 1; ++i"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    ptx = compiled(*FAULTS[fault])

    def wrong(seed):
        try:
            sums, counts = launched(ptx, seed, times=2)
        except PtxError:
            return True
        return counts.any() or not np.array_equal(sums, EXPECTED)

    assert any(wrong(seed) for seed in SEEDS)


def fenced(ptx):
    """Return whether there is a count, and each is between two fences, with no other access between."""
    accesses = re.findall(r"(?m)^\s*(?:@\S+\s+)?((?:ld|st)\.(?!param)|membar|atom|bar)", ptx)
    around = [accesses[i - 1:i + 2] for i, access in enumerate(accesses) if access == "atom"]
    return bool(around) and all(three == ["membar", "atom", "membar"] for three in around)


def test_a_count_is_between_two_fences():
    """The interpreter has one order of memory for all threads, so that it does not show what a missing fence does."""
    fence = "__threadfence();"
    assert fenced(compiled())
    assert not fenced(compiled(f"{fence}\n    const bool", "const bool"))
    assert not fenced(compiled(f"{fence}\n    return", "return"))
