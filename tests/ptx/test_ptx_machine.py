"""The interpreter itself: what instructions compute, how threads wait, and the faults that it finds."""
import functools

import numpy as np
import pytest
from gluonops.cuda import nvrtc

from ptx.machine import Launch
from ptx.memory import Memory
from ptx.operations import DTYPES, operation
from ptx.parse import PtxError, _instruction, kernel, parse

pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")

SOURCE = r"""
extern "C" __global__ void reversed(const float *data, float *output, int barrier) {
    __shared__ float tile[64];
    tile[threadIdx.x] = data[threadIdx.x];
    if (barrier) __syncthreads();
    output[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void in_warps(const float *data, float *output, int barrier) {
    __shared__ float tile[64];
    const int other = threadIdx.x ^ 1;
    tile[threadIdx.x] = data[threadIdx.x];
    if (barrier) __syncwarp();
    output[threadIdx.x] = tile[other];
}
extern "C" __global__ void in_a_branch(const float *data, float *output, int limit) {
    if (threadIdx.x < limit) __syncthreads();
    output[threadIdx.x] = data[threadIdx.x];
}
extern "C" __global__ void copied(const float *data, float *output, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) output[i] = data[i];
}
extern "C" __global__ void by_four(const float4 *data, float4 *output, int size) {
    if (threadIdx.x < size / 4) output[threadIdx.x] = data[threadIdx.x];
}
extern "C" __global__ void one_place(const float *data, float *output, int size) {
    if (threadIdx.x == 0) output[0] = data[blockIdx.x];
}
extern "C" __global__ void flagged(const float *data, volatile float *output, int size) {
    if (threadIdx.x == 0) output[0] = data[blockIdx.x] + output[0];
}
extern "C" __global__ void summed(const float *data, float *output, int size) {
    atomicAdd(output, data[blockIdx.x * blockDim.x + threadIdx.x]);
}
extern "C" __global__ void shuffled(const float *data, float *output, int by) {
    const float value = data[threadIdx.x];
    float result = __shfl_up_sync(~0u, value, by) + 100 * __shfl_down_sync(~0u, value, by, 16);
    result += 10000 * __shfl_sync(~0u, value, by, 8) + 1000000 * __shfl_xor_sync(~0u, value, by);
    output[threadIdx.x] = result;
}
extern "C" __global__ void voted(const float *data, float *output, int limit) {
    const bool mine = data[threadIdx.x] < limit;
    const unsigned votes = __ballot_sync(~0u, mine);
    output[threadIdx.x] = __popc(votes) + 100 * __any_sync(~0u, mine) + 1000 * __all_sync(~0u, mine)
                          + 10000 * __syncthreads_count(mine);
}
"""


@functools.cache
def functions():
    program = nvrtc.Compiler().compile(SOURCE, ())
    assert program.compiled, program.messages
    return parse(program.ptx.decode())


def launch(name, values, number, grid=1, block=64, seed=None, offset=0):
    """Return the output of a kernel of SOURCE, as many elements as there are values."""
    data = np.asarray(values, "float32")
    memory = Memory(2 * data.nbytes + 64, 2)
    addresses = [memory.add(array, values, offset).address for array, values in (
        ("data", data), ("output", np.zeros_like(data)))]
    Launch(kernel(functions(), name), memory, [*addresses, number], (grid, 1, 1), (block, 1, 1), seed).run()
    return memory.get("output")


TABLE = r"""
.global .align 4 .b8 odd[3] = {9, 9, 9};
.global .align 4 .b8 table[16] = {0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64};
.visible .entry looked_up(.param .u64 looked_up_param_0, .param .u64 looked_up_param_1)
{
    .reg .f32 %f<3>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [looked_up_param_0];
    ld.param.u64 %rd2, [looked_up_param_1];
    mov.u64 %rd3, table;
    add.s64 %rd4, %rd3, %rd2;
    ld.global.nc.f32 %f1, [%rd4];
    cvta.global.u64 %rd5, %rd4;
    ld.f32 %f2, [%rd5];
    st.global.v2.f32 [%rd1], {%f1, %f2};
    ret;
}
"""


def looked_up(offset, change=("", "")):
    """Return what a kernel reads from ``table``, by a global address and by a generic one; ``change``: of its PTX."""
    memory = Memory(8, 1)
    output = memory.add("output", np.zeros(2, "float32")).address
    program = kernel(parse(TABLE.replace(*change)), "looked_up")
    Launch(program, memory, [output, offset], (1, 1, 1), (1, 1, 1)).run()
    return memory.get("output").tolist()


