"""The CUDA path without a GPU: NVRTC compiles every kernel, and a recorder stands in for the launch."""
import ctypes
import locale
import math
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.core import custom, registry, rtc

OPS = gops.ops.list()
SHAPES = {"reorg": {"data": (1, 4, 4, 6)}, "center_loss": {"data": (3, 5), "centers": (4, 5)},
          "default": {"data": (3, 5)}}
MX_RTC_TYPES = {"__half", "float", "double", "uint8_t", "int8_t", "int32_t", "int64_t", "int"}


def example(name):
    """Attributes and shapes of every tensor, for a small input."""
    op = registry.get(name).op
    attrs = op.parse({"tiles": 2} if name == "tile" else {})
    return op, attrs, op.infer_shape(attrs, SHAPES.get(name, SHAPES["default"]))


def signatures(name):
    """{exported name: signature} over all dtypes."""
    op, attrs, shapes = example(name)
    found = {}
    for types in rtc.type_combinations(op):
        whole = {**types, "A": rtc.accumulator(types["T"])}
        for direction in ("forward", "backward"):
            found[rtc.export_name(op, direction, types)] = rtc.signature(
                op, direction, whole, op.kinds(attrs), op.cuda.scalars(attrs, shapes))
    return found


@pytest.fixture(scope="module")
def nvrtc():
    nvidia = pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    return ctypes.CDLL(str(next(pathlib.Path(nvidia.__path__[0]).glob("lib/libnvrtc.so.*"))))


def compile_source(nvrtc, source, exports, options=()):
    """(error code, log) of NVRTC."""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    for name in exports:
        assert nvrtc.nvrtcAddNameExpression(program, name.encode()) == 0
    with rtc.same_locale():
        code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode().strip()


@pytest.mark.parametrize("options", [(), (b"--gpu-architecture=compute_90",)], ids=["default", "compute_90"])
@pytest.mark.parametrize("name", OPS)
def test_kernels_compile_without_warnings(name, options, nvrtc):
    assert compile_source(nvrtc, rtc.source(registry.get(name).op), signatures(name), options) == (0, "")


def test_compiling_keeps_the_locale(nvrtc):
    """NVRTC itself does not: afterwards Python took files for ASCII."""
    before = locale.getpreferredencoding(False)
    compile_source(nvrtc, rtc.source(registry.get("abs").op), ["abs_forward<float>"])
    assert locale.getpreferredencoding(False) == before


def test_a_broken_kernel_does_not_compile(nvrtc):
    source = rtc.source(registry.get("abs").op).replace("int64_t size", "int64_t sise", 1)
    code, log = compile_source(nvrtc, source, ["abs_forward<float>"])
    assert code != 0 and "kernel.cu" in log


@pytest.mark.parametrize("name", OPS)
def test_signatures_are_what_the_kernels_declare(name):
    """Names, order, const and pointers of the derived signature, against the source."""
    source = re.sub(r"//[^\n]*", "", (registry.get(name).folder / "kernel.cu").read_text())
    declared = {}
    for kernel, text in re.findall(r"__global__ void (?:__launch_bounds__\(\d+\)\s+)?(\w+)\(([^)]*)\)", source):
        parameters = [re.sub(r"__restrict__|\s+", " ", part).split() for part in text.split(",")]
        declared[kernel] = [(p[0] == "const", "*" in "".join(p), p[-1].lstrip("*")) for p in parameters]
    for exported, signature in signatures(name).items():
        parts = [part.split() for part in signature.split(", ")]
        assert [(p[0] == "const", p[-1].startswith("*"), p[-1].lstrip("*")) for p in parts] == declared[
            exported.split("<")[0]]
        assert {p[1] if p[0] == "const" else p[0] for p in parts} <= MX_RTC_TYPES


@pytest.mark.parametrize("rows", [0, 1, 7, 256, 257, 10**6, 10**9])
@pytest.mark.parametrize("length", [1, 2, 32, 1000, 1025, 20000, 10**6])
def test_geometry_is_launchable(rows, length):
    grid, block = rtc.geometry(rows, length)
    assert 1 <= math.prod(block) <= 1024 and math.prod(block) % 32 == 0
    assert all(1 <= n <= 65536 for n in grid) and grid[1:] == (1, 1)


