"""The model of the kernels' speed: what is counted, and what follows from it."""
import types

import numpy as np
import pytest
from benchmarks.gpu import counts, h100, model
from benchmarks.harness.cases import Case
from ptx import counter, machine, memory, parse

CLOCKS = 132 * 1.755e9   # All processors together have so many.


def launched(**counted):
    """A launch that does nothing else; by default of one warp for each multiprocessor of an H100."""
    none = {"executed": {}, "requested": 0.0, "touched": 0.0, "footprint": {}, "wavefronts": 0.0, "waits": 0.0,
            "longest": (0, 0), "blocks": 132, "threads": 32, "registers": 32, "shared": 0}
    return counts.Launched(**{**none, **counted})


def pass_of(*launches, sizes=None):
    return counts.Pass(0, list(launches), sizes or {})


def test_a_copy_runs_at_a_copys_speed():
    """abs reads and writes each element once, in whole sectors, issues little, and waits for memory once."""
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    case = Case("abs", (256, 64, 64, 64))
    found = counts.count(case)
    size = 4 * 256 * 64 ** 3
    for (direction, of_pass), tensors in zip(found.items(), (2, 3)):
        launch, = of_pass.launches
        assert of_pass.bytes == tensors * size and direction in ("forward", "backward")
        assert set(launch.footprint.values()) == {size} and len(launch.footprint) == tensors
        assert 32 * launch.requested == 32 * launch.touched == tensors * size
        assert launch.wavefronts == 0 and launch.waits == 1
    assert 0.9 < model.speed(found["forward"]) <= 1 and 0.9 < model.speed(found["backward"]) <= 1


@pytest.mark.parametrize("part, counted, seconds", [
    ("issue", {"executed": {"add.f32": 4 * CLOCKS}, "blocks": 10 ** 9}, 1),
    ("load/store", {"requested": 4 * CLOCKS}, 1),
    ("load/store", {"wavefronts": CLOCKS}, 1),
    ("special", {"executed": {"ex2.approx.f32": CLOCKS}}, 2),
    ("float64", {"executed": {"fma.rn.f64": CLOCKS}}, 0.5),
    ("cache", {"touched": h100.CACHED / 32}, 1),
    ("latency", {"waits": 1 / h100.WAIT}, 1),
    ("latency", {"executed": {"add.f32": CLOCKS / h100.CHAIN}}, 1),
    ("latency", {"longest": (1.755e9 / h100.CHAIN, 1 / h100.WAIT)}, 2),
])
def test_the_time_of_each_part(part, counted, seconds):
    found = pass_of(launched(**counted))
    assert model.of_launches(found)[0][part] == pytest.approx(seconds)
    assert model.estimate(found) >= seconds + h100.LAUNCH


def test_a_tensor_in_the_cache_is_not_moved_again():
    launch = launched(footprint={("small", "read"): 1e6, ("large", "read"): 1e9})
    found = pass_of(launch, launch, sizes={"small": 1e6, "large": 1e9})
    assert model.moved(found) == [1.001e9, 1e9]


@pytest.mark.parametrize("counted, blocks", [
    ({}, 32), ({"threads": 256}, 8), ({"threads": 256, "registers": 80}, 3), ({"threads": 256, "registers": 81}, 2),
    ({"shared": 100 * 1024}, 2), ({"threads": 1024, "registers": 128}, 1)])
def test_blocks_of_a_multiprocessor(counted, blocks):
    assert model.resident(launched(**counted)) == blocks


@pytest.mark.parametrize("blocks, expected", [(1, 1), (132 * 32, 1), (132 * 32 + 1, 2), (132 * 320, 10.5)])
def test_rounds_of_blocks(blocks, expected):
    assert model.rounds(launched(blocks=blocks)) == expected


def test_parts_overlap_but_not_wholly():
    assert model.together({"issue": 1.0, "memory": 1.0}) == pytest.approx(2 ** (1 / h100.OVERLAP))
    assert model.together({"issue": 0.1, "memory": 1.0}) == pytest.approx(1, rel=1e-3)


def test_how_far_estimates_are_off():
    assert model.errors_of([1.1, 0.5, 1.0]) == "3 passes, off by 10% in the median; 2 by less than 20%"


@pytest.mark.parametrize("name, expected, special, float64", [
    ("add.s64", 2, False, False), ("div.rn.f32", 10, True, False), ("div.u64", 70, False, False),
    ("div.u32", 16, False, False), ("mov.u32", 0.3, False, False), ("ld.param.u64", 0, False, False),
    ("ex2.approx.ftz.f32", 1, True, False), ("fma.rn.f64", 1, False, True), ("ld.global.f64", 1, False, False),
    ("setp.lt.s64", 2, False, False), ("setp.lt.f32", 1, False, False), ("mul.wide.u32", 1, False, False)])
