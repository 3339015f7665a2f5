"""The emulator itself: what CUDA defines comes out as CUDA defines it, and a planted bug of each kind is caught."""
import itertools
import os
import pathlib
import re
import subprocess
import sys

import cuda_emulator
import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from cuda_emulator import CudaModule, EmulatorError
from gluonops.contract import registry
from gluonops.cuda import cuda_source, record, rtc

HERE = pathlib.Path(__file__).parent
SANITIZE = HERE.parent / "sanitize.sh"
SANITIZED = {**os.environ, "GLUONOPS_CUDA_SANITIZE": "1"}
PRELUDE = cuda_source.joined(cuda_source.prelude())
MARK = '#line 1 "kernel.cu"\n'


class Kernel:
    """A small kernel of one of the tests below. All of them are compiled as one program, when the first is launched."""
    all = []

    def __init__(self, body, declared="float *out", bounds="", prelude=PRELUDE):
        self.name, self.declared, self.prelude = f"f{len(Kernel.all)}", declared, prelude
        self.text = (f"{MARK}template <typename T> __global__ void {bounds} {self.name}({declared})\n"
                     f"{{\n{body}\n}}\n")
        Kernel.all.append(self)

    def launch(self, arrays, grid=1, block=64, signature=None):
        """Launch it on float32 arrays."""
        neighbours = [kernel for kernel in Kernel.all if kernel.prelude == self.prelude]
        source = self.prelude + "".join(kernel.text for kernel in neighbours)
        module = CudaModule(source, exports=[f"{kernel.name}<float>" for kernel in neighbours])
        kernel = module.get_kernel(f"{self.name}<float>", signature or self.declared)
        kernel.launch(arrays, mx.cpu(), (grid, 1, 1), (block, 1, 1))

    def computed(self, size=64, **how):
        """Return what it leaves in its only argument."""
        out = mx.nd.zeros(size)
        self.launch([out], **how)
        return out.asnumpy()


SHUFFLES = {
    "__shfl_xor_sync(~0u, x, 5)": lambda i: i ^ 5,
    "__shfl_sync(~0u, x, 40)": lambda i: 8,
    "__shfl_sync(~0u, x, 3, 8)": lambda i: i // 8 * 8 + 3,
    "__shfl_up_sync(~0u, x, 3)": lambda i: i - 3 if i >= 3 else i,
    "__shfl_down_sync(~0u, x, 3, 16)": lambda i: i + 3 if i % 16 + 3 < 16 else i,
}
SHUFFLED = {call: Kernel(f"const float x = threadIdx.x % 32; out[threadIdx.x] = {call};") for call in SHUFFLES}
QUOTIENTS = [(7, 2), (2**32 - 1, 10), (2**32, 10), (2**50, 2**33 + 1), (5, 2**40)]
DIVIDED = {(a, b): Kernel(f"const int64_t a = {a}ll, b = {b}ll; out[0] = quotient(a, b) == a / b;")
           for a, b in QUOTIENTS}


