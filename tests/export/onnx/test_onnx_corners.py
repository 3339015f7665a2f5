"""gops.export.onnx where MXNet and ONNX differ by a corner: the right numbers, or a refusal that says what to do."""
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
from mxnet.gluon import SymbolBlock, nn

IMAGE, ROW, GRID = (4, 6, 8), (5,), (3, 4)


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
def test_a_loss_head_of_three_dimensions(tmp_path, rng):
    """It is a softmax over all but the batch."""
    net = nn.HybridLambda(lambda F, x: F.SoftmaxOutput(x * 2, F.zeros_like(x)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3, 4)}, rng=rng)


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
def test_a_head_whose_state_goes_with_it(tmp_path, rng):
    data = mx.sym.var("data")
    net = SymbolBlock(mx.sym.IdentityAttachKLSparseReg(mx.sym.sigmoid(data), name="sparse") * 2, data)
    net.initialize()
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": ROW}, rng=rng)


def whole(low, high):
    return lambda rng, shape: rng.randint(low, high, shape).astype(np.float32)


def pooled(**options):
    return lambda F, x: F.Pooling(x, **options)


def resized(height, width, corners):
    return lambda F, x: F.contrib.BilinearResize2D(x, height=height, width=width, align_corners=corners)


CASES = {
    "one_hot_outside": (lambda F, i: F.one_hot(i, 3, on_value=2, off_value=-1), (9,), whole(-4, 6)),
    "padding_counts_by_default": (pooled(kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=None), IMAGE),
    **{f"resized_to_{height}_{width}_{corners}": (resized(height, width, corners), IMAGE)
       for height, width in ((1, 1), (1, 5), (3, 1)) for corners in (False, True)},
    "constants_of_nothing": (lambda F, x: F.broadcast_add(x, F.arange(0, 5) + F.tile(F.sum(F.eye(3)), (5,))), ROW),
    "a_constant_output": (lambda F, x: [x + 1, F.zeros((2, 3)) + F.ones((2, 1)).tile(3)], ROW),
}


def edges(rng, shape):
    """Numbers where adding a half would round once more."""
    return rng.choice([0.49999997, -0.49999997, 0.5, -0.5, 8388609, -8388609, 2.5, 0], shape).astype(np.float32)


def on_integers(function, *types):
    """A list of what ``function`` gives for each type."""
    def of_all(F, x):
        results = [function(F, F.cast(x, kind)) for kind in types or ("int8", "uint8", "int32", "int64")]
        return [value for result in results for value in (result if isinstance(result, list) else [result])]
    return of_all


CASES.update({
    "the_first_of_two_outputs": (lambda F, x: F.LeakyReLU(x, act_type="rrelu")[0], IMAGE),
    "rounded_edges": (lambda F, x: F.round(x) - x, (50,), edges),
    "modulo_zero": (lambda F, x: [x % 0, F.broadcast_mod(x, F.slice_axis(x, axis=2, begin=0, end=1)), 5 % x], GRID,
                    whole(-2, 3)),
    "modulo_zero_of_integers": (on_integers(lambda F, i: [i % 0, F.broadcast_mod(i, i - 1), 5 % i, i % 3], "int32",
                                            "int64"), GRID, whole(0, 3)),
    "add_n_of_integers": (on_integers(lambda F, i: [F.add_n(i, i, i), F.add_n(i)]), IMAGE, whole(0, 9)),
    "powers_of_integers": (on_integers(lambda F, i: [i ** 2, 2 ** i, i ** i]), IMAGE, whole(1, 4)),
    "relu_of_integers": (on_integers(lambda F, i: F.relu(i)), IMAGE, whole(0, 9)),
    "relu_below_zero": (on_integers(lambda F, i: F.relu(i), "int8", "int32", "int64"), IMAGE, whole(-9, 9)),
    "sums_of_integers": (on_integers(lambda F, i: [F.sum(i, axis=1), F.sum(i, axis=(2, 3), keepdims=True), F.prod(
        i, axis=1)]), IMAGE, whole(0, 3)),
    "sums_beyond_the_type": (on_integers(lambda F, i: F.sum(i, axis=1), "uint8"), IMAGE, whole(100, 256)),
    "means_of_integers": (on_integers(lambda F, i: F.mean(i, axis=2), "int32", "int64"), IMAGE, whole(-9, 9)),
    "blocks_of_integers": (on_integers(lambda F, i: [F.space_to_depth(i, 2), F.depth_to_space(i, 2)]), IMAGE,
                           whole(0, 99)),
    "extremes_of_integers": (on_integers(lambda F, i: [F.max(i, axis=1), F.min(i, axis=1)]), IMAGE, whole(0, 9)),
})
NOT_IN_1_19 = ("add_n_of_integers", "relu_of_integers", "relu_below_zero", "means_of_integers")


