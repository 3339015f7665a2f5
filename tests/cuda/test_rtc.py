"""The CUDA path without a GPU: a recorder stands in for mx.rtc. That the kernels compile is test_nvrtc.py's."""
import collections
import contextlib
import ctypes
import dataclasses
import gc
import math
import re
import threading
import time
import warnings
from types import SimpleNamespace

import cuda_emulator
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import custom
from gluonops.contract import registry
from gluonops.contract.declarations import Launch, threads_along
from gluonops.cuda import cuda_source, record, rtc
from gluonops.runtime import driver
from op_suite import suite_of

OPS = rtc.operators()
MX_RTC_TYPES = {"__half", "float", "double", "uint8_t", "int8_t", "int32_t", "int64_t", "int"}


def example(name):
    """Attributes and shapes of every tensor, of the first case of the operator's suite."""
    op, case = registry.get(name).op, suite_of(name).cases[0]
    attrs = op.parse(case.attrs)
    input_shapes = {arg.name: shape for arg, shape in zip(op.inputs, case.shapes)}
    return op, attrs, op.infer_shape(attrs, input_shapes)


@pytest.mark.parametrize("name", OPS)
def test_signatures_have_types_that_mx_rtc_knows(name):
    op = registry.get(name).op
    for types in rtc.type_combinations(op):
        for direction in ("forward", "backward"):
            text = record.signature(op, direction, {**types, "A": rtc.accumulator(types["T"])})
            parts = [part.replace("*", "").replace("const ", "").split() for part in text.split(", ")]
            assert all(len(part) == 2 and part[0] in MX_RTC_TYPES for part in parts), text


@pytest.mark.parametrize("count", [0, 1, 7, 256, 257, 10**6, 10**9])
@pytest.mark.parametrize("length", [0, 1, 2, 32, 1000, 1025, 20000, 10**6])
def test_geometry_is_launchable(count, length):
    for launch in (Launch.of_rows(count, threads_along(length)), Launch.of_elements(count), Launch(count)):
        grid, block = rtc.geometry(launch)
        assert 1 <= math.prod(block) <= 1024 and math.prod(block) % 32 == 0
        assert all(1 <= n <= 65536 for n in grid) and grid[1:] == (1, 1)


class Recorder:
    """mx.rtc.CudaModule without CUDA: parses the signature as MXNet does and keeps what is compiled and launched."""
    compiled, launches = [], []
    broken = False   # whether compiling fails
    unloadable = ()   # devices that refuse the code when a kernel is first launched

    def __init__(self, source, options=(), exports=()):
        if Recorder.broken:
            raise mx.MXNetError("[12:00:00] src/common/rtc.cc:57: kernel.cu(3): error: planted")
        self.options, self.exports = options, exports
        Recorder.compiled.append(exports)

    def get_kernel(self, name, signature):
        assert name in self.exports
        return Kernel(name, signature)


class Kernel:
    def __init__(self, name, signature):
        self.name, self.signature = name, signature

    def launch(self, args, context, grid, block, shared_mem=0):
        if context.device_id in Recorder.unloadable:
            raise mx.MXNetError("CUDA_ERROR_NO_BINARY_FOR_GPU")
        parts = self.signature.split(", ")
        assert len(args) == len(parts)
        for part, arg in zip(parts, args):
            assert isinstance(arg, mx.nd.NDArray) == ("*" in part), part
            if isinstance(arg, mx.nd.NDArray):
                c_type = part.replace("const ", "").split()[0]
                assert rtc.C_TYPES[arg.dtype.__name__] == c_type, part
        Recorder.launches.append((self.name, dict(zip((part.split()[-1].lstrip("*") for part in parts), args))))


@pytest.fixture
def launches(monkeypatch):
    for name, value in (("compiled", []), ("launches", []), ("broken", False), ("unloadable", ())):
        monkeypatch.setattr(Recorder, name, value)
    monkeypatch.setattr(mx.rtc, "CudaModule", Recorder)
    monkeypatch.setattr(rtc, "usable", lambda context: True)
    monkeypatch.setattr(rtc, "_failed", {})
    monkeypatch.setattr(rtc, "Start", cuda_emulator.Start)
    monkeypatch.setattr(driver, "make_current", lambda device: None)
    forget()
    yield Recorder.launches
    forget()


def forget():
    """Drop every kernel and everything that is prepared for one."""
    for cached in (rtc._bound_op, rtc._kernel, rtc._module):
        cached.cache_clear()