NUMBERS = np.arange(64, dtype="float32")


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
class TestRight:
    def test_barriers(self, seed):
        np.testing.assert_array_equal(launch("reversed", NUMBERS, 1, seed=seed), NUMBERS[::-1])
        exchanged = NUMBERS.reshape(-1, 2)[:, ::-1].ravel()
        np.testing.assert_array_equal(launch("in_warps", NUMBERS, 1, seed=seed), exchanged)
        np.testing.assert_array_equal(launch("in_a_branch", NUMBERS, 64, seed=seed), NUMBERS)

    def test_vectors(self, seed):
        np.testing.assert_array_equal(launch("by_four", NUMBERS, 64, seed=seed), NUMBERS)

    def test_atomics_of_several_blocks(self, seed):
        assert launch("summed", NUMBERS, 0, grid=4, block=16, seed=seed)[0] == NUMBERS.sum()

    def test_shuffles(self, seed):
        by, lane = 3, np.arange(64) % 32
        first = np.arange(64) - lane
        up = np.where(lane >= by, lane - by, lane)
        down = np.where(lane % 16 + by < 16, lane + by, lane)
        expected = sum(scale * NUMBERS[first + source] for scale, source in (
            (1, up), (100, down), (10000, lane // 8 * 8 + by), (1000000, lane ^ by)))
        np.testing.assert_array_equal(launch("shuffled", NUMBERS, by, seed=seed), expected.astype("float32"))

    def test_votes(self, seed):
        """5 lanes of the first warp vote, and none of the second."""
        expected = np.repeat([5 + 100, 0], 32) + 50000
        np.testing.assert_array_equal(launch("voted", NUMBERS, 5, seed=seed), expected)


def test_tables_with_initial_values():
    """1, 2 and 3 are given; the last one is zero."""
    assert [looked_up(offset) for offset in (0, 4, 8, 12)] == [[1, 1], [2, 2], [3, 3], [0, 0]]


class TestFaults:
    """What a GPU would not report, or only with a sanitizer."""

    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_missed_barrier(self, seed):
        with pytest.raises(PtxError, match=r"(race|uninitialised).*(ld|st)\.shared"):
            launch("reversed", NUMBERS, 0, seed=seed)

    def test_a_missed_barrier_in_lockstep(self):
        """The results are right, and it is a race all the same."""
        with pytest.raises(PtxError, match="race"):
            launch("reversed", NUMBERS, 0)

    def test_a_missed_barrier_of_a_warp(self):
        with pytest.raises(PtxError, match="race"):
            launch("in_warps", NUMBERS, 0)

    def test_a_barrier_in_a_branch(self):
        with pytest.raises(PtxError, match="exited"):
            launch("in_a_branch", NUMBERS, 32)

    def test_off_by_one(self):
        with pytest.raises(PtxError, match="out of bounds: ld.global.* byte 256 of data, which has 256"):
            launch("copied", NUMBERS, 65, block=128)

    def test_alignment(self):
        with pytest.raises(PtxError, match=r"misaligned: ld\.global\S*v4.*no multiple of 16"):
            launch("by_four", NUMBERS, 64, offset=4)

    def test_blocks_that_write_to_one_place(self):
        with pytest.raises(PtxError, match="race"):
            launch("one_place", NUMBERS, 0, grid=2)

    def test_volatile_accesses_of_several_blocks_do_not_race(self):
        assert launch("flagged", NUMBERS, 0, grid=2)[0] in (0, 1)

    def test_beyond_a_table(self):
        with pytest.raises(PtxError, match=r"out of bounds: ld\.global\.nc.* byte 16 of table, which has 16"):
            looked_up(16)

    def test_a_table_that_is_written_to(self):
        with pytest.raises(PtxError, match=r"out of bounds: st\.f32.* byte 4 of table"):
            looked_up(4, ("ld.f32 %f2, [%rd5]", "st.f32 [%rd5], %f1"))

    def test_the_alignment_of_a_table(self):
        """The table is aligned to 4 bytes."""
        with pytest.raises(PtxError, match=r"misaligned: ld\.v2\.f32.*no multiple of 8"):
            looked_up(0, ("ld.f32 %f2", "ld.v2.f32 {%f1, %f2}"))

    def test_unknown_instructions_are_named(self):
        for text in ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [texture, {%r1}]", "add.cc.u32 %r1, %r2, %r3",
                     "add.rz.f32 %f1, %f2, %f3"):
            with pytest.raises(PtxError, match=rf"unknown instruction: {text.split()[0]}"):
                operation(_instruction(text))


def computed(text, *values):
    """Return what an instruction makes of values, one thread each; its operands are not looked at."""
    rule = operation(_instruction(f"{text} %a, %b"))
    with np.errstate(all="ignore"):
        return rule.function(*[np.asarray(value).astype(DTYPES[kind]) for value, kind in zip(values, rule.operands)])


@pytest.mark.parametrize("text, values, expected", [
    ("div.s32", ([7, -7, 7, -7], [2, 2, -2, -2]), [3, -3, -3, 3]),
    ("rem.s32", ([7, -7, 7, -7], [2, 2, -2, -2]), [1, -1, 1, -1]),
    ("div.u32", ([7, 7], [0, 2]), [2 ** 32 - 1, 3]),
    ("rem.u32", ([7, 7], [0, 2]), [7, 1]),
    ("shl.b32", ([1, 1, 1], [31, 32, 100]), [1 << 31, 0, 0]),
    ("shr.s32", ([-8, -8, 8], [1, 40, 40]), [-4, -1, 0]),
    ("shr.u64", ([2 ** 63], [63]), [1]),
    ("mul.wide.s32", ([-2], [2 ** 30]), [-(2 ** 31)]),
    ("mul.hi.u32", ([2 ** 31], [6]), [3]),
    ("mad.wide.u32", ([2 ** 31], [4], [1]), [2 ** 33 + 1]),
    ("bfe.u32", ([0xABCD], [4], [8]), [0xBC]),
    ("bfe.s32", ([0x80, 0x40], [4, 4], [4, 4]), [-8, 4]),
    ("bfi.b32", ([0xF], [0], [8], [4]), [0xF00]),
    ("prmt.b32", ([0x33221100], [0x77665544], [0x7531]), [0x77553311]),
    ("prmt.b32", ([0x80], [0], [0x8888]), [0xFFFFFFFF]),
    ("shf.r.wrap.b32", ([0x1], [0x2], [1]), [0]),
    ("shf.l.wrap.b32", ([0x80000000], [0x1], [1]), [3]),
    ("popc.b32", ([0xF0F],), [8]),
    ("clz.b32", ([1, 0],), [31, 32]),
    ("brev.b32", ([1],), [1 << 31]),
    ("dp4a.u32.u32", ([0x04030201], [0x01010101], [5]), [15]),
    ("dp4a.s32.s32", ([0xFF], [2], [0]), [-2]),
    ("sad.u32", ([3, 9], [9, 3], [1, 1]), [7, 7]),
    ("cvt.rzi.s32.f32", ([1.9, -1.9, np.nan, 1e20],), [1, -1, 0, 2 ** 31 - 1]),
    ("cvt.rni.s32.f32", ([0.5, 1.5, 2.5],), [0, 2, 2]),
    ("cvt.rn.f16.f32", ([1 / 3],), [np.float16(1 / 3)]),
    ("cvt.sat.f32.f32", ([-1, 0.5, 2, np.nan],), [0, 0.5, 1, 0]),
    ("cvt.s32.s8", ([-1],), [-1]),
    ("cvt.u32.u16", ([0xFFFF],), [0xFFFF]),
    ("min.f32", ([np.nan, 1], [2, np.nan]), [2, 1]),
    ("setp.lt.f32", ([1, np.nan], [2, 2]), [True, False]),
    ("setp.ltu.f32", ([1, np.nan], [2, 2]), [True, True]),
    ("setp.ne.f32", ([1, np.nan], [2, 2]), [True, False]),
    ("setp.lt.and.s32", ([1, 1], [2, 2], [True, False]), [True, False]),
    ("ex2.approx.ftz.f32", ([3, -200],), [8, 0]),
    ("fma.rn.f32", ([3], [1 / 3], [-1]), [np.float32(3 * np.float64(np.float32(1 / 3)) - 1)]),
    ("add.ftz.f32", ([2.0 ** -127], [0]), [0]),
    ("selp.f32", ([1, 1], [2, 2], [True, False]), [1, 2]),
])
def test_what_an_instruction_computes(text, values, expected):
    np.testing.assert_array_equal(computed(text, *values), expected)
