"""Every operator's kernels beyond its suite: more sizes, every type, requests, few blocks, views at any offset.

Expected is what the suites' oracles say, in NumPy from the definitions. An operator that is not named here runs the
cases of its suite.
"""
import collections
import math
import pathlib
import sys

import cuda_emulator
import mxnet as mx
import numpy as np
import pytest
from gluonops.backends import custom
from gluonops.contract import registry
from gluonops.cuda import record, rtc
from gluonops.ops._softmax import contract as softmax_contract

sys.path.append(str(pathlib.Path(__file__).parents[1] / "native"))
from native_cases import SUITES  # noqa: E402
from op_suite import Case  # noqa: E402

# (shape, axis of the classes)
ROWS = [((1, 1), -1), ((1, 2), -1), ((5, 31), -1), ((2, 32), -1), ((9, 33), -1), ((3, 127), -1), ((1, 256), -1),
        ((2, 1023), -1), ((3, 1024), -1), ((2, 1025), -1), ((1, 2053), -1), ((3, 4096), -1), ((2, 4099), -1),
        ((1, 16384), -1), ((2, 16411), -1), ((1, 66000), -1), ((3, 33001), -1), ((2, 3, 1031), 1), ((1031, 2), 0),
        ((1, 37, 41), 1), ((2, 1031, 5), 1), ((3, 1, 64), 1), ((1, 2053, 33), 1), ((1, 5, 16411), 1)]
# The shapes that run every day with attributes beside the axis. All of ROWS run with the axis alone.
DAILY_ROWS = [(5, 31), (1, 256), (2, 1025), (2, 4099), (3, 33001), (2, 3, 1031), (1, 37, 41)]
SIZES = [1, 2, 3, 7, 16, 31, 257, 1024, 1031, 4099]


def rows(name, **attrs):
    """Cases of an operator of the softmax family."""
    cases = []
    for shape, axis in ROWS:
        label = tuple(n for i, n in enumerate(shape) if i != axis % len(shape))
        label = shape if attrs.get("sparse_label") is False else label
        suffix = "_".join(f"{key}_{value}" for key, value in attrs.items())
        cases.append(Case(f"{'x'.join(map(str, shape))}_axis{axis}_{suffix}",
                          (shape, label)[:len(registry.get(name).op.inputs)], {"axis": axis, **attrs}))
    return cases


def reorgs():
    yield Case("large_stride", ((1, 1, 70, 140),), {"stride": 70, "mode": "DCR"})
    for mode in ("darknet", "DCR", "CRD"):
        for shape, stride in (((1, 16, 4, 64), 4), ((3, 4, 2, 130), 2), ((2, 4, 6, 16), 2), ((1, 9, 3, 99), 3),
                              ((1, 25, 5, 35), 5), ((1, 4, 34, 66), 2), ((1, 4, 2, 1024), 2), ((2, 3, 1, 257), 1),
                              ((2, 8, 26, 26), 2), ((9, 4, 6, 10), 2), ((1, 4, 2, 4198), 2)):
            yield Case(f"{mode}_{'x'.join(map(str, shape))}", (shape,), {"stride": stride, "mode": mode})
        for shape, stride in (((1, 8, 3, 32), 2), ((2, 4, 5, 7), 2), ((1, 18, 2, 33), 3), ((1, 16, 1, 65), 4)):
            yield Case(f"{mode}_reverse_{'x'.join(map(str, shape))}", (shape,),
                       {"stride": stride, "mode": mode, "reverse": True})


def tiles():
    for shape, attrs in (((1,), {"tiles": 301}), ((1031,), {"tiles": 3}), ((3, 64), {"tiles": 4}),
                         ((5, 48), {"tiles": 2, "axis": 0}), ((2, 3, 16), {"tiles": 5, "axis": 1}),
                         ((7, 2), {"tiles": 17}), ((2, 3), {"tiles": (40, 1)}), ((33, 5), {"tiles": (3, 1)}),
                         ((2, 1, 3, 1, 2), {"tiles": (2, 1, 2, 3, 2)}), ((1, 128), {"tiles": (300, 1)}),
                         ((2,) * 8, {"tiles": (2, 1) * 4}), ((257, 3), {"tiles": (2, 1)}),
                         ((2, 3, 2, 16), {"tiles": (3, 1, 5, 1)}), ((1, 3), {"tiles": (1031, 1)})):
        yield Case(f"{'x'.join(map(str, shape))}_{attrs['tiles']}", (shape,), attrs)