@pytest.mark.parametrize("function, shape, make", [
    pytest.param(*(*item, onnx_oracle._uniform)[:3], id=name,
                 marks=onnx_oracle.needs_kernels if name in NOT_IN_1_19 else ())
    for name, item in CASES.items()])
def test_corner(function, shape, make, tmp_path, rng):
    onnx_oracle.agree(nn.HybridLambda(function), tmp_path / "net.onnx", {"data": (shape, make)}, rng=rng)


@pytest.mark.parametrize("function", [
    lambda F, x: [F.relu(x)] * 2, lambda F, x: (lambda y: [y, F.identity(y)])(F.relu(x)),
    lambda F, x: (lambda a: [a[1], a[0], a[1]])(F.split(F.relu(x), num_outputs=4, axis=1)),
    lambda F, x: (lambda y: [F.identity(y), y + 1, F.identity(y), x, x])(F.relu(x))],
    ids=["twice", "with_its_copy", "parts", "copies_and_the_input"])
def test_an_output_returned_twice(function, tmp_path, rng):
    onnx_oracle.agree(nn.HybridLambda(function), tmp_path / "net.onnx", {"data": IMAGE}, rng=rng)


FULL = {"pooling_convention": "full"}
REFUSED = [
    (lambda F, x: F.smooth_l1(F.cast(x, "int32")), ROW,
     "(smooth_l1) cannot be exported to ONNX: it computes in int32, where MXNet's numbers are not"),
    (lambda F, x: F.mean(F.cast(x, "uint8"), axis=1), ROW,
     "(mean) cannot be exported to ONNX: it computes in uint8, where MXNet's numbers are not"),
    (lambda F, x: F.norm(F.cast(x, "int64"), axis=1), ROW,
     "(norm) cannot be exported to ONNX: it computes in int64, where MXNet's numbers are not"),
    (lambda F, x: F.exp(F.cast(x, "int32"), name="whole"), ROW, "whole' computes Exp of int32, which ONNX does"),
    (lambda F, x: F.arcsinh(F.cast(x, "uint8"), name="whole") + 1, ROW, "whole' computes Asinh of uint8, which ONNX"),
    (pooled(kernel=(1, 1), stride=(3, 3), **FULL), (2, 8, 8),
     "(Pooling) cannot be exported to ONNX: it has a window wholly beyond the data"),
    (pooled(kernel=(2, 2), stride=(3, 3), pool_type="avg", **FULL), (2, 9, 9), "has a window wholly beyond the data"),
    (pooled(kernel=(2, 2), stride=(2, 2), pad=(1, 1), **FULL), (2, 9, 9), "has a window wholly beyond the data"),
    (lambda F, x: F.Pooling(F.transpose(x, (1, 2, 0)), kernel=(2,)), (3, 4), "pools along the batch"),
    (lambda F, x: F.LeakyReLU(x, act_type="rrelu"), IMAGE, "it has an output 1 that is read"),
    (lambda F, x: F.LeakyReLU(x, act_type="rrelu")[1] * 2, IMAGE, "it has an output 1 that is read"),
]


@pytest.mark.parametrize("function, shape, text", REFUSED, ids=[text for *_, text in REFUSED])
def test_refused(function, shape, text, tmp_path):
    with pytest.raises(gops.OpError) as caught:
        gops.export.onnx(nn.HybridLambda(function), tmp_path / "net.onnx", (2, *shape), dynamic_batch=True)
    assert text in str(caught.value) and "in the net" in str(caught.value)


