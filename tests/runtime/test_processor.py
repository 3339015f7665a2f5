"""The instruction sets of processors, and what MXNet and onnxruntime use of them."""
import pytest
from gluonops.runtime import doctor, processor

NEHALEM = {"sse4_1"}
SANDY_BRIDGE = NEHALEM | {"avx"}
HASWELL = SANDY_BRIDGE | {"avx2", "fma", "f16c"}
ALDER_LAKE = HASWELL | {"avx_vnni"}
SKYLAKE = HASWELL | processor.AVX512
CASCADE_LAKE = SKYLAKE | {"avx512_vnni"}
GRANITE_RAPIDS = CASCADE_LAKE | {"avx_vnni", "avx512_bf16", "amx_tile", "amx_int8"}
MODELS = [
    (NEHALEM, "SSE4.1", ["MXNet"]), (SANDY_BRIDGE, "AVX", ["MXNet"]), (HASWELL, "AVX2", ["MXNet", "onnxruntime"]),
    (ALDER_LAKE, "AVX2 with VNNI", []), (SKYLAKE, "AVX-512", ["MXNet", "onnxruntime"]),
    (CASCADE_LAKE, "AVX-512 with VNNI", []), (GRANITE_RAPIDS, "AVX-512 with VNNI", []),
    ({"asimd", "asimddp"}, None, []), (set(), None, []),
]


def set_processor(monkeypatch, names, limit=""):
    monkeypatch.setattr(processor, "instructions", lambda: frozenset(names))
    monkeypatch.setenv(processor.LIMIT, limit)


@pytest.mark.parametrize("names, level, saturating", MODELS, ids=[str(level) for _, level, _ in MODELS])
def test_models(names, level, saturating, monkeypatch):
    set_processor(monkeypatch, names)
    report = processor.examine()
    assert report["used"] == {"MXNet": level, "onnxruntime": level} and report["saturating"] == saturating
    assert report["instructions"] == sorted(names)


@pytest.mark.parametrize("names, limit, level", [
    (GRANITE_RAPIDS, "AVX2", "AVX2"), (GRANITE_RAPIDS, "avx2", "AVX2"), (GRANITE_RAPIDS, "SSE41", "SSE4.1"),
    (GRANITE_RAPIDS, "AVX", "AVX"), (CASCADE_LAKE, "AVX2_VNNI", "AVX2"),
    (GRANITE_RAPIDS, "AVX2_VNNI", "AVX2 with VNNI"),
    (GRANITE_RAPIDS, "AVX512_CORE", "AVX-512"), (GRANITE_RAPIDS, "AVX512_CORE_VNNI", "AVX-512 with VNNI"),
    (HASWELL, "AVX512_CORE", "AVX2"), (GRANITE_RAPIDS, "nonsense", "AVX-512 with VNNI")])
def test_the_limit_of_mxnet(names, limit, level, monkeypatch):
    set_processor(monkeypatch, names, limit)
    assert processor.used("MXNet") == level
    monkeypatch.delenv(processor.LIMIT)
    assert processor.used("onnxruntime") == processor.used("MXNet")


@pytest.mark.parametrize("text, expected", [
    ("processor : 0\nflags\t\t: fpu sse4_1 avx avx2 fma\nflags : again\n", {"sse4_1", "avx", "avx2", "fma"}),
    ("Features\t: fp asimd evtstrm asimddp i8mm\n", {"asimd", "asimddp", "i8mm"}), ("isa : rv64\n", set()),
    (None, set())])
def test_the_list_of_linux(text, expected, monkeypatch, tmp_path):
    """Where glibc does not tell."""
    monkeypatch.setattr(processor, "CPU_INFO", tmp_path / "cpuinfo")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)

    def without(_):
        raise OSError

    monkeypatch.setattr(processor.ctypes, "CDLL", without)
    assert processor.instructions.__wrapped__() == expected


def test_this_processor():
    """glibc and Linux's list agree; an emulator's processor is not in the list."""
    listed = processor._listed()
    instructions = processor.instructions()
    assert instructions == listed or not listed or "asimd" in instructions or instructions < listed


def test_the_doctor(monkeypatch):
    set_processor(monkeypatch, HASWELL)
    text = doctor.render(doctor.examine())
    assert "avx, avx2, f16c, fma, sse4_1\n" in text
    assert "used by MXNet AVX2, onnxruntime AVX2, gluonops " in text
    assert ("8 bits      MXNet and onnxruntime: sums of products saturate here. Files that were quantized with "
            "vnni_only are wrong, and all others are right\n") in text
    set_processor(monkeypatch, CASCADE_LAKE)
    assert "8 bits      sums of products do not saturate here" in doctor.render(doctor.examine())
    set_processor(monkeypatch, ())
    assert "instruction sets not known" in doctor.render(doctor.examine())
