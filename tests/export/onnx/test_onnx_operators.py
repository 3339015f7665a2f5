"""Every converter to ONNX against the operator it converts, at batch sizes other than the one exported with."""
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
import test_onnx_detection
import test_onnx_sequences
from gluonops.export.onnx.builder import CONVERTERS
from mxnet import gluon
from onnx_oracle import IMAGE, case

ROW, GRID = (5,), (3, 4)


def positive(rng, shape):
    return rng.uniform(0.1, 2, shape).astype(np.float32)


def small(rng, shape):
    return rng.uniform(-0.9, 0.9, shape).astype(np.float32)


def above_one(rng, shape):
    return rng.uniform(1.1, 3, shape).astype(np.float32)


def halves(rng, shape):
    return (rng.randint(-7, 8, shape) / 2).astype(np.float32)


def classes(rng, shape):
    return rng.randint(0, 4, shape).astype(np.float32)


def truths(rng, shape):
    return rng.randint(0, 2, shape).astype(np.float32)


def unary(name, make=onnx_oracle._uniform):
    return pytest.param(lambda F, x: getattr(F, name)(x), [(IMAGE, make)], (), id=name)


UNARY = [unary(name) for name in ("abs", "arctan", "arcsinh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor",
                                  "negative", "reciprocal", "relu", "sigmoid", "sign", "sin", "sinh", "softsign",
                                  "square", "tanh", "trunc", "fix", "identity", "BlockGrad", "logical_not",
                                  "hard_sigmoid")]
