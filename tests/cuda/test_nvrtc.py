"""Every CUDA kernel compiled by NVRTC without a GPU, and `make cuda-check`, which does it for every generation."""
import importlib.util
import locale
import pathlib
import stat

import gluonops as gops
import pytest
from gluonops.contract import registry
from gluonops.cuda import cuda_source, nvrtc, rtc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROKEN = ("activate_forward(args, Abs())", "activate_forward(args, Ab())")   # abs's kernel.cu has it


@pytest.fixture(scope="module")
def compiler():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    return nvrtc.Compiler()


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("cuda_check", ROOT / "tools" / "cuda_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def two_kernels(monkeypatch):
    """Let abs have kernels for float32 alone. What it has for other dtypes takes long to compile to PTX."""
    monkeypatch.setattr(nvrtc, "exports", lambda op, every=True: ["abs_forward<float>", "abs_backward<float>"])


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["data", "labels"])
@pytest.mark.parametrize("name", rtc.operators())
def test_kernels_compile_without_warnings(name, every, compiler):
    """Every dtype of the data, and every combination of dtypes, are compiled as by mx.rtc, but not to PTX.

    PTX takes most of the time. tests/ptx makes and runs that of some kernels for float32; the others, and the other
    GPUs, are `make cuda-check`'s. All dtypes of labels are loaded by one function, which center_loss compiles every
    day.
    """
    op = registry.get(name).op
    names = nvrtc.exports(op, every or name == "center_loss")
    program = compiler.compile(cuda_source.source(op), names, [*rtc.OPTIONS, "-dlto"])
    assert (program.compiled, program.messages) == (True, "")
    assert sorted(program.names.values()) == sorted(names)


@pytest.mark.parametrize("name", rtc.operators())
def test_the_kernels_of_an_operator(name):
    """There is one for each combination of dtypes, or for each dtype of the data."""
    op = registry.get(name).op
    assert len(nvrtc.exports(op)) == 2 * len(rtc.type_combinations(op))
    of_labels = 2 if name == "softmax_cross_entropy" else 1   # class indices, and dense ones
    assert len(set(nvrtc.exports(op, every=False))) == 2 * len(op.types["T"]) * of_labels


def test_compiling_to_ptx_keeps_the_locale(compiler, two_kernels):
    """NVRTC itself does not: afterwards Python took files for ASCII."""
    before = locale.getpreferredencoding(False)
    program = nvrtc.compile_op(compiler, "abs")
    assert locale.getpreferredencoding(False) == before
    assert b".target sm_52" in program.ptx, "the driver compiles it for every GPU from compute capability 5.2 up"


def test_a_broken_kernel_names_file_and_line(compiler):
    source = cuda_source.source(registry.get("abs").op).replace(*BROKEN, 1)
    kernel = (registry.get("abs").folder / "kernel.cu").read_text()
    line = kernel[:kernel.index(BROKEN[0])].count("\n") + 1
    program = compiler.compile(source, ["abs_forward<float>"])
    assert not program.compiled and f"kernel.cu({line}): error" in program.messages


def test_bad_options_and_names_are_errors(compiler):
    assert "nvrtc: error: invalid value" in compiler.compile("", [], ["--gpu-architecture=sm_1"]).messages
    assert not compiler.compile("__global__ void f() {}", ["g<float>"]).compiled


def test_the_account_of_a_kernel(compiler):
    """It tells shared memory, stack and spills of kernels made to have them."""
    source = """__global__ void __launch_bounds__(1024) hungry(double *x, int n) {
        __shared__ double tile[16];
        double y[40];
        tile[threadIdx.x % 16] = n;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 40; ++i) y[i] = x[i * n] + tile[i % 16];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 40; ++i) x[i * n + 1] = y[i] * y[39 - i];
    }
    __global__ void idle() {}"""
    hungry, idle = compiler.compile(source, ["hungry", "idle"], ["--gpu-architecture=sm_80"]).kernels
    assert (hungry.kernel, idle.kernel) == ("hungry", "idle")
    assert 0 < hungry.registers <= 64 and hungry.shared == 128 and hungry.spilled > 0 and hungry.stack > 0
    assert 0 < idle.registers <= 32 and idle.shared == idle.stack == idle.spilled == 0