class TestRight:
    indices = Kernel("const int64_t i = first_item(); out[i] = blockIdx.x * 1000 + threadIdx.x + i * blockDim.x;")

    def test_indices(self):
        out = self.indices.computed(size=96, grid=3, block=32)
        np.testing.assert_array_equal(out, [i // 32 * 1000 + i % 32 + i * 32 for i in range(96)])

    @pytest.mark.parametrize("call", SHUFFLES)
    def test_shuffles(self, call):
        out = SHUFFLED[call].computed()
        np.testing.assert_array_equal(out, [SHUFFLES[call](i) for i in range(32)] * 2)

    part_of_a_warp = Kernel("out[threadIdx.x] = threadIdx.x;\n"
                            "if (threadIdx.x < 4) out[threadIdx.x] = __shfl_xor_sync(0xfu, out[threadIdx.x], 1);")

    def test_part_of_a_warp_shuffles(self):
        out = self.part_of_a_warp.computed(size=32, block=32)
        np.testing.assert_array_equal(out[:5], [1, 0, 3, 2, 4])

    @pytest.mark.parametrize("a, b", QUOTIENTS)
    def test_quotients(self, a, b):
        assert DIVIDED[a, b].computed()[0] == 1

    double = Kernel("out[threadIdx.x] = float(__shfl_xor_sync(~0u, 1e-300 * threadIdx.x, 1) * 1e300);")

    def test_a_double_is_shuffled_whole(self):
        np.testing.assert_allclose(self.double.computed(), [i ^ 1 for i in range(64)])

    shared = Kernel("__shared__ float all[64];\nall[threadIdx.x] = threadIdx.x;\n__syncthreads();\n"
                    "out[threadIdx.x] = all[63 - threadIdx.x];")

    def test_shared_memory_and_barriers(self):
        np.testing.assert_array_equal(self.shared.computed(), np.arange(64)[::-1])

    unwritten = Kernel("__shared__ float all[32];\nout[first_item()] = all[threadIdx.x];\n__syncthreads();\n"
                       "all[threadIdx.x] = 1;")

    def test_shared_memory_is_full_of_nan_in_every_block(self):
        assert np.isnan(self.unwritten.computed(grid=2, block=32)).all()

    atomics = Kernel("__shared__ int n;\nif (threadIdx.x == 0) n = 5;\n__syncthreads();\natomicAdd(&n, 2);\n"
                     "__syncthreads();\nout[threadIdx.x] = n;")

    def test_atomics(self):
        np.testing.assert_array_equal(self.atomics.computed(), [133] * 64)

    vectors = Kernel("*(float4 *)(out + 4 * threadIdx.x) = make_float4(0, 1, 2, threadIdx.x);")

    def test_vectors(self):
        np.testing.assert_array_equal(self.vectors.computed(size=256).reshape(64, 4)[5], [0, 1, 2, 5])

    halves = Kernel("for (int64_t i = first_item(); i < size; i += item_step()) out[i] = float(__half(in[i]));",
                    declared="const float *in, float *out, int64_t size")

    def test_every_float16(self):
        """Each converts to float and back; what lies between neighbours becomes the nearer one, ties to even."""
        half = np.arange(0x7c00, dtype="uint16").view("float16")
        wide = half.astype("float32")
        middle = (wide[1:] + wide[:-1]) / 2
        values = np.concatenate([wide, -wide, middle, np.nextafter(middle, np.float32(0)),
                                 np.nextafter(middle, np.float32(1e9)), [65519.9, 65520, 1e9, np.inf, -np.inf]])
        values = values.astype("float32")
        stored, got = mx.nd.array(values, dtype="float32"), mx.nd.zeros(values.shape, dtype="float32")
        self.halves.launch([stored, got, values.size])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got.asnumpy(), values.astype("float16").astype("float32"))

    order = Kernel("__shared__ int n[1];\nif (n[0] < 0) n[0] = 0;\nout[threadIdx.x] = n[0]++;")

    def test_the_order_of_threads_changes(self):
        """This shows a missing barrier; and a launch runs every thread once."""
        orders = {tuple(self.order.computed()) for _ in range(4)}
        assert len(orders) == 4 and all(sorted(order) == list(range(64)) for order in orders)


# What CUDA leaves undefined: (what the emulator says, the kernel, how it is launched).
REFUSED = {
    "some threads miss a barrier": (r"wait for ever: 7 at __syncthreads \(kernel.cu:3\), 57 have returned",
                                    Kernel("if (threadIdx.x < 7) __syncthreads();"), {}),
    "threads meet at different barriers": (
        "meet at two barriers, kernel.cu:[46] and kernel.cu:[46]",
        Kernel("if (threadIdx.x < 7)\n__syncthreads();\nelse\n__syncthreads();"), {}),
    "lanes miss a shuffle": (
        r"wait for ever: 16 at a shuffle \(kernel.cu:4\), 48 have returned",
        Kernel("if (threadIdx.x < 16)\nout[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.f, 1);"), {}),
    "a warp that is not full": ("wait for ever: 20 at a shuffle",
                                Kernel("out[threadIdx.x] = __shfl_xor_sync(~0u, 1.f, 1);"), {"block": 20}),
    "a shuffle from outside its mask": ("takes from lane 4, which its mask leaves out",
                                        Kernel("if (threadIdx.x < 4) out[0] = __shfl_sync(0xfu, 1.f, 4);"), {}),
    "a shuffle without its own lane": ("mask leaves out the calling lane",
                                       Kernel("if (threadIdx.x < 8) out[0] = __shfl_sync(0xfu, 1.f, 0);"), {}),
    "lanes shuffle in different places": (
        "meet at two shuffles", Kernel("if (threadIdx.x < 16)\nout[0] = __shfl_sync(~0u, 1.f, 0);\nelse\n"
                                       "out[1] = __shfl_sync(~0u, 1.f, 0);"), {}),
    "an index outside a shared array": (
        "an index outside an array, kernel.cu:4",
        Kernel("__shared__ float all[63];\nall[threadIdx.x] = 1;\nout[threadIdx.x] = all[0];"), {}),
    "too much shared memory": (
        "more than 48 KB",
        Kernel("__shared__ double all[6145];\nall[threadIdx.x] = 1;\nout[threadIdx.x] = all[0];"), {}),
    "a misaligned vector": ("misaligned", Kernel("*(float4 *)(out + 1) = make_float4(1, 2, 3, 4);"), {}),
    "more threads than launch bounds": ("cannot be launched", Kernel("", bounds="__launch_bounds__(32)"), {}),
    **{f"a launch that never ends: {loop}": (
        r"the launch does not end: 1000000 steps were not enough \(thread \d+,0,0 of block 0,0,0\)", Kernel(loop), {})
       for loop in ("while (out[0] != 1) out[1] += 1;", "for (;;) __syncthreads();")},
    **{f"a write outside a tensor at {index}": ("writes outside out",
                                                Kernel(f"if (threadIdx.x == 0) out[{index}] = 1;"), {})
       for index in (-1, 64, -64, 127)},
    **{f"arithmetic: {expression}": (what, Kernel(f"out[threadIdx.x] = float({expression});"), {})
       for expression, what in (("int(threadIdx.x) * 0x7fffffff", "multiplication that overflows"),
                                ("1 / int(threadIdx.x)", "division by zero"),
                                ("int64_t(1e19f + threadIdx.x)", "does not fit"),
                                ("1 << (32 + threadIdx.x)", "shift by too much"))},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cuda_leaves_undefined_is_refused(what, monkeypatch):
    match, kernel, how = REFUSED[what]
    monkeypatch.setattr(cuda_emulator, "MOST_STEPS", 1000000)
    with pytest.raises(EmulatorError, match=match):
        kernel.computed(**how)


class TestRefused:
    """What a signature of mx.rtc may get wrong unnoticed, and what is NaN."""

    neighbours = Kernel("const float *p = out; out[threadIdx.x] = threadIdx.x & 1 ? p[-1] : p[64];")

    def test_a_read_outside_a_tensor_is_nan(self):
        assert np.isnan(self.neighbours.computed()).all()

    all_but_one = Kernel("if (threadIdx.x != 5) out[threadIdx.x] = 1;")

    def test_an_unwritten_element_is_nan(self):
        assert np.isnan(self.all_but_one.computed()).sum() == 1

    ones = Kernel("out[threadIdx.x] = 1;")

    @pytest.mark.parametrize("signature", ["const float *out", "double *out", "float *out, int n"])
    def test_a_signature_that_is_not_the_kernels(self, signature):
        with pytest.raises(EmulatorError, match=r"declares \(float \*\), its signature says"):
            self.ones.computed(signature=signature)

    writes_const = Kernel("((float *)in)[0] = 5;", declared="const float *in, float *out")

    def test_a_write_to_what_is_const(self):
        with pytest.raises(EmulatorError, match="writes in, which its signature calls const"):
            self.writes_const.launch([mx.nd.zeros(4), mx.nd.zeros(4)])

    how = {"declared": "float *out, int out_request"}
    writes, stores = Kernel("out[0] = 5;", **how), Kernel("store(out, 0, 5, out_request);", **how)

    def test_a_write_to_what_is_to_be_left_alone(self):
        with pytest.raises(EmulatorError, match="writes out, which is to be left alone"):
            self.writes.launch([mx.nd.zeros(4), 0])
        self.stores.launch([mx.nd.zeros(4), 0])

    def test_a_tensor_of_another_type(self):
        with pytest.raises(EmulatorError, match="takes float for out and got float64"):
            self.ones.launch([mx.nd.zeros(4, dtype="float64")])

    @pytest.mark.parametrize("block", [0, 1025])
    def test_a_launch_that_cannot_be(self, block):
        with pytest.raises(EmulatorError, match="cannot be launched"):
            self.ones.computed(block=block)

    def test_a_kernel_that_does_not_compile(self):
        source = f"{PRELUDE}{MARK}template <typename T> __global__ void f(float *out)\n{{\nout[0] = undeclared;\n}}\n"
        with pytest.raises(EmulatorError, match=r"(?s)refuses the kernels.*kernel.cu:3"):
            CudaModule(source, exports=["f<float>"])


class Planted(CudaModule):
    """Its source has a bug: ``new`` in place of what ``old`` matches."""
    old = new = None

    def __init__(self, source, options=(), exports=()):
        assert re.search(self.old, source), f"the source no longer has {self.old}"
        super().__init__(re.sub(self.old, self.new, source, count=1), options, exports)


def leaving_out(pattern):
    """Return a CudaModule in which no thread waits at the barrier that is a pattern's group."""
    class Without(CudaModule):
        def __init__(self, source, options=(), exports=()):
            match = re.search(pattern, source)
            assert match, f"the source no longer has {pattern}"
            self.left_out = source[:match.start(1)].count("__syncthreads();")
            super().__init__(source, options, exports)
    return Without


# The inputs behind the first: shape of the data, random numbers -> name -> values.
MORE = {
    "center_loss": lambda shape, rng: {"label": rng.randint(0, 2, shape[:1]), "centers": rng.randn(2, *shape[1:])},
    "region_loss": lambda shape, rng: {"truth": rng.uniform(0.2, 0.8, (shape[0], 4, 5)) * [1, 1, 1, 1, 0], "seen": [0]},
    "yolo_loss": lambda shape, rng: {"truth": rng.uniform(0.1, 0.9, (shape[0], 70, 5)) * [1, 1, 1, 1, 0]},
    "rms_norm": lambda shape, rng: {"scale": rng.randn(shape[-1])},
    "l2_normalize": lambda shape, rng: {"scale": rng.randn(shape[1])},
    "dice_loss": lambda shape, rng: {"label": rng.randint(0, shape[1], (shape[0], *shape[2:]))},
    "softmax_focal_loss": lambda shape, rng: {"label": rng.randint(0, shape[1], shape[:1])},
    "box_iou": lambda shape, rng: {"lhs": corners(rng, 600), "rhs": corners(rng, 67)},
    "ohem": lambda shape, rng: {"data": rng.randint(1, 9, shape)},   # equal losses
    "group_norm": lambda shape, rng: {"gamma": rng.randn(shape[1]), "beta": rng.randn(shape[1])},
}
DEFAULTS = (None, None, None, None, "data", "float32")   # They are what is launched, and also the tensor and the dtype.


def corners(rng, count):
    """Boxes of corners that overlap."""
    return np.sort(rng.rand(count, 2, 2), axis=1).reshape(count, 4)


@pytest.fixture
def launched(monkeypatch, rng):
    """Runs a kernel: launched(CudaModule, what, request). Of a source of the test's own, only that one is compiled.

    It returns what the kernel leaves in a tensor that was random before, and what it should.
    """
    monkeypatch.setattr(cuda_emulator, "_seeds", itertools.count(1))

    def launched(module, what, request="write"):
        name, shape, attrs, direction, gradient, dtype, *_ = (*what, *DEFAULTS[len(what):])
        op, function = registry.get(name).op, getattr(gops.ops, name)
        if issubclass(module, Planted):
            monkeypatch.setattr(cuda_emulator, "instances", lambda exports: tuple(e for e in exports if direction in e))
        cuda_emulator.install(monkeypatch, module)
        others = MORE[name](shape, rng) if name in MORE else {}
        drawn = {op.inputs[0].name: rng.randn(*shape), **others}
        inputs = {key: mx.nd.array(values, dtype=dtype) for key, values in drawn.items()}
        for arg in op.inputs:
            if arg.gradient:
                inputs[arg.name].attach_grad()
        with gops.backend("builtin"), mx.autograd.record():
            output = function(*inputs.values(), **attrs)
        head = mx.nd.array(rng.randn(*output.shape), dtype=dtype)
        output.backward(head)
        hidden = {}
        if len(op.outputs) > 1 and direction == "backward":
            hidden = oracles.get(name).forward(op.parse(attrs), *[array.asnumpy() for array in inputs.values()])
            hidden = {key: mx.nd.array(values, dtype=dtype) for key, values in hidden.items()}
        tensors = {**hidden, **inputs, "output": output, "output_grad": head}
        written = "output" if direction == "forward" else gradient
        expected = output if direction == "forward" else inputs[written].grad
        before = rng.randn(*expected.shape).astype(dtype)
        result = mx.nd.array(before, dtype=dtype)
        requests, targets = [], []
        for tensor in record.written(op, direction):
            requests.append(request if tensor.name == written else "null")
            targets.append(result if tensor.name == written else mx.nd.zeros(1, dtype=dtype))
        rtc.launch(rtc.BoundOp.of(op, op.parse(attrs), list(inputs.values())), direction, tuple(requests),
                   [tensors[name] for name in record.read(op, direction)], targets)
        return result.asnumpy(), expected.asnumpy() + (before if request == "add" else 0)

    return launched


def right(result, expected):
    return np.allclose(result, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


# Bugs in the operators' own kernels: (operator, shape, attributes, what is there, what takes its place, the error).
# Without an error the numbers are wrong.
BARRIER = r"__syncthreads\(\);(   // the warps have left theirs)"
PLANTED = {
    "barrier_in_a_branch": ("softmax", (2, 1500), {}, BARRIER, r"if (threadIdx.x > 100) __syncthreads();\1",
                            "wait for ever|two barriers"),
    "shuffle_in_a_branch": ("softmax", (3, 100), {}, r"(value = combine\(value, __shfl_xor)",
                            r"if (threadIdx.x > 3) \1", "wait for ever"),
    "last_element_unwritten": ("abs", (3, 7), {}, r"i < size;", "i < size - 1;", None),
    "one_element_too_many": ("abs", (3, 7), {}, r"i < size;", "i <= size;", "writes outside output"),
    "first_element_unwritten": ("softmax", (3, 7), {}, r"first\(threadIdx.x \*", "first((threadIdx.x + 1) *", None),
    "input_not_const": ("abs", (3, 7), {}, r"const T \*__restrict__ data,", "T *__restrict__ data,",
                        "its signature says"),
    "add_is_ignored": ("abs", (3, 7), {}, r"request == ADD", "request == 7", None),
}


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_planted_in_an_operator_is_caught(bug, request_, launched):
    *what, old, new, error = PLANTED[bug]
    assert right(*launched(CudaModule, (*what, "forward"), request_))
    if error:
        with pytest.raises(EmulatorError, match=error):
            launched(type(bug, (Planted,), {"old": old, "new": new}), (*what, "forward"), request_)
    elif bug != "add_is_ignored" or request_ == "add":
        assert not right(*launched(type(bug, (Planted,), {"old": old, "new": new}), (*what, "forward"), request_))


# Every barrier of every kernel: (what precedes it, what follows, (operator, shape, attributes, direction)).
COPIES = ("tile", (1, 1030), {"tiles": (70, 1)}, "backward")
TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0), "classes": 3}
V4_LOSS = ("yolo_loss", (5, 16, 6, 7), {**TWO_ANCHORS, "dialect": "alexeyab", "iou_thresh": 0.2}, "forward")
OTHER_ANCHORS = ("yolo_loss", (5, 16, 6, 7), {**TWO_ANCHORS, "other_anchors": (0.3, 3.0, 2.5, 2.5)}, "forward")
CENTERS = ("center_loss", (5000, 2), {}, "backward")
GROUPS = ("group_norm", (3, 6, 600), {"num_groups": 3}, "forward")
HARDEST = ("ohem", (5, 900), {"keep": 100, "per_sample": True}, "forward")
BARRIERS = {
    "reduce_block_after": (r"partial\[thread / 32\] = value;\s*", "", GROUPS),
    "sums_before": ("", "   // the sums before", ("softmax", (9, 1500), {}, "backward")),
    "sums_after": ("", "   // the warps have left theirs", ("softmax", (9, 1500), {}, "forward")),
    "counted": ("", "   // the block has been counted", ("softmax_focal_loss", (3, 20000), {}, "forward")),
    "tile_loops": ("", "   // the loops are there", ("tile", (7, 2), {"tiles": (5, 3)}, "forward")),
    "tile_sums_before": ("", "   // the sums of the groups before", COPIES),
    "tile_sums_after": ("", "   // each thread has left its sums", COPIES),
    "rms_values": ("", "   // the values of all threads", ("rms_norm", (9, 1500), {}, "forward")),
    "rms_before": ("", "   // the sums before may", ("rms_norm", (9, 1500), {}, "forward")),
    "rms_sums": ("", "   // the sums of all threads", ("rms_norm", (90, 64), {}, "backward", "scale")),
    "rms_read": ("", "   // the sums are read", ("rms_norm", (90, 1000), {}, "backward", "scale", "float64")),
    "ohem_empty": ("", "   // the bins are empty", HARDEST),
    "ohem_counted": ("", "   // the losses are counted", HARDEST),
    "ohem_digit": ("", "   // the digit is found", HARDEST),
    "ohem_before": ("", "   // the sums of the losses before", HARDEST),
    "ohem_end": ("", "   // the end is found", HARDEST),
    "sum_before": ("", "   // what all warps have", HARDEST),
    "center_members": ("", "   // the members are there", CENTERS),
    "dice_before": ("", "   // the sums of the classes before", ("dice_loss", (2, 70, 300), {}, "forward")),
    "dice_sums": ("", "   // the sums of all warps", ("dice_loss", (2, 3, 300), {}, "forward")),
    "box_parts": ("", "   // the parts of all threads", ("box_iou", (600, 4), {}, "backward", "rhs")),
    "loss_assigned": ("", "   // all are assigned", V4_LOSS),
    "loss_parts": ("", "   // all threads have theirs", V4_LOSS),
    "loss_attributes": ("", "   // the attributes are there", OTHER_ANCHORS),
}


@pytest.mark.parametrize("barrier", BARRIERS)
def test_every_barrier_is_needed(barrier, launched, monkeypatch):
    """Without it some launch of eight is wrong. With it none is, of those that the tests of all kernels make.

    Two blocks stride over the work of many.
    """
    before, after, what = BARRIERS[barrier]
    without = leaving_out(f"{before}(__syncthreads\\(\\);){after}")
    monkeypatch.setattr(rtc, "MAX_BLOCKS", 2)

    def wrong():
        try:
            return not right(*launched(without, what))
        except EmulatorError:
            return True

    assert all(right(*launched(CudaModule, what)) for _ in range(2))
    assert any(wrong() for _ in range(8))


@pytest.mark.parametrize("written", ["data", "centers"])
def test_more_samples_than_are_searched_at_once(written, launched):
    assert right(*launched(CudaModule, ("center_loss", (65600, 1), {}, "backward", written)))


REDUCTION = re.compile(r"__syncthreads\(\);(   // the reduction before)")
TWO_REDUCTIONS = ("const float sum = reduce_block(float(threadIdx.x), Sum());\n"
                  "out[threadIdx.x] = reduce_block(sum + threadIdx.x, Sum());")
IN_A_ROW = Kernel(TWO_REDUCTIONS)
WITHOUT_A_BARRIER = Kernel(TWO_REDUCTIONS, prelude=REDUCTION.sub(r"\1", PRELUDE))


def test_the_barrier_in_front_of_a_reduction_is_needed():
    """These kernels have two reductions of a block in a row, which the table's kernels do not have."""
    assert len(REDUCTION.findall(PRELUDE)) == 1

    def wrong(kernel):
        return not (kernel.computed(size=256, block=256) == 256 * 32640 + 32640).all()

    assert not any(wrong(IN_A_ROW) for _ in range(8))
    assert any(wrong(WITHOUT_A_BARRIER) for _ in range(8))


def test_the_table_has_every_barrier():
    files = {}
    for entry in registry.entries().values():
        if entry.op.cuda:
            files.update({(entry.op.name if name == "kernel.cu" else "", name): text
                          for name, text in cuda_source.sources(entry.op).items()})
    barriers = sum(text.count("__syncthreads();") for text in files.values())
    # Others are in front of a reduction, in tests/ptx/test_shared_rows.py, and in the losses of heads behind the
    # numbers of predictions: there, what is not written yet is a place outside the tensor, which ends the process.
    assert barriers == len(BARRIERS) + 3


def test_the_suites_run_the_kernels(monkeypatch):
    """A CustomOp on the CPU launches, in both directions, as many kernels as it has on a GPU."""
    cuda_emulator.install(monkeypatch)
    data = mx.nd.array([[-1, 2, 3]])
    data.attach_grad()
    with gops.backend("custom"), mx.autograd.record():
        output = gops.ops.abs(data)
    output.backward()
    mx.nd.waitall()
    assert [name for name, _, _ in cuda_emulator.launches] == ["abs_forward<float>", "abs_backward<float>"]
    assert set(registry.entries()) == set(gops.ops.list())


OUTSIDE = """
import os, sys; sys.path.insert(0, {folder!r})
import gluonops, pathlib, mxnet as mx, cuda_emulator
from gluonops.cuda import cuda_source
cuda_emulator.cache = pathlib.Path({cache!r})
body = "template <typename T> __global__ void f(float *out, int64_t i) {{ out[0] += out[i] > 0; }}"
source = cuda_source.joined(cuda_source.prelude()) + {mark!r} + body
kernel = cuda_emulator.CudaModule(source, exports=["f<float>"]).get_kernel("f<float>", "float *out, int64_t i")
for outside in (64, -1):
    child = os.fork()
    if not child:
        kernel.launch([mx.nd.zeros(64), 0], mx.cpu(), (1, 1, 1), (64, 1, 1))
        print("right, reads", outside, "next", file=sys.stderr, flush=True)
        kernel.launch([mx.nd.zeros(64), outside], mx.cpu(), (1, 1, 1), (64, 1, 1))
        os._exit(0)
    assert os.waitpid(child, 0)[1] != 0, "the sanitizer saw nothing"
"""


@pytest.mark.slow
def test_address_sanitizer_sees_a_read_outside_a_tensor():
    """The read is behind a tensor or in front of it, and leaves no trace in the result."""
    code = OUTSIDE.format(mark=MARK, folder=str(HERE), cache=str(cuda_emulator.cache))
    done = subprocess.run([str(SANITIZE), sys.executable, "-c", code], text=True, capture_output=True, check=False,
                          env=SANITIZED)
    assert done.returncode == 0, done.stderr
    _, behind, before = done.stderr.split("right, reads ")
    assert behind.startswith("64 ") and "heap-buffer-overflow" in behind
    assert before.startswith("-1 ") and "use-after-poison" in before


def sanitized(*arguments):
    command = [str(SANITIZE), sys.executable, "-m", "pytest", "-q", *map(str, arguments)]
    done = subprocess.run(command, text=True, capture_output=True, cwd=HERE.parents[1], check=False, env=SANITIZED)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.slow
def test_every_kernel_type_and_case_under_address_sanitizer():
    """``make test`` has the interpreter of PTX, which checks the bounds of every kernel on a few cases."""
    sanitized("-n", "2", "-m", "not slow", "-k", "cuda", HERE / "test_cuda_kernels.py", HERE.parent / "ops")