TWO_ANCHORS = {"anchors": (1.5, 0.5, 0.75, 2.0)}


def weighted_rows(classes):
    """Cases in which every class has another weight: with smoothing, and with dense labels."""
    weights = tuple(np.linspace(0.5, 1.5, classes).tolist())
    yield Case(f"weights_{classes}", ((2, classes), (2,)), {"class_weight": weights, "smoothing": 0.1})
    yield Case(f"dense_weights_{classes}", ((2, classes), (2, classes)),
               {"class_weight": weights, "sparse_label": False})


EXTRA = {
    "center_loss": [
        Case("several_blocks_per_class", ((2500, 8), (2500,), (2, 8))),
        Case("several_samples_at_a_time", ((40, 64), (40,), (3, 64))),
        Case("threads_without_features", ((100, 67), (100,), (2, 67))),
        Case("more_features_than_threads", ((5, 2100), (5,), (2, 2100))),
    ],
    "region_decode": [
        Case("many_classes", ((1, 2010, 1, 3),), {**TWO_ANCHORS, "classes": 1000}),
        Case("lanes_share_a_box", ((2, 170, 5, 9),), {**TWO_ANCHORS, "classes": 80}),
        Case("packs", ((3, 12, 8, 8),), {**TWO_ANCHORS, "classes": 1}),
    ],
    "abs": [Case(str(n), ((n,),)) for n in SIZES],
    "reorg": list(reorgs()),
    "tile": list(tiles()),
    "softmax": rows("softmax") + rows("softmax", temperature=0.5)[:8],
    "softmax_output": rows("softmax_output", ignore_label=0, normalization="valid") + rows("softmax_output")[:8],
    "softmax_cross_entropy": rows("softmax_cross_entropy") + rows("softmax_cross_entropy", smoothing=0.1)
    + rows("softmax_cross_entropy", sparse_label=False, smoothing=0.2) + rows("softmax_cross_entropy", ignore_label=0)
    + list(weighted_rows(4099)) + list(weighted_rows(16411)),
}
# A row has three splits, where there are blocks for two: a split has several chunks.
EXTRA["rms_norm"] = [Case("three_parts", ((1, 2500, 2), (2500,)), {"axis": 1})]
# Rows that are neighbours: of several blocks, with channels behind a thread's last one, and in several splits.
EXTRA["l2_normalize"] = [Case("neighbours", ((2, 130, 36), (130,))), Case("few_channels", ((1, 5, 36), (5,))),
                         Case("splits", ((1, 1100, 4), (1100,)))]
# Groups of several chunks, in packs and in single elements.
EXTRA["group_norm"] = [Case(text, (shape, shape[1:2], shape[1:2]), {"num_groups": groups}) for text, shape, groups in (
    ("packs", (2, 4, 2100), 2), ("items", (1, 3, 2051), 1), ("chunks", (1, 2, 4500), 1))]
EXTRA["distillation_loss"] = [Case("splits", ((3, 33001), (3, 33001)))]
EXTRA["dice_loss"] = [Case("splits", ((2, 2, 2052), (2, 2052)))]
EXTRA["margin_softmax_cross_entropy"] = [
    *(Case(f"{count}x{classes}", ((count, classes), (count,)), {"scale": 8})
      for count, classes in ((2, 32), (2, 1025), (3, 33001), (1, 66000))),
    Case("monotone", ((3, 4096), (3,)), {"scale": 8, "m1": 4, "m2": 0, "ignore_label": 0}),
]
OPS = rtc.operators()


def cases(names=OPS, extra=True):
    tests = [(name, case, slow(case)) for name in names for case in SUITES[name].cases]
    if extra:
        tests += [(name, case, slow(case) or repeats(case)) for name in names for case in EXTRA.get(name, ())]
    return [pytest.param(name, case, id=f"{name}-{case.id}", marks=[pytest.mark.slow] if is_slow else [])
            for name, case, is_slow in tests]


def slow(case):
    """One case of rows with many classes is enough for every day: it has two blocks, and elements behind both."""
    return math.prod(case.shapes[0]) > 10000 and case.shapes[0] != (3, 33001)


def repeats(case):
    """Return whether another operator or other attributes have the same rows every day."""
    shape = case.shapes[0]
    return len(case.attrs) > 1 and shape not in DAILY_ROWS and shape in [row for row, _ in ROWS]


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    cuda_emulator.install(monkeypatch)