def run_abs(values=(-1, 2), context=None, dtype="float32", request="write"):
    """abs by its CustomOp's own method, on a device that may only be one in name: cpu(3) stands for gpu(3)."""
    entry = registry.get("abs")
    data = mx.nd.array(values, context, dtype)
    output = mx.nd.ones_like(data)
    bound_op = rtc.BoundOp.of(entry.op, entry.op.parse({}), [data])
    custom.Operator(entry, bound_op).forward(True, [request], [data], [output], [])
    return output.asnumpy()


@contextlib.contextmanager
def warned():
    """The texts of our warnings; MXNet's own, of SciPy's old names, are not looked at."""
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RuntimeWarning)
        yield texts
        mx.nd.waitall()
        texts += [str(warning.message) for warning in caught]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", OPS)
def test_what_a_custom_op_launches(name, dtype, launches):
    """The kernel gets every tensor, request and scalar of the contract, in both directions."""
    op, attrs, shapes = example(name)
    dtypes = op.infer_type(attrs, {op.inputs[0].name: dtype})
    arrays = {t.name: mx.nd.zeros(shapes[t.name], dtype=dtypes[t.name]) for t in op.tensors}
    inputs, outputs = [arrays[a.name] for a in op.inputs], [arrays[o.name] for o in op.outputs]
    operator = custom.Operator(registry.get(name), rtc.BoundOp.of(op, attrs, inputs))
    operator.forward(True, ["write"] * len(outputs), inputs, outputs, [])
    requests = ["add"] + ["write"] * (len(inputs) - 1)
    operator.backward(requests, [a.copy() for a in outputs], inputs, outputs, [a.copy() for a in inputs], [])
    (forward, of_forward), (backward, of_backward) = launches[0], launches[-1]
    plans = {direction: record.plan(op, direction, attrs, shapes, dtype) for direction in ("forward", "backward")}
    assert [kernel for kernel, _ in launches] == [
        forward] * len(plans["forward"].steps) + [backward] * len(plans["backward"].steps)
    C = rtc.C_TYPES
    assert forward.startswith(f"{name}_forward<{C[dtype]}") and backward.startswith(f"{name}_backward<{C[dtype]}")
    assert all(of_forward[f"{out.name}_request"] == 1 for out in op.outputs)
    assert of_backward[f"{op.inputs[0].name}_grad_request"] == 2
    for key, value in plans["forward"].arguments.items():
        if isinstance(value, tuple):
            assert tuple(of_forward[key].asnumpy()) == tuple(of_backward[key].asnumpy()) == pytest.approx(value)
        else:
            assert of_forward[key] == of_backward[key] == value
    assert set(op.backward) <= set(of_backward)
    if "label_grad_request" in of_backward:   # a sparse label has no gradient, and still the right type
        assert of_backward["label_grad_request"] == 0


