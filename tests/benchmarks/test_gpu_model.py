"""The model of the kernels' speed: what is counted, and what follows from it."""
import types

import numpy as np
import pytest
from benchmarks.gpu import cases, model
from benchmarks.gpu.data_sheets import COPIED, GPUS, IN_FLOAT64, LAUNCH, ON_SPECIAL_UNIT, slots
from ptx import counter

H100 = next(gpu for gpu in GPUS if gpu.name == "H100")


def test_a_copy_runs_at_a_copys_speed():
    """abs reads and writes each element once, in whole sectors, and issues little."""
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    case = cases.Case("abs", (64, 64, 64))
    forward, backward = model.work(case).values()
    assert (forward.bytes, backward.bytes) == (2 * 4 * 64 ** 3, 3 * 4 * 64 ** 3)
    assert 32 * forward.sectors == forward.bytes and 32 * backward.sectors == backward.bytes
    assert forward.wavefronts == forward.float64 == forward.special == 0 and forward.divergence == 0
    for gpu in GPUS:
        assert 0.9 < forward.share(gpu) <= 1
        assert forward.copy_seconds(gpu) == forward.bytes / (COPIED * gpu.gigabytes * 1e9) + LAUNCH
    assert [verdict["passed"] for verdict in model.verdicts(case, {"forward": forward})] == [True]


@pytest.mark.parametrize("part, counts, seconds", [
    ("issue", {"slots": 4 * 132 * 1.755e9}, 1),
    ("load/store", {"sectors": 4 * 132 * 1.755e9}, 1),
    ("load/store", {"wavefronts": 132 * 1.755e9}, 1),
    ("special", {"special": 132 * 1.755e9}, 2),
    ("float64", {"float64": 132 * 1.755e9}, 0.5),
])
def test_the_time_of_each_part(part, counts, seconds):
    none = dict.fromkeys(("bytes", "instructions", "slots", "special", "float64", "sectors", "wavefronts"), 0.0)
    work = model.Work(**{**none, **counts}, divergence=0.0, launches=2)
    assert work.seconds(H100)[part] == pytest.approx(seconds)
    assert work.estimate(H100) >= seconds + 2 * LAUNCH


def test_parts_overlap_but_not_wholly():
    none = dict.fromkeys(("instructions", "special", "float64", "sectors", "wavefronts"), 0.0)
    work = model.Work(**none, bytes=COPIED * 3352e9, slots=4 * 132 * 1.755e9, divergence=0.0, launches=0)
    assert work.estimate(H100) == pytest.approx(2 ** (1 / model.OVERLAP))


@pytest.mark.parametrize("name, expected, special, float64", [
    ("add.s64", 2, False, False), ("div.rn.f32", 10, True, False), ("div.u64", 70, False, False),
    ("div.u32", 16, False, False), ("mov.u32", 0.3, False, False), ("ld.param.u64", 0, False, False),
    ("ex2.approx.ftz.f32", 1, True, False), ("fma.rn.f64", 1, False, True), ("ld.global.f64", 1, False, False),
    ("setp.lt.s64", 2, False, False), ("setp.lt.f32", 1, False, False), ("mul.wide.u32", 1, False, False)])
def test_instructions(name, expected, special, float64):
    assert slots(name) == expected
    assert bool(ON_SPECIAL_UNIT.fullmatch(name)) == special and bool(IN_FLOAT64.fullmatch(name)) == float64


class TestCounter:
    lanes = np.arange(32)

    def count(self, space, addresses, size, permission=1):
        launch = types.SimpleNamespace(warp=np.zeros(32, int), lane=self.lanes)
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


@pytest.mark.parametrize("case, shape, more", [
    (cases.Case("reorg", (64, 64, 64, 64)), (1, 64, 64, 64), {}),
    (cases.Case("softmax", (1 << 20, 64)), (1024, 64), {}),
    (cases.Case("region_loss", (512, 125, 19, 19), more={"truth": (512, 30, 5)}), (1, 125, 19, 19),
     {"truth": (1, 30, 5)}),
])
def test_a_case_is_cut_along_its_first_axis(case, shape, more):
    found = model.cut(case)
    assert found.shape == shape and found.more == more
    assert model.cut(cases.Case("tile", (1, 1000), attrs={"tiles": 65536})) is None