def view(values, offset):
    """Return an NDArray that starts `offset` elements into its memory."""
    whole = mx.nd.zeros((values.size + offset,), dtype=values.dtype)
    part = whole[offset:].reshape(values.shape)
    part[:] = mx.nd.array(values, dtype=values.dtype)
    return part


class Run:
    """An operator's kernels on one case: `outputs` and `gradients` before and after, by name."""

    def __init__(self, name, case, dtype, request, rng, offsets=(0,)):
        self.suite, self.case, self.dtype, self.request = SUITES[name](), case, dtype, request
        self.entry, self.attrs = registry.get(name), SUITES[name]().typed(case)
        self.rng, self.offsets = rng, offsets
        self.arrays = self.suite.draw(case, dtype, rng)
        if getattr(self.attrs, "sparse_label", None) is False:   # a sum of many numbers of either sign says little
            label, axis = np.abs(self.arrays[1]).astype("float64"), self.attrs.axis
            self.arrays[1] = (label / label.sum(axis, keepdims=True)).astype(dtype)
        self.head = self.suite.head(case, self.arrays, rng).astype(dtype)
        op = self.entry.op
        self.inputs = [self.view(a) for a in self.arrays]
        dtypes = op.infer_type(self.attrs, {arg.name: a.dtype for arg, a in zip(op.inputs, self.arrays)})
        shapes = op.infer_shape(self.attrs, {arg.name: a.shape for arg, a in zip(op.inputs, self.arrays)})
        self.before = {t.name: rng.randint(0, 5, shapes[t.name]).astype(dtypes[t.name]) for t in op.tensors}
        self.operator = custom.Operator(self.entry, rtc.BoundOp.of(self.entry.op, self.attrs, self.inputs))

    def view(self, values):
        return view(values, self.offsets[self.rng.randint(len(self.offsets))])

    def forward(self, request):
        targets = [self.view(self.before[out.name]) for out in self.entry.op.outputs]
        self.operator.forward(True, [request] * len(targets), self.inputs, targets, [])
        return targets

    def backward(self, request, outputs):
        targets = [self.view(self.before[arg.name]) for arg in self.entry.op.inputs]
        heads = [self.view(self.head)] + [mx.nd.zeros(out.shape, dtype=out.dtype) for out in outputs[1:]]
        self.operator.backward([request] * len(targets), heads, self.inputs, outputs, targets, [])
        return targets

    def check(self):
        """Compare with the oracle, and return what was computed."""
        written = self.forward("write")
        output = self.forward(self.request)[0] if self.request != "write" else written[0]
        expected, gradients = self.suite.expected(self.case, self.arrays, self.head)
        self.close(output, expected, self.entry.op.outputs[0].name)
        if np.dtype(self.dtype).kind != "f":
            return [output]
        computed = self.backward(self.request, written)
        for arg, gradient in zip(self.entry.op.inputs, computed):
            if arg.name in gradients:
                self.close(gradient, gradients[arg.name], arg.name)
        return written + computed

    def close(self, got, expected, name):
        added = self.request == "add"
        expected = expected + (self.before[name].astype(expected.dtype) if added else 0)
        self.suite.close(got.asnumpy(), expected, name, "custom", self.dtype, exact=self.suite.exact and not added)


# Whole tensors, requests to add, and tensors at offsets that are no multiple of 16 bytes.
WAYS = (("write", (0,)), ("add", (0, 1, 2, 4)), ("write", (1, 4)))


@pytest.mark.parametrize("number, name, case", [pytest.param(number, *test.values, id=test.id, marks=test.marks)
                                                for number, test in enumerate(cases())])