class Recorder:
    """mx.rtc.CudaModule without CUDA: parses the signature as MXNet does and keeps what is launched."""

    def __init__(self, source, options=(), exports=()):
        self.exports, self.launches = exports, Recorder.launches

    def get_kernel(self, name, signature):
        assert name in self.exports
        self.signature = signature
        return Kernel(name, signature, self.launches)


class Kernel:
    def __init__(self, name, signature, launches):
        self.name, self.signature, self.launches = name, signature, launches

    def launch(self, args, context, grid, block, shared_mem=0):
        parts = self.signature.split(", ")
        assert len(args) == len(parts)
        for part, arg in zip(parts, args):
            assert isinstance(arg, mx.nd.NDArray) == ("*" in part), part
            if isinstance(arg, mx.nd.NDArray):
                c_type = part.replace("const ", "").split()[0]
                assert rtc.C_TYPES[arg.dtype.__name__] == c_type, part
        self.launches.append((self.name, dict(zip((part.split()[-1].lstrip("*") for part in parts), args))))


@pytest.fixture
def launches(monkeypatch):
    Recorder.launches = []
    monkeypatch.setattr(mx.rtc, "CudaModule", Recorder)
    monkeypatch.setattr(rtc, "usable", lambda context: True)
    monkeypatch.setattr(rtc, "_failed", set())
    rtc._kernel.cache_clear()
    rtc._module.cache_clear()
    yield Recorder.launches
    rtc._kernel.cache_clear()
    rtc._module.cache_clear()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_what_a_custom_op_launches(name, dtype, launches):
    """Every tensor, request and scalar of the contract, in both directions."""
    op, attrs, shapes = example(name)
    dtypes = op.infer_type(attrs, {"data": dtype})
    arrays = {t.name: mx.nd.zeros(shapes[t.name], dtype=dtypes[t.name]) for t in op.tensors}
    inputs, outputs = [arrays[a.name] for a in op.inputs], [arrays[o.name] for o in op.outputs]
    operator = custom.Operator(registry.get(name), attrs)
    operator.forward(True, ["write"] * len(outputs), inputs, outputs, [])
    requests = ["add"] + ["write"] * (len(inputs) - 1)
    operator.backward(requests, [a.copy() for a in outputs], inputs, outputs, [a.copy() for a in inputs], [])
    (forward, given), (backward, taken) = launches
    C = rtc.C_TYPES
    assert forward.startswith(f"{name}_forward<{C[dtype]}") and backward.startswith(f"{name}_backward<{C[dtype]}")
    assert all(given[f"{out.name}_request"] == 1 for out in op.outputs) and taken["data_grad_request"] == 2
    for key, value in op.cuda.scalars(attrs, shapes).items():
        assert given[key] == taken[key] == value
    assert set(op.backward) <= set(taken)
    if "label_grad_request" in taken:   # a sparse label has no gradient: never touched, and still of the right type
        assert taken["label_grad_request"] == 0


def test_kernels_are_compiled_once_per_dtypes(launches, monkeypatch):
    made = []

    class Counting(Recorder):
        def __init__(self, *args, **kwargs):
            made.append(kwargs["exports"])
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(mx.rtc, "CudaModule", Counting)
    for _ in range(3):
        test_what_a_custom_op_launches("reorg", "float32", launches)
        launches.clear()
    assert made == [("reorg_forward<float>", "reorg_backward<float>")]


def test_without_a_kernel_mx_nd_computes_once_warned(launches, monkeypatch):
    """A source that does not compile: one warning with numbered lines, and the same results."""
    def fail(source, options=(), exports=()):
        raise mx.MXNetError("kernel.cu(3): error: planted")

    monkeypatch.setattr(mx.rtc, "CudaModule", fail)
    entry = registry.get("abs")
    operator = custom.Operator(entry, entry.op.parse({}))
    data, output = mx.nd.array([-1, 2]), mx.nd.array([np.nan, np.nan])
    with pytest.warns(RuntimeWarning, match=r"(?s)gluonops\.abs: no CUDA kernel.*planted.*   1  ") as caught:
        for _ in range(2):
            operator.forward(True, ["write"], [data], [output], [])
            np.testing.assert_array_equal(output.asnumpy(), [1, 2])
    assert len(caught) == 1