UNARY += [unary(name, positive) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")]
UNARY += [unary(name, small) for name in ("arcsin", "arccos", "arctanh", "tan")]
UNARY += [unary("arccosh", above_one), unary("round", halves), unary("rint", halves), unary("logical_not", truths)]

ARITHMETIC = [
    case("operators", lambda F, x, y: (x + y) * (x - y) / (x * x + 1), IMAGE, IMAGE),
    case("scalars", lambda F, x: 2 / ((3 - (x + 1) * 0.5) + 7) - x / 4),
    case("power", lambda F, x: (x ** 2) + (2 ** x), (IMAGE, positive)),
    case("power_of_two_tensors", lambda F, x, y: F.broadcast_power(x, y) + x ** x, (IMAGE, positive), (IMAGE, small)),
    case("scalar_extremes", lambda F, x: F.maximum(x, 0.5) + F.minimum(x, -0.5)),
    case("extremes", lambda F, x, y: F.broadcast_maximum(x, y) - F.broadcast_minimum(x, y), IMAGE, (4, 1, 8)),
    case("broadcast", lambda F, x, y: F.broadcast_div(F.broadcast_mul(F.broadcast_add(x, y), y), F.broadcast_sub(y, x)
                                                     + 9), IMAGE, (4, 1, 1)),
    case("modulo", lambda F, x, y: (x % 0.7) + F.broadcast_mod(x, y) + (1.5 % y), IMAGE, (IMAGE, positive)),
    case("whole_numbers", lambda F, i: F.floor(F.cast(i, "int64") / 2) + F.cast(i, "int64") % 3, (IMAGE, classes)),
    case("comparisons", lambda F, x, y: F.concat(x > y, x < y, x >= y, x <= y, x == y, x != y), (IMAGE, halves),
         (IMAGE, halves)),
    case("comparisons_with_scalars", lambda F, x: F.concat(x > 1, x < 1, x >= 1, x <= 1, x == 1, x != 1),
         (IMAGE, halves)),
    case("broadcast_comparisons", lambda F, x, y: F.concat(F.broadcast_greater(x, y), F.broadcast_lesser(x, y),
         F.broadcast_equal(x, y)), (IMAGE, halves), ((4, 1, 1), halves)),
    case("logic", lambda F, x, y: F.broadcast_logical_and(x, y) + 2 * F.broadcast_logical_or(x, y) + 4 *
         F.broadcast_logical_xor(x, y), (IMAGE, truths), (IMAGE, truths)),
    case("logic_with_scalars", lambda F, x: F.concat(*[getattr(F._internal, f"_logical_{word}_scalar")(
         x, scalar=1) for word in ("and", "or", "xor")]), (IMAGE, truths)),
    case("clip", lambda F, x: F.clip(x, -0.5, 1)),
    case("smooth_l1", lambda F, x: F.smooth_l1(x, scalar=2)),
    case("add_n", lambda F, x, y: F.add_n(x, y, x), IMAGE, IMAGE),
    case("where", lambda F, c, x, y: F.where(c, x, y), (IMAGE, truths), IMAGE, IMAGE),
    case("where_by_row", lambda F, c, x, y: F.where(c.reshape((-1,)), x, y), ((1,), truths), IMAGE, IMAGE),
    case("cast", lambda F, x: F.cast(F.cast(x, "int32"), "float32")),
    case("double", lambda F, x: F.cast(x, "float64") * 3),
    case("dense_product", lambda F, x, w: F.dot(x, w) + F.dot(x, F.transpose(w), transpose_b=True), ROW,
         parameters=[(5, 3)]),
    case("batch_dot", lambda F, x, y: F.batch_dot(x, y, transpose_b=True) + F.linalg.gemm2(x, y, transpose_b=True,
         alpha=2), (3, 4), (2, 4)),
]

REDUCTIONS = [
    case("sums", lambda F, x: [F.sum(x, axis=1), F.sum(x, axis=(1, 3), keepdims=True), F.sum(x), F.sum(x, axis=1,
         exclude=True)]),
    case("means", lambda F, x: [F.mean(x, axis=-1), F.max(x, axis=(2, 3)), F.min(x, axis=1, keepdims=True),
         F.prod(x, axis=3)]),
    case("cumulative_sums", lambda F, x: [F.cumsum(x, axis=2), F.cumsum(x, axis=1), F.cumsum(x)]),
    case("norms", lambda F, x: [F.norm(x, axis=1), F.norm(x, ord=1, axis=(2, 3), keepdims=True)]),
    case("arguments", lambda F, x: [F.argmax(x, axis=1), F.argmin(x, axis=2, keepdims=True)]),
]

ARRAYS = [
    case("reshapes", lambda F, x: [F.reshape(x, (0, -1)), F.reshape(x, (0, -3, 0)), F.reshape(x, (-1, 8)),
         F.reshape(x, (0, -4, 2, -1, 0, 0)), F.reshape(x, (-2,)), F.Flatten(x), F.reshape(x, (0, 0, -3))]),
    case("batch_joined", lambda F, x: F.reshape(F.reshape(x, (-3, 0, 0)) * 2, (-4, -1, 4, 0, 0))),
    case("dimensions", lambda F, x: [F.expand_dims(x, 0), F.squeeze(F.expand_dims(x, 2), axis=2), F.SwapAxis(x, 1, 3),
         F.transpose(x), F.transpose(x, (0, 2, 3, 1))]),
    case("reshape_like", lambda F, x, y: F.reshape_like(x, y), IMAGE, (8, 24)),
    case("concat_and_split", lambda F, x: F.concat(*reversed(list(F.split(x, num_outputs=4, axis=1))), dim=1)),
    case("split_squeezed", lambda F, x: list(F.split(x, num_outputs=4, axis=1, squeeze_axis=True))),
    case("last_of_split", lambda F, x: F.relu(F.split(x, num_outputs=4, axis=1)[3])),
    case("split_v2", lambda F, x: list(F.split_v2(x, (2, 5), axis=2)) + list(F.split_v2(x, 2, axis=3))),
    case("stack", lambda F, x, y: F.stack(x, y, axis=1), IMAGE, IMAGE),
    case("slices", lambda F, x: [F.slice(x, begin=(None, 1, None, 6), end=(None, 3, -1, 1), step=(1, 1, 2, -2)),
         F.slice_axis(x, axis=-1, begin=-3, end=None), F.slice(x, begin=(0, 0), end=(1, 2)), F.reverse(x, axis=2)]),
    case("slice_like", lambda F, x, y: F.slice_like(x, y, axes=(2, 3)), IMAGE, (4, 3, 2)),
    case("crops", lambda F, x, y: [F.Crop(x, y), F.Crop(x, y, offset=(2, 3)), F.Crop(x, y, center_crop=True), F.Crop(
         x, h_w=(5, 2), offset=(1, 4)), F.Crop(x, h_w=(3, 3), center_crop=True)], IMAGE, (4, 3, 2)),
    case("tile_and_repeat", lambda F, x: [F.tile(x, (2, 1, 3)), F.repeat(x, 3, axis=1), F.tile(x, (2, 1, 1, 1, 1))]),
    case("broadcasts", lambda F, x, y: [F.broadcast_like(y, x), F.broadcast_axis(y, axis=1, size=4),
         F.broadcast_to(y, (0, 4, 0, 0))], IMAGE, (1, 6, 8)),
    case("likes", lambda F, x: F.concat(F.zeros_like(x), F.ones_like(x), x)),
    case("counting", lambda F, x: F.broadcast_mul(F.broadcast_add(x, F.contrib.arange_like(x, axis=3)), F.reshape(
         F.contrib.arange_like(x, axis=0, start=1, step=2), (-1, 1, 1, 1)))),
    case("sizes_as_numbers", lambda F, x: [F.cast(F.size_array(x), "float32"), F.cast(F.size_array(F.slice_axis(
         x, axis=0, begin=0, end=1)), "float32")]),
    case("shape_as_numbers", lambda F, x: F.broadcast_mul(x, F.reshape(F.cast(F.slice_axis(F.shape_array(x), axis=0,
         begin=1, end=2), "float32"), (1, 1, 1, 1)))),
    case("take", lambda F, x, i: [F.take(x, i * 0 + 2, axis=2), F.take(x, i - 9, axis=1, mode="wrap")], IMAGE,
         ((1,), classes)),
    case("embedding", lambda F, i, w: F.Embedding(i, w, input_dim=4, output_dim=5), ((3,), classes),
         parameters=[(4, 5)]),
    case("pick", lambda F, x, i: [F.pick(x, i, axis=-1), F.pick(x, i, axis=-1, keepdims=True)], GRID, ((3,), classes)),
    case("gather_nd", lambda F, x, i: F.gather_nd(x, F.concat(F.zeros_like(i), i, dim=0).reshape((2, -1))), IMAGE,
         ((1,), classes)),
    case("one_hot", lambda F, i: F.one_hot(i, 5, on_value=2, off_value=-1), ((3,), classes)),
    case("sorting", lambda F, x: [F.topk(x, axis=1, k=2, ret_typ="value"), F.topk(x, axis=-1, k=3), F.sort(x, axis=2),
         F.argsort(x, axis=1, is_ascend=False), *F.topk(x, axis=2, k=2, ret_typ="both", is_ascend=True)]),
    case("space_to_depth", lambda F, x: [F.space_to_depth(x, 2), F.depth_to_space(x, 2)]),
    case("pad", lambda F, x: [F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 0), constant_value=-3), F.pad(
         x, mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 3, 0)), F.pad(x, mode="reflect", pad_width=(0,) * 4 + (1,) * 4)]),
    case("constants", lambda F, x, p: F.broadcast_add(F.broadcast_add(x, F.exp(F.reshape(F.tile(p, (2,)), (1, -1, 1,
         1)))), F.ones((1, 1, 6, 8)) * 2 + F.reshape(F.tile(F._internal._arange(start=0, stop=8), 6), (1, 1, 6, 8))),
         parameters=[(2,)]),
    case("boxes_of_grids", lambda F, x, p: F.broadcast_mul(F.slice_like(p, x, axes=(2, 3)), x),
         parameters=[(1, 1, 9, 9)]),
]


