"""Rtc: kernels in strings, run on the CPU by tests/cuda, and compiled by NVRTC where it is installed."""
import pathlib

import cuda_emulator
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.cuda import nvrtc
from gluonops.legacy import NDArrayOp, Rtc, rtc
from mxnet import autograd, gluon
from old_tutorials import RtcReorg

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "reorg.npz")
COPY = "const int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < x_dims[0]) y[i] = x[i] + 10 * x_ndim;"


@pytest.fixture
def gpu(monkeypatch):
    """Kernels run, here."""
    cuda_emulator.install(monkeypatch)
    rtc._kernel.cache_clear()
    yield
    mx.nd.waitall()
    rtc._kernel.cache_clear()


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("record", ["c1", "c3"])
def test_reorg_as_darknet_has_it(record, hybrid, gpu):
    stride = int(GOLDEN[f"{record}_stride"])

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.reorg = RtcReorg(stride)

        def hybrid_forward(self, F, data):
            return self.reorg(data)

    net, data = Net(), mx.nd.array(GOLDEN[f"{record}_input"])
    net.hybridize(hybrid)
    data.attach_grad()
    with autograd.record():
        output = net(data)
    output.backward(mx.nd.array(GOLDEN[f"{record}_head_grad"]))
    np.testing.assert_array_equal(output.asnumpy(), GOLDEN[f"{record}_output"])
    np.testing.assert_array_equal(data.grad.asnumpy(), GOLDEN[f"{record}_input_grad"])
    assert cuda_emulator.launches[0][0] == "old_reorg"


class RtcSoftmax(NDArrayOp):
    """A thread for each row; the kernel is named as the tutorial names it."""

    def __init__(self):
        super().__init__(False)
        self.fwd_kernel = None

    def forward(self, in_data, out_data):
        x, y = in_data[0], out_data[0]
        if self.fwd_kernel is None:
            self.fwd_kernel = Rtc("softmax", [("x", x)], [("y", y)], """
                int i = threadIdx.x + blockIdx.x*blockDim.x;
                float max_x = x[i*x_dims[1]];
                for (int j = 1; j < x_dims[1]; ++j) {
                    if (max_x < x[i*x_dims[1]+j]) {
                        max_x = x[i*x_dims[1]+j];
                    }
                }
                float sum = 0.0f;
                for (int j = 0; j < x_dims[1]; ++j) {
                    sum += expf(x[i*x_dims[1]+j]-max_x);
                }
                for (int j = 0; j < x_dims[1]; ++j) {
                    y[i*x_dims[1]+j] = expf(x[i*x_dims[1]+j]-max_x)/sum;
                }""")
        self.fwd_kernel.push([x], [y], (1, 1, 1), (x.shape[0], 1, 1))


def test_another_batch_gets_constants_of_its_own(gpu, rng):
    """The old class went on with the first one's."""
    softmax = RtcSoftmax()
    for shape in ((3, 4), (5, 2)):
        data = rng.standard_normal(shape)
        np.testing.assert_allclose(softmax(mx.nd.array(data)).asnumpy(),
                                   np.exp(data) / np.exp(data).sum(1, keepdims=True), rtol=1e-5)


def test_types_and_kernels_of_one_name(gpu):
    for dtype, add in (("int32", 1), ("float16", 2)):
        x, y = mx.nd.array([1, 2], dtype=dtype), mx.nd.zeros(2, dtype=dtype)
        kernel = Rtc("same", [("x", x)], [("y", y)], f"y[threadIdx.x] = x[threadIdx.x] + {add};")
        kernel.push([x], [y], (1, 1, 1), (2, 1, 1))
        assert y.asnumpy().tolist() == [1 + add, 2 + add]


def test_nvrtc_takes_the_source():
    arguments = (("const float *x", "x", (8, 2)), ("__half *y", "y", (8,)))
    source = "\n".join(rtc.sources("f", arguments, COPY).values())
    try:
        compiler = nvrtc.Compiler()
    except gops.OpError as error:
        pytest.skip(str(error))
    program = compiler.compile(source, ["f"])
    assert program.compiled and b".entry" in program.ptx
    assert not compiler.compile(source.replace("* x_ndim", "* x_rank"), ["f"]).compiled


def test_a_body_that_does_not_compile(monkeypatch):
    def refuse(*args, **kwargs):
        raise mx.MXNetError("f.cu(2): error: identifier \"z\" is undefined")

    monkeypatch.setattr(rtc.rtc, "usable", lambda context: True)
    monkeypatch.setattr(mx.rtc, "CudaModule", refuse)
    x = mx.nd.ones(2)
    with pytest.raises(gops.OpError, match=r"the kernel f does not compile:\nf.cu\(2\)(.|\n)*>    2  y\[0\] = z;"):
        Rtc("f", [("x", x)], [("y", x)], "// one\ny[0] = z;")


def test_without_a_gpu():
    x = mx.nd.ones(2)
    with pytest.raises(gops.OpError, match=r"legacy.Rtc: x is on cpu\(0\); a CUDA kernel runs on NVIDIA GPUs only"):
        Rtc("f", [("x", x)], [("y", x)], COPY)


@pytest.mark.parametrize("change, text", [
    ({"name": "1f"}, "'1f' is not a name in C"),
    ({"inputs": "y"}, "'y' is not a name in C, or two arrays have it"),
    ({"outputs": None}, "the kernel f has no output"),
    ({"dtype": "bool"}, "x is bool_?; expected float16, float32"),
    ({"ins": 0}, "f got 0 inputs and 1 output; expected 1 and 1"),
    ({"grid": (1, 1)}, r"grid_dims is \(1, 1\); expected three whole numbers"),
    ({"grid": (3 / 1, 1, 1)}, r"grid_dims is \(3.0, 1, 1\); .* divide with //"),
    ({"block": (2048, 1, 1)}, r"block_dims is \(2048, 1, 1\), which is 2048 threads; expected at most 1024"),
    ({"pushed": "numpy"}, "x is a ndarray; a CUDA kernel")])
def test_refused(change, text, gpu):
    x = mx.nd.ones(2).astype(change.get("dtype", "float32"))
    y = mx.nd.zeros(2)
    with pytest.raises(gops.OpError, match=text):
        kernel = Rtc(change.get("name", "f"), [(change.get("inputs", "x"), x)],
                     [] if "outputs" in change else [("y", y)], COPY)
        ins = [x.asnumpy() if "pushed" in change else x]
        kernel.push(ins[:change.get("ins", 1)], [y], change.get("grid", (1, 1, 1)), change.get("block", (2, 1, 1)))