@pytest.mark.parametrize("index", [1, 2])
def test_the_statistics_of_a_batch_norm_are_refused(index, tmp_path):
    data = mx.sym.var("data")
    net = SymbolBlock(mx.sym.BatchNorm(data, output_mean_var=True, name="norm")[index] * 2, data)
    net.initialize()
    with pytest.raises(gops.OpError, match=rf"the node 'norm' \(BatchNorm\) .* has an output {index} that is read"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, *IMAGE))


@pytest.mark.parametrize("names", [("relu", "constant"), ("data", "relu"), ("shape", "expand")])
def test_inputs_keep_their_names(names, tmp_path, rng):
    """They do even where a node or a constant would have been called so; so does the input that tells the batch."""
    net = nn.HybridLambda(lambda F, x, y: F.relu(x) * F.broadcast_like(F.ones((1, 5)), x) + 3 * y)
    found = onnx_oracle.agree(net, tmp_path / "net.onnx", dict.fromkeys(names, ROW), rng=rng)
    assert [value.name for value in found.graph.input] == list(names)


class Foreign(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)


@mx.operator.register("foreign_double")
class ForeignProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Foreign()


def test_a_custom_operator_is_named(tmp_path):
    net = nn.HybridLambda(lambda F, x: F.Custom(x, op_type="foreign_double", name="twice"))
    with pytest.warns(gops.export.ExportWarning, match="the operator 'foreign_double', which is not from gluonops"):
        gops.export.symbol(net, tmp_path / "net", (2, 3))
    with pytest.raises(gops.OpError, match="twice' is the operator foreign_double, which has no converter to ONNX"):
        gops.export.onnx(net, tmp_path / "net.onnx", (2, 3))


def moved(rng, shape):
    """Values whose mean and deviation are not those that a wrong formula would do with."""
    return rng.normal(3, 2, shape).astype(np.float32)


SHORT, ROWS = (4, 3), (4,)
# What other exporters get wrong without a word.
SILENT = {
    "fix_gamma": (lambda F, x, g, b, m, v: F.BatchNorm(x, g, b, m, v, fix_gamma=True), IMAGE, 4),
    "use_global_stats": (lambda F, x, g, b, m, v: F.BatchNorm(x, g, b, m, v, fix_gamma=False,
                                                              use_global_stats=True), IMAGE, 4),
    "biased_variance_of_a_layer": (lambda F, x, g, b: F.LayerNorm(x, F.slice_axis(g, 0, 0, 3), F.slice_axis(
        b, 0, 0, 3)), SHORT, 2),
    "biased_variance_of_an_instance": (lambda F, x, g, b: F.InstanceNorm(x, g, b), SHORT, 2),
    "biased_variance_of_a_group": (lambda F, x, g, b: F.GroupNorm(x, F.slice_axis(g, 0, 0, 2), F.slice_axis(
        b, 0, 0, 2), num_groups=2), SHORT, 2),
    "prelu": (lambda F, x, a: F.LeakyReLU(x - 3, a, act_type="prelu"), IMAGE, 1),
    "prelu_with_one_slope": (lambda F, x, a: F.LeakyReLU(x - 3, F.slice_axis(a, 0, 1, 2), act_type="prelu"), IMAGE, 1),
    "prelu_of_rows": (lambda F, x, a: F.LeakyReLU(x - 3, a, act_type="prelu"), ROWS, 1),
    "pooling_same": (lambda F, x: F.Pooling(x, kernel=(3,), stride=(2,), pad=(0, 0, 0), pool_type="avg",
                                            pooling_convention="same"), (4, 8), 0),
    "softmax_output_of_channels": (lambda F, x: F.SoftmaxOutput(x, F.zeros_like(F.slice_axis(x, 1, 0, 1)),
                                                                multi_output=True), IMAGE, 0),
    "softmax_output_of_the_last_axis": (lambda F, x: F.SoftmaxOutput(x, F.max(x, axis=3), preserve_shape=True),
                                        IMAGE, 0)}


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
@pytest.mark.parametrize("function, shape, vectors", SILENT.values(), ids=SILENT)
def test_silent_errors_of_others(function, shape, vectors, tmp_path, rng):
    onnx_oracle.converted(function, [(shape, moved)], [(4,)] * vectors, tmp_path / "net.onnx", rng)