def pool(**options):
    return lambda F, x: F.Pooling(x, **options)


POOLS = [case(f"pool_{kind}_{convention}_{i}", pool(pool_type=kind, pooling_convention=convention, **options))
         for kind in ("max", "avg", "sum") for convention in ("valid", "full")
         for i, options in enumerate([{"kernel": (2, 2), "stride": (2, 2)}, {"kernel": (3, 2), "pad": (1, 1)},
                                      {"kernel": (3, 3), "stride": (2, 3), "pad": (1, 0)},
                                      {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1),
                                       "count_include_pad": False}])]

LAYERS = POOLS + [
    case("global_pools", lambda F, x: [F.Pooling(x, global_pool=True, pool_type=kind) for kind in ("max", "avg",
                                                                                                   "sum")]),
    case("pool_lp", pool(pool_type="lp", kernel=(2, 2), stride=(2, 2), p_value=2)),
    case("convolution", lambda F, x, w, b: F.Convolution(x, w, b, kernel=(3, 2), num_filter=6, stride=(2, 1),
                                                         pad=(1, 0), dilate=(1, 2), num_group=2),
         parameters=[(6, 2, 3, 2), (6,)]),
    case("convolution_1d", lambda F, x, w: F.Convolution(x, w, kernel=(3,), num_filter=2, no_bias=True), (3, 9),
         parameters=[(2, 3, 3)]),
    case("deconvolution", lambda F, x, w, b: F.Deconvolution(x, w, b, kernel=(3, 4), num_filter=4, stride=(2, 2),
         pad=(1, 1), adj=(1, 0), num_group=2, no_bias=False), parameters=[(4, 2, 3, 4), (4,)]),
    case("dense", lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=3), parameters=[(3, 192), (3,)]),
    case("dense_along_the_last_axis", lambda F, x, w, b: F.FullyConnected(x, w, b, num_hidden=3, flatten=False),
         parameters=[(3, 8), (3,)]),
    case("layer_norm", lambda F, x, g, b: F.LayerNorm(x, g, b, axis=1), parameters=[(4,), (4,)]),
    case("instance_norm", lambda F, x, g, b: F.InstanceNorm(x, g, b), parameters=[(4,), (4,)]),
    case("group_norm", lambda F, x, g, b: F.GroupNorm(x, g, b, num_groups=2), parameters=[(2,), (2,)]),
    case("l2_normalization", lambda F, x: [F.L2Normalization(x, mode=mode) for mode in ("instance", "channel",
                                                                                      "spatial")]),
    case("lrn", lambda F, x: F.LRN(x, nsize=3, alpha=0.1)),
    case("activations", lambda F, x: [F.Activation(x, kind) for kind in ("relu", "sigmoid", "tanh", "softrelu",
                                                                        "softsign")]),
    case("leaky", lambda F, x: [F.LeakyReLU(x, act_type=kind, slope=0.3) for kind in ("leaky", "elu", "selu", "gelu")]),
    case("prelu", lambda F, x, a: F.LeakyReLU(x, a, act_type="prelu"), parameters=[(4,)]),
    case("softmaxes", lambda F, x: [F.softmax(x, axis=1), F.log_softmax(x, temperature=2), F.softmin(x),
         F.softmax(x, axis=-2, temperature=0.5)]),
    case("softmax_activation", lambda F, x: [F.SoftmaxActivation(x, mode="channel"), F.SoftmaxActivation(x)]),
    case("softmax_activation_of_rows", lambda F, x: F.SoftmaxActivation(x), ROW),
    case("dropout", lambda F, x: F.Dropout(x, p=0.5)),
    case("upsampling", lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest")),
    case("upsampling_of_several", lambda F, x, y: [F.UpSampling(x, y, scale=2, sample_type="nearest", num_args=2,
         **mode) for mode in ({}, {"multi_input_mode": "sum"})], IMAGE, (4, 3, 4)),
    case("upsampling_by_weights", lambda F, x, w: F.UpSampling(x, w, scale=2, sample_type="bilinear", num_filter=4,
         num_args=2), parameters=[(4, 1, 4, 4)]),
    case("upsampling_three_times", lambda F, x, w: F.UpSampling(x, w, scale=3, sample_type="bilinear", num_filter=4,
         num_args=2), parameters=[(4, 1, 5, 5)]),
    case("bilinear", lambda F, x: [F.contrib.BilinearResize2D(x, height=11, width=13),
                                   F.contrib.BilinearResize2D(x, height=11, width=13, align_corners=False)]),
    case("adaptive_average", lambda F, x: [F.contrib.AdaptiveAvgPooling2D(x, output_size=size) for size in (1, (2, 4),
                                                                                                          (4, 3))]),
]
MATRICES = [
    case("gemm", lambda F, x, y, z: F.linalg.gemm(x, y, z, transpose_b=True, alpha=2, beta=0.5), (3, 4), (5, 4),
         (3, 5)),
    case("syrk", lambda F, x: [F.linalg.syrk(x, alpha=0.5), F.linalg.syrk(x, transpose=True)], (3, 4)),
    case("trmm", lambda F, x, y: [F.linalg.trmm(x, y), F.linalg.trmm(x, y, lower=False, transpose=True, alpha=2)],
         (3, 3), (3, 4)),
    case("det", lambda F, x: F.linalg.det(x), (3, 3)),
    case("sumlogdiag", lambda F, x: F.linalg.sumlogdiag(x), ((3, 3), positive)),
    case("extractdiag", lambda F, x: [F.linalg.extractdiag(x), F.linalg.extractdiag(x, offset=-1)], (4, 4)),
    case("makediag", lambda F, x: [F.linalg.makediag(x), F.linalg.makediag(x, offset=1)], ROW),
    case("diag", lambda F, x: [F.diag(x, axis1=1, axis2=2), F.diag(x, k=1, axis1=2, axis2=1)], GRID),
    case("khatri_rao", lambda F, x, a, b: F.broadcast_add(F.BlockGrad(F.khatri_rao(a, b)), F.sum(x)), ROW,
         parameters=[(2, 3), (4, 3)]),
    case("bilinear_sampler", lambda F, x, y: F.BilinearSampler(x, y), IMAGE, ((2, 5, 6), small)),
    case("grids", lambda F, x, y: [F.GridGenerator(x, transform_type="affine", target_shape=(4, 5)),
         F.GridGenerator(y, transform_type="warp")], (6,), (2, 5, 6)),
    case("spatial_transformer", lambda F, x, y: F.SpatialTransformer(x, y, target_shape=(5, 7),
         transform_type="affine", sampler_type="bilinear"), IMAGE, ((6,), small)),
]
CASES = UNARY + ARITHMETIC + REDUCTIONS + ARRAYS + LAYERS + MATRICES