class TestCompiling:
    def test_once_per_dtypes_for_all_devices(self, launches):
        """MXNet's module keeps the PTX, and loads it on every GPU that launches a kernel."""
        for _ in range(3):
            for dtype in ("float32", "float16"):
                for device in (0, 1):
                    run_abs(context=mx.cpu(device), dtype=dtype)
        assert Recorder.compiled == [(f"abs_forward<{t}>", f"abs_backward<{t}>")
                                     for t in ("float", "__half")]
        assert len(launches) == 12

    def test_not_before_the_first_launch(self, launches):
        mx.sym.Custom(mx.sym.var("data"), op_type="gluonops_abs").infer_shape(data=(2,))
        assert not Recorder.compiled

    def test_once_for_many_threads(self, launches, monkeypatch):
        """MXNet runs CustomOps in threads of its own."""
        def slow(self, source, options=(), exports=()):
            time.sleep(0.05)
            original(self, source, options, exports)

        original = Recorder.__init__
        monkeypatch.setattr(Recorder, "__init__", slow)
        threads = [threading.Thread(target=run_abs) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(Recorder.compiled) == 1 and len(launches) == 8

    def test_in_a_context_of_the_thread_and_device(self, launches, monkeypatch):
        """MXNet loads the code in the thread that launches; what makes a context current: test_cuda_install.py."""
        contexts = []
        monkeypatch.setattr(driver, "make_current", lambda device: contexts.append((threading.get_ident(), device, len(
            launches))))
        thread = threading.Thread(target=lambda: [run_abs(context=mx.cpu(device)) for device in (1, 0)])
        thread.start()
        thread.join()
        run_abs()
        assert contexts == [(thread.ident, 1, 0), (thread.ident, 0, 1)], "code that is loaded is found in any thread"

    def test_what_is_loaded_is_never_freed(self, launches, monkeypatch):
        """Freeing it at the interpreter's end, without a driver, would end the process with an abort."""
        freed = []
        for kind in (Recorder, Kernel):
            monkeypatch.setattr(kind, "__del__", lambda self: freed.append(self), raising=False)
        run_abs()
        forget()
        gc.collect()
        assert launches and not freed
        Kernel("one that is not kept", "")
        assert len(freed) == 1

    def test_options_reach_nvrtc(self, launches, monkeypatch):
        monkeypatch.setattr(rtc, "OPTIONS", ("-lineinfo",))
        op = registry.get("abs").op
        assert rtc._module("abs", (rtc.export_name(op, "forward", {"T": "float32"}),)).options == ("-lineinfo",)

    def test_an_error_shows_kernels_options_and_lines(self, launches, monkeypatch):
        monkeypatch.setattr(Recorder, "broken", True)
        monkeypatch.setattr(rtc, "OPTIONS", ("-lineinfo", "--fmad=false"))
        with pytest.raises(gops.OpError) as caught:
            rtc._module("abs", ("abs_forward<float>",))
        assert str(caught.value).startswith(
            "gluonops.abs: the CUDA kernels abs_forward<float> do not compile with -lineinfo --fmad=false:\n")
        lines = cuda_source.sources(registry.get("abs").op)["kernel.cu"].splitlines()
        shown = [f"{'>' if number == 3 else ' '}{number:5d}  {lines[number - 1]}" for number in range(1, 6)]
        assert "kernel.cu(3): error: planted\nkernel.cu:\n" + "\n".join(shown) + "\n" in str(caught.value)

    def test_excerpts_of_both_files(self):
        files = {"prelude.cuh": "a\nb\nc\nd\n", "kernel.cu": "\n".join("abcdefghij")}
        messages = "prelude.cuh(1): error: x\nkernel.cu(4): error: y\nkernel.cu(5): warning: z"
        text = cuda_source.excerpts(files, messages, around=1)
        assert text.splitlines() == ["prelude.cuh:", ">    1  a", "     2  b",
                                     "kernel.cu:", "     3  c", ">    4  d", ">    5  e", "     6  f"]
        assert cuda_source.excerpts(files, "nvrtc: error: invalid value for --gpu-architecture") == ""

    def test_lines_are_those_of_the_files(self):
        files = cuda_source.sources(registry.get("reorg").op)
        assert list(files) == ["cuda/types.cuh", "cuda/record.inl", "cuda/math.cuh", "prelude.cuh", "constants",
                               "record", "kernel.cu", "kernels"]
        assert cuda_source.source(registry.get("reorg").op) == "\n".join(
            f'#line 1 "{name}"\n{text}' for name, text in files.items())

    def test_a_familys_files_come_before_the_kernel(self):
        files = cuda_source.sources(registry.get("softmax_output").op)
        assert list(files) == [*cuda_source.prelude(), "constants", "_labels/labels.cuh", "_softmax/rows.cuh",
                               "_shared_rows/shared_rows.cuh", "_softmax/sums.cuh", "_softmax/softmax.cuh",
                               "_softmax/class_loss.cuh", "record", "kernel.cu", "kernels"]
        assert not any("#include" in text for text in files.values()), "NVRTC has no files to include"
        kernel = (registry.get("softmax_output").folder / "kernel.cu").read_text()
        lines, in_source = kernel.splitlines(), files["kernel.cu"].splitlines()
        assert [line for line in lines if not line.startswith("#include")] == [
            line for line, original in zip(in_source, lines) if not original.startswith("#include")]
        assert len(in_source) == len(lines), "a compiler's line numbers are the file's"

    def test_a_header_is_taken_once_and_behind_what_it_includes(self, tmp_path):
        (tmp_path / "_family").mkdir()
        (tmp_path / "op").mkdir()
        (tmp_path / "_family" / "deep.cuh").write_text("deep\n")
        (tmp_path / "_family" / "top.cuh").write_text('#include "../_family/deep.cuh"\ntop\n')
        kernel = tmp_path / "op" / "kernel.cu"
        kernel.write_text('#include "../_family/top.cuh"\n#include "../_family/deep.cuh"\n')
        assert [path.name for path in cuda_source._headers(kernel)] == ["deep.cuh", "top.cuh"]


class TestFallback:
    """Where a kernel cannot be had, mx.nd computes the same, after one warning."""

    def test_source_that_does_not_compile(self, launches, monkeypatch):
        monkeypatch.setattr(Recorder, "broken", True)
        with warned() as caught:
            for _ in range(3):
                np.testing.assert_array_equal(run_abs(), [1, 2])
                np.testing.assert_array_equal(run_abs(request="add"), [2, 3])
        text, = caught
        assert re.match(r"(?s)gluonops\.abs: there is no CUDA kernel for float32 on cpu\(0\), so it computes with "
                        r"mx\.nd instead: "
                        r".*planted.*>    3  ", text) and not launches

    def test_each_dtype_and_device_on_its_own(self, launches, monkeypatch):
        monkeypatch.setattr(Recorder, "unloadable", (1,))
        with warned() as caught:
            for _ in range(2):
                for device in (0, 1):
                    for dtype in ("float32", "float64"):
                        run_abs(context=mx.cpu(device), dtype=dtype)
        assert [text.split(", so it")[0] for text in caught] == [
            f"gluonops.abs: there is no CUDA kernel for {dtype} on cpu(1)" for dtype in ("float32", "float64")]
        assert len(launches) == 4, "the other device has its kernels"

    def test_code_that_does_not_load(self, launches, monkeypatch):
        """A module is loaded at the first launch; that error is raised right there."""
        monkeypatch.setattr(Recorder, "unloadable", (0,))
        with warned() as caught:
            for _ in range(2):
                np.testing.assert_array_equal(run_abs(), [1, 2])
        text, = caught
        assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in text

    def test_many_threads_warn_once(self, launches, monkeypatch):
        monkeypatch.setattr(Recorder, "broken", True)
        with warned() as caught:
            threads = [threading.Thread(target=run_abs) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(caught) == 1

    def test_another_kind_of_error_is_not_hidden(self, launches, monkeypatch):
        monkeypatch.setattr(Kernel, "launch", lambda self, *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_abs()


    def test_a_kernel_that_could_not_be_loaded_is_tried_again(self, launches, monkeypatch):
        """The pauses are 1, 2, 4 ... seconds, and there is one warning."""
        clock = [0.0]
        monkeypatch.setattr(rtc.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(Recorder, "unloadable", (0,))
        with warned() as caught:
            for now in (0.0, 0.9, 1.0, 2.9):   # fails, is not tried, fails, is not tried
                clock[0] = now
                run_abs()
            assert not launches
            monkeypatch.setattr(Recorder, "unloadable", ())
            run_abs()
            assert not launches, "it is tried again at 3.0"
            clock[0] = 3.0
            run_abs()
        assert len(launches) == 1 and len(caught) == 1 and not rtc._failed

    def test_source_is_never_compiled_again(self, launches, monkeypatch):
        monkeypatch.setattr(Recorder, "broken", True)
        with warned():
            run_abs()
        monkeypatch.setattr(Recorder, "broken", False)
        monkeypatch.setattr(rtc.time, "monotonic", lambda: 1e9)
        run_abs()
        assert not launches

    @pytest.mark.parametrize("capability", ["9.0", "12.0"])
    def test_where_mxnet_has_no_code_for_the_gpu(self, capability, launches, monkeypatch):
        """MXNet's operators would fail later, and with a message that does not say why."""
        monkeypatch.setattr(rtc, "mxnet_computes", lambda context: False)
        monkeypatch.setattr(driver, "capability", lambda device: capability)
        monkeypatch.setattr(Recorder, "unloadable", (0,))
        said = (rf"(?s)gluonops\.abs: there is no CUDA kernel for float32 on cpu\(0\) "
                rf"\(compute capability {capability}\), and MXNet 1\.9\.1 has no code.*NO_BINARY.*mx\.cpu\(\)")
        for _ in range(2):
            with pytest.raises(gops.OpError, match=said):
                run_abs()

    @pytest.mark.parametrize("device, capability, computes", [
        ("cpu", "9.0", True), ("gpu", "9.0", False), ("gpu", "8.9", True), ("gpu", "5.0", True), ("gpu", "3.7", False),
        ("gpu", None, True)])
    def test_where_mxnet_computes(self, device, capability, computes, monkeypatch):
        monkeypatch.setattr(driver, "capability", lambda index: capability)
        assert rtc.mxnet_computes(mx.Context(device, 0)) == computes

    @pytest.mark.parametrize("computes", [True, False])
    def test_gradients_of_labels_are_zero(self, computes, launches, monkeypatch):
        """No operator of MXNet's makes them where it has none for the GPU."""
        copied, copyto = [], mx.nd.NDArray.copyto
        monkeypatch.setattr(mx.nd.NDArray, "copyto", lambda self, other: copied.append(self) or copyto(self, other))
        monkeypatch.setattr(rtc, "mxnet_computes", lambda context: computes)
        entry = registry.get("softmax_cross_entropy")
        data, label = mx.nd.ones((2, 3)), mx.nd.zeros((2,))
        outputs = [mx.nd.ones((2,)) for _ in entry.op.outputs]
        gradients = [mx.nd.ones((2, 3)), mx.nd.ones((2,))]
        operator = custom.Operator(entry, rtc.BoundOp.of(entry.op, entry.op.parse({}), [data, label]))
        operator.backward(["write", "write"], outputs, [data, label], outputs, gradients, [])
        assert not gradients[1].asnumpy().any() and len(launches) == 1 and bool(copied) == (not computes)


class TestPrepared:
    """What a launch needs besides arrays is made once."""

    @pytest.fixture
    def inferred(self, launches, monkeypatch):
        """The shapes that kernels have been prepared for."""
        shapes_asked = []
        cuda = dataclasses.replace(registry.get("reorg").op.cuda, derive=lambda attrs, shapes: (
            shapes_asked.append(shapes["data"]) or {}))
        monkeypatch.setitem(vars(registry.get("reorg").op), "cuda", cuda)
        return shapes_asked

    def run(self, shape, dtype="float32", request="write", stride="2"):
        data = mx.nd.array(np.zeros(shape), dtype=dtype)
        data.attach_grad(request)
        with mx.autograd.record():
            output = mx.nd.Custom(data, op_type="gluonops_reorg", stride=stride)
        output.backward()
        mx.nd.waitall()

    def test_once_for_each_shape_dtype_request_and_attribute(self, inferred):
        varied = [{"shape": (1, 4, 4, 4)}, {"shape": (1, 4, 4, 8)}, {"shape": (1, 4, 4, 4), "dtype": "float16"},
                  {"shape": (1, 16, 4, 4), "stride": "4"}]
        for _ in range(3):
            for bound_op in varied:
                self.run(**bound_op)
        assert len(inferred) == 2 * len(varied), "forward and backward of each"
        self.run((1, 4, 4, 4), request="add")
        assert len(inferred) == 2 * len(varied) + 1

    def test_kept_memory_of_two_nodes_is_one_array(self, launches):
        """The lock keeps the steps of a node together, and the engine orders who writes the array."""
        entry = registry.get("softmax")
        attrs = entry.op.parse({})
        data = mx.nd.ones((2, 1 << 17))
        for _ in range(2):
            bound_op = rtc.BoundOp.of(entry.op, attrs, [data])
            custom.Operator(entry, bound_op).forward(True, ["write"], [data], [data.copy()], [])
        arrays = [arguments["counts"] for _, arguments in launches]
        assert len(arrays) == 4 and len({id(array) for array in arrays}) == 1   # two launches of each node

    @pytest.mark.parametrize("small, arrays", [(rtc.SMALL, 1), (0, 2)])
    def test_an_allocation_for_each_launch_is_for_large_memory(self, small, arrays, launches, monkeypatch):
        monkeypatch.setattr(rtc, "SMALL", small)
        entry = registry.get("softmax_focal_loss")
        data, label = mx.nd.ones((2, 1 << 17)), mx.nd.zeros((2,))
        outputs = [mx.nd.ones((2,)) for _ in range(3)]
        for _ in range(2):
            operator = custom.Operator(entry, rtc.BoundOp.of(entry.op, entry.op.parse({}), [data, label]))
            operator.forward(True, ["write"] * 3, [data, label], outputs, [])
        assert len({id(arguments["sums"]) for _, arguments in launches}) == arrays
        assert len({id(arguments["counts"]) for _, arguments in launches}) == 1, "its zeros are needed"

    def test_start_passes_addresses_as_mxnet_does(self, monkeypatch):
        """``Start`` is ``CudaKernel.launch`` without its conversions: both end in the same C call."""
        calls = []

        def call(handle, device, pointers, *sizes):
            array, request, table, count, scale = list(pointers)
            calls.append((handle, device, array, ctypes.c_int.from_address(request).value, table,
                          ctypes.c_int64.from_address(count).value, ctypes.c_double.from_address(scale).value,
                          [size.value for size in sizes]))
            return 0

        monkeypatch.setattr(mx.base._LIB, "MXRtcCudaKernelCall", call, raising=False)
        kernel = SimpleNamespace(handle=7, _name="f", _is_ndarray=[True, False, True, False, False],
                                 _dtypes=[np.float32, np.int32, np.float64, np.int64, np.float64])
        data, table = mx.nd.ones((3,)), mx.nd.ones((2,), dtype="float64")
        numbers = [2, table, 1 << 40, 0.5]
        rtc.Start(kernel, mx.gpu(1), (5, 6, 1), (32, 4, 1), numbers)([data])
        mx.rtc.CudaKernel.launch(kernel, [data, *numbers], mx.gpu(1), (5, 6, 1), (32, 4, 1))
        assert calls[0] == calls[1]
        assert calls[0] == (7, 1, data.handle.value, 2, table.handle.value, 1 << 40, 0.5, [5, 6, 1, 32, 4, 1, 0])


class TestInNets:
    """MXNet's threads launch kernels, and results are equal where nothing can be launched."""
    shape = (4, 8, 4, 4)

    def train(self, hybridize):
        """Return the gradients of a net with two of our layers after a step."""
        mx.random.seed(1)
        net = mx.gluon.nn.HybridSequential(prefix="net_")
        # The width is given: to find it, gluon records all warnings for itself, those of other threads included.
        net.add(gops.nn.Reorg(2), mx.gluon.nn.Dense(5, in_units=128), gops.nn.Abs())
        net.initialize()
        loss = gops.loss.SoftmaxCELoss()
        if hybridize:
            net.hybridize(static_alloc=True, static_shape=True)
            loss.hybridize()
        data, label = mx.nd.random.uniform(shape=self.shape), mx.nd.array([0, 1, 2, 4])
        with mx.autograd.record():
            value = loss(net(data), label)
        value.backward()
        return [value.asnumpy()] + [p.grad().asnumpy() for p in net.collect_params().values()]

    @pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
    def test_gluon(self, hybridize, launches, monkeypatch):
        with gops.backend("custom"):
            self.train(hybridize)
            mx.nd.waitall()
            kernels = [name.split("<")[0] for name, _ in launches]
            assert kernels == ["reorg_forward", "abs_forward", "softmax_cross_entropy_forward",
                               "softmax_cross_entropy_backward", "abs_backward"]
            assert all(exports[0].endswith(("<float>", "<float, float>")) for exports in Recorder.compiled)
            forget()
            monkeypatch.setattr(Recorder, "broken", True)
            with warned() as caught:
                results = self.train(hybridize)
        assert len(caught) == 3
        with gops.backend("builtin"):
            for result, expected in zip(results, self.train(hybridize)):
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)

    def fit(self):
        """Return the parameters after two epochs of Module with our loss head."""
        net = mx.sym.FullyConnected(gops.ops.abs(mx.sym.var("data")), num_hidden=3, name="fc")
        net = gops.ops.softmax_output(net, mx.sym.var("softmax_label"), name="softmax")
        data = np.random.RandomState(0).uniform(-1, 1, (8, 6)).astype(np.float32)
        module = mx.mod.Module(net)
        iterator = mx.io.NDArrayIter(data, np.arange(8) % 3, batch_size=4)
        module.fit(iterator, num_epoch=2, initializer=mx.init.One(), optimizer_params={"learning_rate": 0.1})
        mx.nd.waitall()   # nothing in fit waits for the last gradient
        return module.get_params()[0]

    def test_module(self, launches, monkeypatch):
        with gops.backend("custom"):
            self.fit()
            assert collections.Counter(name.split("<")[0] for name, _ in launches) == {
                "abs_forward": 4, "softmax_output_forward": 4, "softmax_output_backward": 4}
            forget()
            monkeypatch.setattr(Recorder, "broken", True)
            with warned() as caught:
                results = self.fit()
        assert len(caught) == 2
        with gops.backend("builtin"):
            for name, expected in self.fit().items():
                np.testing.assert_allclose(results[name].asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