def test_every_type(number, name, case, rng, pytestconfig):
    """Daily each runs with one dtype in one of the ways, in turn; a case that no suite has also as float32."""
    every, types = pytestconfig.getoption("every_mode"), registry.get(name).op.types["T"]
    daily = {types[number % len(types)], *(["float32"] if case in EXTRA.get(name, ()) else [])}
    for place, dtype in enumerate(types, number // len(types)):
        for request, offsets in WAYS if every else [WAYS[place % len(WAYS)]]:
            if every or dtype in daily:
                Run(name, case, dtype, request, rng, offsets).check()


def has_more_than_two_blocks(name, case):
    op, suite = registry.get(name).op, SUITES[name]()
    shapes = op.infer_shape(suite.typed(case), {arg.name: shape for arg, shape in zip(op.inputs, case.shapes)})
    plans = (record.plan(op, direction, suite.typed(case), shapes, "float32") for direction in ("forward", "backward"))
    return any(max(rtc.geometry(planned.launch)[0]) > 2 for planned in plans)


@pytest.mark.parametrize("name, case", [test for test in cases() if has_more_than_two_blocks(*test.values)])
def test_few_blocks_and_the_same_bits_every_time(name, case, rng, monkeypatch):
    """A grid that does not reach every row and element strides; whichever thread comes first, sums have one order."""
    monkeypatch.setattr(rtc, "MAX_BLOCKS", 2)
    run = Run(name, case, "float32", "write", rng)
    first, second = run.check(), run.check()
    assert all(max(grid) <= 2 for _, grid, _ in cuda_emulator.launches)
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


NEIGHBOURS = {
    "softmax": [{}],
    "softmax_output": [{}],
    "softmax_cross_entropy": [{}, {"ignore_label": 0}, {"sparse_label": False}, {"smoothing": 0.1}],
    "softmax_focal_loss": [{}, {"ignore_label": 0}],
}


# (batch, classes, neighbours): one class, rows of one thread alone and in pairs, and rows of four threads.
SHAPES = [(2, 1, 5), (2, 16, 3), (1, 21, 34), (3, 33, 67)]
MORE_SHAPES = [(1, 1031, 9), (1, 2, 67), (3, 9, 7), (1, 64, 2), (2, 65, 37), (2, 1, 6), (3, 8, 2), (2, 32, 4)]


@pytest.mark.parametrize("shape", [*SHAPES, *(pytest.param(shape, marks=pytest.mark.slow) for shape in MORE_SHAPES)],
                         ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_many_rows_that_are_neighbours(name, shape, rng, monkeypatch):
    """A row has a thread or four, and the grid has to stride, as where there are 16,384 rows."""
    monkeypatch.setattr(softmax_contract, "MANY_ROWS", 1)
    monkeypatch.setattr(rtc, "MAX_BLOCKS", 2)
    weights = {"softmax_cross_entropy": "class_weight", "softmax_focal_loss": "alpha"}
    weighted = [{weights[name]: tuple(np.linspace(0, 1, shape[1]).tolist())}] if name in weights else []
    for attrs in NEIGHBOURS[name] + weighted:
        label = shape if attrs.get("sparse_label") is False else (shape[0], shape[2])
        case = Case("", (shape, label)[:len(registry.get(name).op.inputs)], {"axis": 1, **attrs})
        for dtype, request, offsets in (("float16", "write", (1, 4)), ("float16", "write", (0,)),
                                        ("float32", "add", (0, 1)), ("float32", "write", (0,)),
                                        ("float64", "write", (0,))):
            Run(name, case, dtype, request, rng, offsets).check()
    assert {block[0] for _, _, block in cuda_emulator.launches} == {1 if shape[1] <= 32 else 4}


SHARED = {
    "dice_loss": Case("", ((2, 35, 1100), (2, 1100)), {}),   # a sample has several blocks
    "box_iou": Case("", ((2100, 4), (40, 4))),
    "center_loss": Case("", ((2100, 3), (2100,), (2, 3))),
    "ohem": Case("", ((3, 4099),), {"threshold": 1.0}),
}

LAUNCHES = {"ohem": 4}   # three digits and the output


@pytest.mark.parametrize("name", SHARED)
def test_the_counts_of_shared_rows_are_ready_for_the_next_launch(name, rng):
    run = Run(name, SHARED[name], "float32", "write", rng)
    for _ in range(2):
        run.check()
    launched = collections.Counter(launched for launched, _, _ in cuda_emulator.launches)
    assert max(launched.values()) == 2 * LAUNCHES.get(name, 1)


SEVERAL_OUTPUTS = [name for name in OPS if len(registry.get(name).op.outputs) > 1]


@pytest.mark.parametrize("name, case", cases(SEVERAL_OUTPUTS, extra=False))
def test_null_is_left_alone(name, case, rng):
    """One of several outputs at a time is written, the others keep what they had: the emulator says so, and we look."""
    run = Run(name, case, "float32", "write", rng)
    op, outputs = run.entry.op, run.forward("write")
    for i, wanted in enumerate(op.outputs):
        targets = [view(run.before[out.name], 0) for out in op.outputs]
        requests = ["write" if j == i else "null" for j in range(len(targets))]
        run.operator.forward(True, requests, run.inputs, targets, [])
        for out, target, full in zip(op.outputs, targets, outputs):
            expected = full.asnumpy() if out is wanted else run.before[out.name]
            np.testing.assert_array_equal(target.asnumpy(), expected, err_msg=out.name)