@pytest.mark.parametrize("function, inputs, parameters", CASES)
def test_converter(function, inputs, parameters, tmp_path, rng):
    onnx_oracle.converted(function, inputs, parameters, tmp_path / "net.onnx", rng)


@pytest.mark.parametrize("axis, fix_gamma", [(1, False), (1, True), (3, False), (-1, True)])
def test_batch_norm(axis, fix_gamma, tmp_path, rng):
    net = gluon.nn.BatchNorm(axis=axis, scale=not fix_gamma)
    net.initialize()
    net(mx.nd.zeros((1, *IMAGE)))
    for parameter in net.collect_params().values():
        parameter.set_data(mx.nd.array(rng.uniform(0.5, 2, parameter.shape)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": IMAGE}, rng=rng)


# Operators that other tests here export.
ELSEWHERE = {"BatchNorm", "RNN", "_contrib_box_nms", "_contrib_box_decode", "_contrib_ROIAlign",
             "_contrib_MultiBoxPrior", "_contrib_MultiBoxDetection", "_contrib_Proposal",
             "_identity_with_attr_like_rhs", "_random_normal", "_random_uniform", "_sample_multinomial", "MakeLoss",
             "_sample_normal", "_zeros", "gluonops_mish",
             "gluonops_gelu", "gluonops_group_norm", "gluonops_reorg"}


def test_every_converter_has_a_case():
    """One of several names is enough. NumPy's operators are in tests/numpy_mode."""
    seen = set(ELSEWHERE)
    cases = CASES + test_onnx_detection.CASES + test_onnx_sequences.CASES
    for function, inputs, parameters in (item.values for item in cases):
        data = [mx.sym.var(name) for name, _ in zip("xyzw", inputs)] + [mx.sym.var(f"p{i}") for i in range(
            len(parameters))]
        result = function(mx.sym, *data)
        graph = gops.export.graph.Graph.of(mx.sym.Group(result) if isinstance(result, list) else result)
        seen |= {node.op for node in graph.nodes()}
    functions = {name: getattr(entered, "function", entered) for name, entered in CONVERTERS.items()
                 if name in seen or not name.startswith(("_np_", "_npi_", "_npx_"))}
    tested = {functions[name] for name in seen if name in functions}
    assert [name for name, function in functions.items() if function not in tested] == []