def test_more_blocks_than_turing_has_room_for_are_no_fault(compiler):
    source = "__global__ void __launch_bounds__(256, 6) wide(int *x) { x[threadIdx.x] = 1; }"
    compiled = compiler.compile(source, ["wide"], ["--gpu-architecture=sm_75"])
    assert compiled.compiled and compiled.messages == "" and len(compiled.kernels) == 1


@pytest.mark.slow
def test_cuda_check_has_a_row_for_every_kernel(compiler, tool, monkeypatch, capsys):
    monkeypatch.setattr(nvrtc, "ARCHITECTURES", nvrtc.ARCHITECTURES[::6])
    assert tool.main(["--op", "abs", "--quick", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["registers", "sm_60", "sm_90"]
    assert [line.split()[0] for line in lines[1:3]] == ["abs_backward", "abs_forward"]
    assert all(int(cell) > 0 for cell in lines[1].split()[1:3]) and lines[1].split()[-1] == "0"
    monkeypatch.setattr(nvrtc, "ARCHITECTURES", ("sm_80",))   # rows of dtypes are the same for all
    monkeypatch.setattr(tool, "NEWER", ())
    assert tool.main(["--op", "abs", "--quick", "--dtypes", "--jobs", "1"]) == 0
    assert "abs_backward<__half>" in capsys.readouterr().out


def test_cuda_check_fails_on_warnings_and_spills(compiler, two_kernels, tool, monkeypatch, capsys):
    monkeypatch.setattr(nvrtc, "ARCHITECTURES", ("sm_80",))
    monkeypatch.setattr(tool, "NEWER", ())
    source = cuda_source.source(registry.get("abs").op)
    monkeypatch.setattr(cuda_source, "source", lambda op: source + "\n__device__ int unused() { int x; return 0; }\n")
    assert tool.main(["--op", "abs", "--jobs", "1"]) == 1
    assert "was declared but never referenced" in capsys.readouterr().err
    monkeypatch.setattr(cuda_source, "source", lambda op: source.replace(*BROKEN, 1))
    assert tool.main(["--op", "abs", "--jobs", "1"]) == 1
    assert "kernel.cu(" in capsys.readouterr().err
    usages = [nvrtc.Usage(f"f<{spilled}>", 64, 0, 8, spilled) for spilled in (tool.MOST_SPILLED, tool.MOST_SPILLED + 4)]
    assert tool.spills(usages) == "f<68> spills 68 bytes"


def test_a_newer_gpu_is_compiled_for_by_ptxas(compiler, two_kernels, tool, tmp_path):
    """A stand-in for ptxas: it has to get the PTX and may complain."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text("#!/bin/sh\n[ $# = 1 ] && { echo \"'sm_100','sm_90'\"; exit; }\n"
                     "grep -q 'target sm_52' \"$5\" && echo \"ptxas warning : $1 $2\" >&2\n")
    ptxas.chmod(ptxas.stat().st_mode | stat.S_IXUSR)
    assert tool.newer(str(ptxas)) == ["sm_100"] and tool.newer(None) == []
    _, program = tool.with_nvrtc("abs", None, True)
    assert tool.with_ptxas(str(ptxas), "abs", program, "sm_100").problem == "ptxas warning : -v -arch=sm_100"


def test_without_nvrtc_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(nvrtc.cuda_libraries, "in_wheel", lambda library: None)
    monkeypatch.setattr(nvrtc, "LIBRARY", "libabsent.so.11.2")
    with pytest.raises(gops.OpError, match="libabsent.*pip install nvidia-cuda-nvrtc-cu11"):
        nvrtc.Compiler()