def test_instructions(name, expected, special, float64):
    assert h100.slots(name) == expected
    assert bool(h100.ON_SPECIAL_UNIT.fullmatch(name)) == special
    assert bool(h100.IN_FLOAT64.fullmatch(name)) == float64


class TestCounter:
    lanes = np.arange(32)

    def count(self, space, addresses, size, permission=1):
        launch = types.SimpleNamespace(warp=np.zeros(32, int), lane=self.lanes, block_of=np.zeros(32, int))
        found = counter.Counter()
        found.access(launch, space, np.asarray(addresses), size, self.lanes, permission)
        return found

    @pytest.mark.parametrize("addresses, size, sectors", [
        (4 * lanes, 4, 4), (32 * lanes, 4, 32), (16 * lanes, 16, 16), (4 * lanes + 4, 4, 5), (0 * lanes, 4, 1)])
    def test_sectors(self, addresses, size, sectors):
        assert self.count("global", addresses, size).sectors == {"read": sectors, "written": 0}
        assert self.count("global", addresses, size, 2).sectors == {"read": 0, "written": sectors}

    @pytest.mark.parametrize("addresses, size, wavefronts", [
        (4 * lanes, 4, 1), (8 * lanes, 4, 2), (128 * lanes, 4, 32), (0 * lanes, 4, 1), (132 * lanes, 4, 1),
        (8 * lanes, 8, 2), (16 * lanes, 16, 4), (1 * lanes, 1, 1)])
    def test_wavefronts(self, addresses, size, wavefronts):
        assert self.count("shared", addresses, size).wavefronts == wavefronts


class TestWaits:
    """Loads that do not need one another's values are waited for together."""

    PTX = """.version 7.8
.target sm_52
.visible .entry f(.param .u64 p) {{
    .reg .b64 %rd<4>;
    .reg .f32 %f<6>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [p];
    {body}
    st.global.f32 [%rd1], %f5;
    ret;
}}"""

    @pytest.mark.parametrize("body, waits", [
        ("ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; add.f32 %f5, %f1, %f2;", 1),
        ("ld.global.u64 %rd2, [%rd1+8]; ld.global.f32 %f5, [%rd2];", 2),
        ("ld.global.f32 %f1, [%rd1]; bra.uni A; A: ld.global.f32 %f2, [%rd1+4]; add.f32 %f5, %f1, %f2;", 1),
        ("ld.global.f32 %f1, [%rd1]; bra.uni A; A: mov.f32 %f2, %f1; bra.uni B; B: add.f32 %f5, %f2, %f2;", 1),
        ("ld.global.f32 %f1, [%rd1]; add.f32 %f3, %f1, %f1; bra.uni A; A: ld.global.f32 %f2, [%rd1+4];"
         " add.f32 %f5, %f2, %f3;", 2),
    ], ids=["together", "a chain", "over blocks", "moved", "one by one"])
    def test_waits(self, body, waits):
        data = memory.Memory(64, 1)
        array = data.add("data", np.zeros(8, np.int64))
        data.put("data", np.full(8, array.address))
        kernel = parse.kernel(parse.parse(self.PTX.format(body=body.replace("; ", ";\n").replace(": ", ":\n"))), "f")
        found = counter.Counter()
        machine.Launch(kernel, data, [array.address], (1, 1, 1), (32, 1, 1), counter=found, checks=False).run()
        assert found.waits == waits


def test_a_memory_that_repeats_rows():
    repeated = memory.RepeatedMemory()
    for name in ("a", "b"):
        repeated.add(name, (1000, 3), "float32", np.arange(6).reshape(2, 3))
    array = repeated.arrays["b"]
    places = repeated.places(array.address + 4 * np.array([0, 5, 6, 2999]))
    np.testing.assert_array_equal(repeated.bytes.view(np.float32)[places // 4], [0, 5, 0, 5])


def test_a_case_with_fewer_rows():
    case = Case("region_loss", (512, 125, 19, 19), more={"truth": (512, 30, 5)})
    found = counts.few_rows(case)
    assert found.shape == (1, 125, 19, 19) and found.more == {"truth": (1, 30, 5)}
    assert counts.few_rows(Case("softmax", (1 << 20, 64))).shape == (1024, 64)


@pytest.mark.parametrize("blocks, launches, executed", [(8, 1, 8), (4096, 1, 16), (512, 2, 512), (513, 2, 16)])
def test_the_blocks_that_are_executed(blocks, launches, executed):
    planned = {"launches": [[]] * launches, "grid": (blocks, 1, 1), "block": (256, 1, 1)}
    found = counts.sample(planned)
    assert len(np.unique(found)) == executed and 0 <= found.min() and found.max() < blocks
