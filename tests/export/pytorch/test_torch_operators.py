"""gops.export.torch: every operator that has a converter; the export itself compares each with MXNet."""
import pathlib
import runpy
import sys
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.graph import CURRENT, VARIABLE, Graph, Node, is_ours, our_name
from gluonops.export.torch.converters import CONVERTERS, snippets
from gluonops.export.torch.prepare import prepared
from mxnet.gluon import nn

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
sys.path.append(str(pathlib.Path(__file__).parent))
import scripted  # noqa: E402
import steps  # noqa: E402

# Converters of layers, which test_torch.py tests, of what test_torch_detection.py tests, of operators that a pass
# makes, and of old names of others.
ELSEWHERE = {
    "Activation", "BatchNorm", "BatchNorm_v1", "Convolution", "Convolution_v1", "Deconvolution", "Dropout", "Embedding",
    "CTCLoss", "FullyConnected", "GroupNorm", "InstanceNorm", "LayerNorm", "LeakyReLU", "MakeLoss", "Pooling_v1", "RNN",
    "_contrib_BilinearResize2D", "_contrib_ModulatedDeformableConvolution",
    "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior", "_contrib_SyncBatchNorm",
    "_identity_with_attr_like_rhs", "_npx_reshape", "_ones", "_zeros",
    "_random_normal_like", "_random_uniform_like",
    "_rmul_scalar", "_rplus_scalar", "clip", "counter", "darknet_batch_norm", "gluonops_gelu", "gluonops_group_norm",
    "gluonops_hard_swish", "gluonops_l2_normalize", "gluonops_mish", "gluonops_reorg", "gluonops_rms_norm",
    "gluonops_swish", "make_loss", "softmax_cross_entropy"}
SHAPE = (2, 4, 6, 6)


def each(*names, apply=lambda function, x: function(x)):
    """A case for each of some operators of one input."""
    return {name: lambda F, x, name=name: apply(getattr(F, name), x) for name in names}


def pairs(*names):
    """A case for each of some operators of two inputs, with equal numbers among them."""
    return {name: lambda F, x, name=name: getattr(F, name)(F.floor(2 * x), F.floor(F.reverse(2 * x, axis=1)))
            for name in names}


def distinct(F, x):
    """Torch and MXNet share a gradient between equal numbers, and order them, each in its own way."""
    return F.broadcast_add(x, F.reshape(F.arange(144), (1, 4, 6, 6)) * 1e-4)


def positive(function, x):
    return function(x * x + 1.5)


def small(function, x):
    return function(x / 2.5)


def indices(F, x, count):
    """Numbers below a count, for each image."""
    return F.argmax(F.slice_axis(F.reshape(x, (0, -1)), axis=1, begin=0, end=count), axis=1)


def by_time(F, x):
    """(time, batch, ...), of the rows of heads of queries, keys and values."""
    return F.swapaxes(F.reshape(x, (0, 4, 36)), dim1=0, dim2=1)


def lengths(F, x, longest):
    return 1 + indices(F, x, longest)


def lengths_of_rows(F, x):
    """The lengths of rows along axis 1, as integers."""
    return F.cast(F.clip(3 + F.floor(F.slice_axis(x, axis=1, begin=0, end=1)), 1, 4).squeeze(axis=1), "int32")


def regions(F, x):
    """Regions of the images 0 and 1, and those of no image that fill a batch."""
    rows = F.reshape(x, (-1, 6))
    image, corner = F.sign(F.slice_axis(rows, axis=1, begin=0, end=1)), 3 * F.slice_axis(rows, axis=1, begin=1, end=3)
    return F.concat(image, corner, corner + 2.5 + F.slice_axis(rows, axis=1, begin=3, end=5), dim=1)


def regular(F, x):
    """Matrices that have an inverse, (2, 4, 6, 6)."""
    return F.broadcast_add(0.1 * x, F.reshape(F.eye(6), (1, 1, 6, 6)))


def symmetric(F, x):
    return F.linalg.syrk(regular(F, x))


MATRICES = {
    "gemm_and_sum": lambda F, x: F.linalg.gemm(x, x, x, transpose_b=True, alpha=2, beta=0.5) + F.linalg.gemm(x, x, x),
    "syrk": lambda F, x: F.linalg.syrk(x, alpha=0.5) + F.linalg.syrk(x, transpose=True),
    "trmm": lambda F, x: F.linalg.trmm(x, x * x) + F.linalg.trmm(x, x * x, lower=False, transpose=True, rightside=True),
    "trsm": lambda F, x: F.linalg.trsm(regular(F, x), x) + F.linalg.trsm(regular(F, x), x, lower=False, transpose=True,
                                                                        rightside=True, alpha=2),
    "potrf": lambda F, x: F.linalg.potrf(symmetric(F, x)),
    "potri": lambda F, x: F.linalg.potri(F.linalg.potrf(symmetric(F, x))),
    "inverse": lambda F, x: F.linalg.inverse(regular(F, x)),
    "det": lambda F, x: F.linalg.det(regular(F, x)),
    "sumlogdiag": lambda F, x: F.linalg.sumlogdiag(F.linalg.potrf(symmetric(F, x))),
    "extractdiag": lambda F, x: F.broadcast_add(F.linalg.extractdiag(x), F.reshape(
        F.sum(F.linalg.extractdiag(x, offset=-1)), (1, 1, 1))),
    "makediag": lambda F, x: F.broadcast_add(F.linalg.makediag(x), F.reshape(
        F.sum(F.linalg.makediag(x, offset=1) ** 2), (1, 1, 1, 1, 1))),
    "diag": lambda F, x: F.broadcast_add(F.diag(x, axis1=2, axis2=3), F.reshape(
        F.sum(F.diag(x, k=-1, axis1=3, axis2=1)), (1, 1, 1))),
    "khatri_rao": lambda F, x: F.BlockGrad(F.khatri_rao(F.reshape(x, (-1, 6)), F.reshape(2 * x, (-1, 6)))),
    "spatial_transformer": lambda F, x: F.SpatialTransformer(
        x, F.slice_axis(F.flatten(small(lambda y: y, x)), axis=1, begin=0, end=6), target_shape=(5, 7),
        transform_type="affine", sampler_type="bilinear"),
}
# MXNet has no float64 of them, in which steps.check compares.
SINGLE = {
    "grids": lambda F, x: F.BilinearSampler(x, 0.7 * F.GridGenerator(
        F.slice_axis(F.flatten(x), axis=1, begin=0, end=6), transform_type="affine", target_shape=(4, 5))),
    "roi_pooling": lambda F, x: F.ROIPooling(x, regions(F, x), (3, 2), 0.5),
    "pooled_sums": lambda F, x: F.Pooling(x, kernel=(3, 2), stride=(2, 2), pad=(1, 0), pool_type="sum",
                                          pooling_convention="full"),
    "global_sums": lambda F, x: F.Pooling(x, global_pool=True, pool_type="sum", kernel=(1, 1)),
    "pooled_sums_of_rows": lambda F, x: F.Pooling(F.reshape(x, (0, 0, -1)), kernel=(3,), stride=(2,), pad=(1,),
                                                  pool_type="sum"),
    "correlation": lambda F, x: F.Correlation(x, F.tanh(x), kernel_size=1, max_displacement=2, stride2=2, pad_size=2),
    "correlation_of_distances": lambda F, x: F.Correlation(x, F.tanh(x), kernel_size=3, max_displacement=1, stride1=2,
                                                           pad_size=2, is_multiply=False),
    "flow": lambda F, x: F.BilinearSampler(x, F.GridGenerator(F.slice_axis(x, axis=1, begin=0, end=2),
                                                              transform_type="warp")),
}
CASES = {
    **MATRICES,
    **SINGLE,
    **each("abs", "arctan", "arcsinh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "fix", "floor", "negative",
           "ones_like", "rint", "round", "sign", "sin", "sinh", "square", "tan", "tanh", "trunc", "zeros_like",
           "sigmoid", "relu", "softsign", "hard_sigmoid", "identity", "BlockGrad", "softmax", "log_softmax",
           "softmin", "flatten", "sum", "mean", "norm", "smooth_l1", "SoftmaxActivation"),
    **each("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt", "arccosh", apply=positive),
    **each("arccos", "arcsin", "arctanh", apply=small),
    **pairs("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum", "broadcast_minimum",
            "broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal",
            "broadcast_lesser", "broadcast_lesser_equal", "elemwise_add", "elemwise_sub", "elemwise_mul"),
    "reshape_like": lambda F, x: F.reshape_like(x.reshape((0, -1)), x) + F.reshape_like(
        x.reshape((0, 0, -1)), x, lhs_begin=-1, rhs_begin=2, rhs_end=4),
    "divisions": lambda F, x: F.broadcast_div(x, x * x + 1) + x / (F.exp(x) + 1) + 1 / (x * x + 2) + x / 3,
    "powers": lambda F, x: F.broadcast_power(x * x + 1, x) + (x * x + 1) ** 1.5 + 1.5 ** x + (x * x + 1) ** x,
    "scalars": lambda F, x: (x + 2) * 3 - 1 + (1 - x) + F.maximum(x, 0.5) + F.minimum(x, 0.25) + (2 + x),
    "comparisons": lambda F, x: (x > 0.5) + 2 * (x >= 0.5) + 4 * (x < 0.5) + 8 * (x <= 0.5) + 16 * (x == 0.5)
    + 32 * (x != 0.5),
    "symbols": lambda F, x: (x > 2 * x) + 2 * (x >= 2 * x) + 4 * (x < 2 * x) + 8 * (x <= 2 * x) + 16 * (x == 2 * x)
    + 32 * (x != 2 * x) + F.maximum(x, 2 * x) + F.minimum(x, 2 * x),
    "mod": lambda F, x: F.broadcast_mod(x, x * x + 0.3) + x % 0.7,
    "mod_symbol": lambda F, x: x % (x * x + 0.3),
    "box_nms": lambda F, x: F.contrib.box_nms(
        F.concat(F.reshape(distinct(F, x), (0, -1, 4)), F.reshape(x + 2, (0, -1, 4)), dim=2), 0.3, -1.0, coord_start=2,
        score_index=1, topk=9),
    "where": lambda F, x: F.where(x > 0, x, x * x),
    "where_of_rows": lambda F, x: F.where(F.mean(x, axis=(1, 2, 3)), x, x * x),
    "add_n": lambda F, x: F.add_n(x, x * x, F.sin(x)),
    "hard_sigmoid_of": lambda F, x: F.hard_sigmoid(x, alpha=0.3, beta=0.4),
    "flat_vector": lambda F, x: F.flatten(F.reshape(x, (-1,))),
    "axes": lambda F, x: F.swapaxes(F.transpose(F.expand_dims(x, axis=1), (0, 3, 4, 1, 2)), dim1=1, dim2=3),
    "squeeze": lambda F, x: F.squeeze(F.expand_dims(x, axis=2), axis=2),
    "squeeze_of_ones": lambda F, x: F.squeeze(F.sum(x, keepdims=True)),
    "reverse": lambda F, x: F.reverse(x, axis=1),
    "tile": lambda F, x: F.tile(x, (1, 2, 1, 3)),
    "repeat": lambda F, x: F.repeat(x, 3, axis=2),
    "broadcasts": lambda F, x: F.broadcast_like(F.sum(x, axis=1, keepdims=True), x)
    + F.broadcast_axis(F.mean(x, axis=1, keepdims=True), axis=1, size=4),
    "broadcast_like_axes": lambda F, x: F.broadcast_like(F.mean(x, axis=(0, 1), keepdims=True), F.transpose(x),
                                                         lhs_axes=(0, -3), rhs_axes=(-1, 2)),
    "broadcast_to": lambda F, x: F.broadcast_to(F.sum(x, axis=1, keepdims=True), (0, 4, 0, 0)),
    "reductions": lambda F, x: F.sum(x, axis=(1, 3)) + F.max(distinct(F, x), axis=(1, 3))
    + F.mean(x, axis=(0, 2), exclude=True) + F.min(distinct(F, x), axis=(1, 2)),
    "no_axis": lambda F, x: F.sum(F.mean(x, axis=(1, 2, 3)), axis=0, exclude=True),
    "positions": lambda F, x: x * F.sum(F.cast(F.contrib.index_array(x, axes=(1, -1)), "float32"), axis=-1)
    + F.cast(F.slice_axis(F.contrib.index_array(x), axis=-1, begin=0, end=1).squeeze(axis=-1), "float32"),
    "extremes_of_equal_numbers": lambda F, x: F.max(F.concat(x, x, dim=2), axis=(2, 3))
    + F.min(F.concat(x, x, dim=2), axis=(2, 3), keepdims=True).reshape((0, 0)),
    "extreme_of_all": lambda F, x: F.max(F.concat(x, x, dim=0)),
    "sum_of_numbers": lambda F, x: F.nansum(x + F.BlockGrad(F.sqrt(x)), axis=(1, 3)),
    "prod_of_axes": lambda F, x: F.prod(x, axis=(1, -1)) + F.prod(x, axis=(1, 3), keepdims=True).reshape((0, -1)),
    "prod_of_axis": lambda F, x: F.prod(x * x + 1, axis=1) + F.norm(x, ord=1, axis=1),
    "prod_of_all": lambda F, x: F.prod(F.exp(0.01 * x)),
    "extremes": lambda F, x: F.argmax(x, axis=1) + 10 * F.argmin(x, axis=1, keepdims=False),
    "top_both": lambda F, x: F.concat(*F.topk(distinct(F, x), axis=1, k=3, ret_typ="both"), dim=1),
    "top_of_five": lambda F, x: F.concat(*F.topk(F.expand_dims(F.expand_dims(distinct(F, x), 0), 0), axis=5, k=3,
                                                 ret_typ="both", is_ascend=True), dim=1),
    "top_of_equal_numbers": lambda F, x: F.topk(F.floor(F.reshape(x, (0, -1))), k=5, ret_typ="both")[1],
    "top_value": lambda F, x: F.topk(x, axis=1, k=2, ret_typ="value", is_ascend=True),
    "top_indices": lambda F, x: F.topk(F.reshape(distinct(F, x), (0, -1)), k=5, dtype="int32").astype("float32"),
    "sorts": lambda F, x: F.sort(distinct(F, x), axis=1) + 7 * F.argsort(distinct(F, x), axis=1, is_ascend=False),
    "softmax_within": lambda F, x: F.softmax(x, lengths_of_rows(F, x), axis=1, use_length=True)
    + F.softmax(x, lengths_of_rows(F, x) - 1, axis=1, use_length=True, temperature=2.0),
    "moments": lambda F, x: F.broadcast_mul(F.concat(*F.moments(x, axes=(1, -1)), dim=0),
                                            F.moments(x, axes=(0, 1, 2, 3), keepdims=True)[0].reshape((1, 1))),
    "one_hot_of_other_numbers": lambda F, x: F.one_hot(indices(F, x, 5), 5, on_value=0.9, off_value=0.025),
    "one_hot": lambda F, x: F.one_hot(indices(F, x, 5), 5),
    "dots": lambda F, x: F.batch_dot(F.reshape(x, (0, 4, -1)), F.reshape(x, (0, 4, -1)), transpose_b=True),
    "gemm": lambda F, x: F.linalg.gemm2(x, x, transpose_a=True, alpha=0.5),
    "dot": lambda F, x: F.dot(F.reshape(x, (0, -1)), F.reshape(x, (0, -1)), transpose_b=True),
    "dot_of_vectors": lambda F, x: F.dot(F.reshape(x, (-1,)), F.reshape(x, (-1,))),
    "floats_of_integers": lambda F, x: F.dot(F.cast(F.cast(F.BlockGrad(F.mean(9 * x, (2, 3))), "int32"), "float32"),
                                             F.one_hot(F.cast(indices(F, x, 4), "int32"), 4), transpose_b=True)
    + F.dot(F.mean(x, axis=(2, 3)), F.one_hot(F.cast(indices(F, x, 4), "int32"), 4), transpose_b=True),
    "cast": lambda F, x: x + F.cast(F.cast(F.BlockGrad(3 * x), "int32"), "float32"),
    "integers": lambda F, x: F.cast(F.broadcast_div(F.cast(F.BlockGrad(9 * x), "int64"),
                                                    F.ones_like(F.cast(F.BlockGrad(x), "int64")) * 4), "float32"),
    "amp_cast": lambda F, x: F.amp_cast(x, dtype="float32"),
    "stack": lambda F, x: F.stack(x, x * x, axis=1),
    "splits": lambda F, x: F.concat(*F.split(x, 2, axis=1), F.split(x, 4, axis=1, squeeze_axis=True)[0].expand_dims(1),
                                    dim=1),
    "slices": lambda F, x: F.slice_axis(F.slice(x, begin=(None, 1), end=(None, 4), step=(1, 2)), axis=3, begin=-3,
                                        end=None),
    "splits_at": lambda F, x: F.concat(*reversed(list(F.split_v2(x, (1, 4), axis=2))), *F.split_v2(x, 3, axis=2), dim=2)
    + F.stack(*F.split_v2(F.tile(x, (1, 1, 2, 1)), 12, axis=2, squeeze_axis=True), axis=2),
    "backwards": lambda F, x: F.slice(x, begin=(None, -1, None, 2), end=(None, None, 0, -7), step=(1, -2, -1, -1)),
    "slice_like": lambda F, x: F.slice_like(x, F.slice_axis(x, axis=1, begin=0, end=2), axes=(1,)),
    "crop": lambda F, x: F.Crop(x, F.Pooling(x, kernel=(2, 2))),
    "pad": lambda F, x: F.pad(x, "edge", (0, 0, 0, 0, 1, 2, 0, 1)) + F.pad(x, "reflect", (0, 0, 0, 0, 1, 2, 0, 1))
    + F.pad(x, "constant", (0, 0, 0, 0, 1, 2, 0, 1), constant_value=2)
    + F.pad(F.pad(x, "edge", (0, 0, 0, 0, 0, 0, 0, 1)), "constant", (0, 0, 0, 0, 1, 2, 0, 0)),
    "blocks": lambda F, x: F.depth_to_space(F.space_to_depth(x, 2) * 2, 2),
    "arange_like": lambda F, x: F.broadcast_mul(F.contrib.arange_like(x, axis=3), x),
    "shape_array": lambda F, x: F.broadcast_mul(x, F.cast(F.slice_axis(F.shape_array(x), axis=0, begin=1, end=2),
                                                          "float32")),
    "take": lambda F, x: F.take(F.swapaxes(x, dim1=0, dim2=1), indices(F, x, 6), axis=0),
    "take_wrapped": lambda F, x: F.take(x, indices(F, x, 6) - 3, axis=3, mode="wrap"),
    "pick": lambda F, x: F.pick(F.mean(x, axis=(2, 3)), indices(F, x, 6), axis=1)
    + F.batch_take(F.mean(x, axis=(2, 3)), indices(F, x, 4).astype("int32")),
    "gather_nd": lambda F, x: F.gather_nd(F.swapaxes(x, dim1=0, dim2=1), F.expand_dims(indices(F, x, 3), axis=0)),
    "box_decode": lambda F, x: F.contrib.box_decode(
        F.reshape(x, (0, -1, 4)), F.slice_axis(F.reshape(F.abs(x), (0, -1, 4)), axis=0, begin=0, end=1), 0.1, 0.1, 0.2,
        0.2, clip=2.0, format="corner"),
    "roi_align": lambda F, x: F.contrib.ROIAlign(x, regions(F, x), (2, 3), 0.7),
    "roi_align_aligned": lambda F, x: F.contrib.ROIAlign(x, regions(F, x), (2, 3), 0.3, 2, aligned=True),
    "lengths": lambda F, x: F.L2Normalization(x) + F.L2Normalization(x, mode="channel")
    + F.L2Normalization(x, mode="spatial"),
    "lrn": lambda F, x: F.LRN(x, nsize=3),
    "upsampling": lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest"),
    "upsampling_of_several": lambda F, x: F.UpSampling(x, x * x, scale=2, num_args=2,
                                                       sample_type="nearest", multi_input_mode="sum")
    + F.slice_axis(F.UpSampling(F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg"), x, scale=4, num_args=2,
                                sample_type="nearest"), axis=1, begin=2, end=6),
    "upsampling_by_weights": lambda F, x: F.UpSampling(x, F.swapaxes(F.slice(x, (0, 0, 0, 0), (1, 4, 4, 4)), 0, 1),
                                                       scale=2, sample_type="bilinear", num_filter=4, num_args=2),
    "adaptive": lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=(3, 2)),
    "swiglu": lambda F, x: F.broadcast_add(gops.ops.swiglu(x, axis=1), F.sum(gops.ops.abs(x), axis=1, keepdims=True)),
    "logic": lambda F, x: x * (
        F.broadcast_logical_and(F.floor(x), x) + 2 * F.broadcast_logical_or(F.floor(x), x)
        + 4 * F.broadcast_logical_xor(F.floor(x), x) + 8 * F.logical_not(F.floor(x))
        + F._internal._logical_and(F.floor(x), x) + F._internal._logical_and_scalar(F.floor(x), scalar=1)
        + F._internal._logical_or(F.floor(x), x) + F._internal._logical_or_scalar(F.floor(x), scalar=0)
        + F._internal._logical_xor(F.floor(x), x) + F._internal._logical_xor_scalar(F.floor(x), scalar=1)),
    "remainders": lambda F, x: 1 % (x * x + 1),
    "cumsum": lambda F, x: F.cumsum(x, axis=1) + F.reshape_like(F.cumsum(x), x),
    "sequence_mask": lambda F, x: F.SequenceMask(x, lengths(F, x, 4), True, axis=1)
    + F.SequenceMask(x.swapaxes(0, 1), lengths(F, x, 4), True, value=-2).swapaxes(0, 1) + F.SequenceMask(x),
    "sequence_last": lambda F, x: F.SequenceLast(x, lengths(F, x, 4), True, axis=1) + F.SequenceLast(x, axis=1)
    + F.SequenceLast(x.swapaxes(0, 1), lengths(F, x, 4), True),
    "sequence_reverse": lambda F, x: F.SequenceReverse(x, lengths(F, x.swapaxes(0, 1), 2), True) + F.SequenceReverse(x),
    "self_attention": lambda F, x: F.contrib.interleaved_matmul_selfatt_valatt(
        by_time(F, x), F.softmax(F.contrib.interleaved_matmul_selfatt_qk(by_time(F, x), heads=3)), heads=3),
    "attention": lambda F, x: F.contrib.interleaved_matmul_encdec_valatt(
        by_time(F, x), F.contrib.div_sqrt_dim(F.softmax(F.contrib.interleaved_matmul_encdec_qk(
            F.slice_axis(by_time(F, x), axis=2, begin=0, end=18), by_time(F, x), heads=3))), heads=3),
    "softrelu_of_large_numbers": lambda F, x: F.Activation(20 * x, "softrelu"),
    "sort_of_the_last_axis": lambda F, x: F.sort(distinct(F, x)),
    "softmax_of_a_type": lambda F, x: F.softmax(x, dtype="float32"),
    "whole_numbers": lambda F, x: F.cast(3 * x, "int32"),
    "booleans": lambda F, x: F.cast(x > 0, "bool"),
    "our_softmax": lambda F, x: gops.ops.softmax(x, axis=1),
    "our_tile": lambda F, x: gops.ops.tile(x, 2, axis=1),
}


class Function(nn.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F, x)


@pytest.mark.parametrize("name", CASES)
def test_operator(name, tmp_path):
    net = Function(CASES[name])
    net.initialize()
    gops.export.torch(net, tmp_path, SHAPE)
    if name not in SINGLE:
        steps.check(net, SHAPE)
    scripted.check(tmp_path, torch.rand(SHAPE))
    assert max(map(len, (tmp_path / "net.py").read_text().splitlines())) <= 100


# Operator -> attributes, as files may have them: without what is the default, and lists of one number.
OF_FILES = {**dict.fromkeys(("_plus_scalar", "_rdiv_scalar", "_maximum_scalar", "_rmod_scalar", "_greater_scalar"), {}),
            "_contrib_MultiBoxPrior": {"sizes": "(0.5)", "ratios": "2"}, "clip": {"a_min": "-1", "a_max": ".5"},
            "squeeze": {"axis": "None"}}


@pytest.mark.parametrize("op", OF_FILES)
def test_attributes_of_files(op, tmp_path):
    graph = Graph([(Node(op, "node", OF_FILES[op], [(Node(VARIABLE, "data"), 0)]), 0)],
                  {"mxnet_version": ["int", CURRENT]})
    (tmp_path / "net-symbol.json").write_text(graph.text())
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    gops.export.torch(tmp_path / "net", tmp_path, SHAPE)


def test_what_runs_over_the_flattened_data_is_refused(tmp_path):
    mx.sym.argmax(mx.sym.var("data")).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    with pytest.raises(gops.OpError, match="runs over the flattened data"):
        gops.export.torch(tmp_path / "net", tmp_path, SHAPE)


def loop_of(op, data):
    """A net with a loop or a branch, which depends on the numbers of the data."""
    contrib = mx.sym.contrib
    if op == "_cond":
        return contrib.cond(data.sum() > 1, lambda: data * 2, lambda: data + 1)
    if op == "_while_loop":   # It ends before max_iterations.
        def step(i, row):
            return mx.sym.broadcast_mul(row, i.reshape((1, 1))), (i + 1, row * 2)

        outputs, states = contrib.while_loop(lambda i, row: i < 3, step, (mx.sym.zeros((1,)), data), max_iterations=5)
        return mx.sym.Group([mx.sym.slice_axis(outputs, axis=0, begin=0, end=3), *states])   # no more is defined
    weight = mx.sym.var("weight")
    outputs, states = contrib.foreach(lambda row, state: (mx.sym.tanh(row * weight + state[0]), [row - state[0]]), data,
                                      [mx.sym.zeros((3,))])
    return mx.sym.Group([outputs, *states])


@pytest.mark.parametrize("number", [-2.0, 2.0])
@pytest.mark.parametrize("op", ["_cond", "_while_loop", "_foreach"])
def test_loops(op, number, tmp_path):
    """The export compares outputs and gradients with MXNet's; here are other numbers, on either side of a branch."""
    torch = pytest.importorskip("torch")
    loop_of(op, mx.sym.var("data")).save(str(tmp_path / "net-symbol.json"))
    weight = mx.nd.array([0.5, -1, 2])
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:weight": weight} if op == "_foreach" else {})
    gops.export.torch(tmp_path / "net", tmp_path, (2, 3))
    x = np.full((2, 3), number, "float32")
    symbol = mx.sym.load(str(tmp_path / "net-symbol.json"))
    values = {"data": mx.nd.array(x), "weight": weight}
    expected = mx.nd.CachedOp(symbol)(*[values[name] for name in symbol.list_inputs()])
    found = runpy.run_path(str(tmp_path / "net.py"))["load"]()(torch.from_numpy(x))
    expected, found = (each if isinstance(each, (list, tuple)) else [each] for each in (expected, found))
    assert len(expected) == len(found)
    for one, other in zip(expected, found):
        np.testing.assert_allclose(other.detach().numpy(), one.asnumpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode, count", [("lstm", 2), ("gru", 1), ("rnn_tanh", 1)])
def test_a_recurrent_layer_that_reads_lengths(mode, count, tmp_path, rng):
    """Each sequence is what the layer without lengths makes of it alone. MXNet runs lengths on a GPU only."""
    torch = pytest.importorskip("torch")
    names = ["data", "parameters", "state", "state_cell"][:2 + count]
    options = {"state_size": 4, "num_layers": 1, "mode": mode, "bidirectional": True, "state_outputs": True}
    net = mx.sym.RNN(*map(mx.sym.var, names), sequence_length=mx.sym.var("lengths"), use_sequence_length=True,
                     **options)
    net.save(str(tmp_path / "net-symbol.json"))
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    parameters = mx.nd.array(rng.uniform(-0.7, 0.7, 2 * gates * 4 * (3 + 4 + 2)))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:parameters": parameters})
    x, lengths = rng.randn(5, 3, 3).astype("float32"), np.array([2, 5, 1], "float32")
    states = [rng.randn(2, 3, 4).astype("float32") for _ in range(count)]
    shapes = {"data": x.shape, **dict.fromkeys(names[2:], (2, 3, 4)), "lengths": (3,)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", gops.export.ExportWarning)
        gops.export.torch(tmp_path / "net", tmp_path, shapes)
    assert "has use_sequence_length, which MXNet ignores on a CPU" in str(caught[-1].message)
    given = {name: torch.from_numpy(each) for name, each in zip(shapes, [x, *states, lengths])}
    found = runpy.run_path(str(tmp_path / "net.py"))["load"]()(**given)
    for row, length in enumerate(lengths.astype(int)):
        expected = mx.nd.RNN(mx.nd.array(x[:length, row:row + 1]), parameters,
                             *[mx.nd.array(each[:, row:row + 1]) for each in states], **options)
        for one, other in zip(found, expected):
            own = one[:length, row:row + 1] if one is found[0] else one[:, row:row + 1]
            np.testing.assert_allclose(own.detach().numpy(), other.asnumpy(), rtol=1e-5, atol=1e-5)
        assert not found[0][length:, row].detach().numpy().any()


def test_a_very_long_loop(tmp_path):
    contrib = mx.sym.contrib
    net = contrib.while_loop(lambda y: y.sum() < 9, lambda y: ([], [y + 1]), [mx.sym.var("data")],
                             max_iterations=2000)[1][0]
    net.save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    with pytest.raises(gops.OpError, match=r"\(_while_loop\) .* has up to 2000 steps; expected at most 1000"):
        gops.export.torch(tmp_path / "net", tmp_path, (2, 3))


@pytest.mark.parametrize("fix_gamma", [False, True])
def test_an_old_batch_norm(fix_gamma, tmp_path, rng):
    """MXNet has no float64 of it. In float32 it is today's batch norm, in outputs, gradients and statistics."""
    options = {"fix_gamma": fix_gamma, "eps": 2e-3, "momentum": 0.8}
    names, states = ("data", "bn_gamma", "bn_beta"), ("bn_moving_mean", "bn_moving_var")
    values = {name: mx.nd.array(rng.uniform(0.5, 1.5, SHAPE if name == "data" else (4,))) for name in names + states}
    symbols = {op: getattr(mx.sym, op)(mx.sym.var("data"), name="bn", **options)
               for op in ("BatchNorm", "BatchNorm_v1")}
    head, found = mx.nd.array(rng.normal(size=SHAPE)), {}
    for op, symbol in symbols.items():
        gradients = {name: mx.nd.zeros(values[name].shape) for name in names}
        executor = symbol.bind(mx.cpu(), {name: values[name] for name in names}, gradients,
                               aux_states={name: values[name].copy() for name in states})
        output = executor.forward(is_train=True)[0]
        executor.backward(head)
        found[op] = [value.asnumpy() for value in (output, *gradients.values(), *executor.aux_arrays)]
    for old, new in zip(*found.values()):
        np.testing.assert_allclose(old, new, rtol=1e-4, atol=1e-4)

    symbols["BatchNorm_v1"].save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"{'aux' if name in states else 'arg'}:{name}": values[name]
                                                   for name in names[1:] + states})
    gops.export.torch(tmp_path / "net", tmp_path / "out", SHAPE)


def test_sparse_gradients_of_an_embedding(tmp_path):
    net = nn.Embedding(7, 4, sparse_grad=True)
    net.initialize()
    gops.export.torch(net, tmp_path, (2, 3))


def test_random_numbers_of_the_size_of_a_tensor(tmp_path):
    """They are not compared with MXNet's, which are others; their distribution is."""
    def hybrid_forward(F, x):
        return F.random.normal_like(x, loc=3, scale=0.5), F.random.uniform_like(x, low=-1, high=3)

    net = Function(hybrid_forward)
    net.initialize()
    with pytest.warns(gops.export.ExportWarning, match="draws random numbers"):
        gops.export.torch(net, tmp_path, (100, 100))
    normal, uniform = scripted.load(tmp_path).load()(torch.zeros(100, 100))
    assert abs(normal.mean() - 3) < 0.05 and abs(normal.std() - 0.5) < 0.05
    assert uniform.min() >= -1 and uniform.max() <= 3 and abs(uniform.mean() - 1) < 0.1


@pytest.mark.parametrize("blank, labels", [("first", [[1, 2, 0], [3, 3, 1]]), ("last", [[0, 2, -1], [3, 3, 1]])])
def test_the_function_of_ctc_loss(blank, labels, rng):
    """Losses and gradients of labels that are not empty, against MXNet's."""
    data = mx.nd.array(rng.randn(8, 2, 5))
    data.attach_grad()
    with mx.autograd.record():
        loss = mx.nd.CTCLoss(data, mx.nd.array(labels), blank_label=blank)
    loss.backward()
    space = {"torch": torch, "F": torch.nn.functional}
    exec(snippets()["ctc_loss"], space)
    x = torch.tensor(data.asnumpy(), requires_grad=True)
    ours = space["ctc_loss"](x, torch.tensor(labels), blank=0 if blank == "first" else -1)
    ours.sum().backward()
    np.testing.assert_allclose(ours.detach().numpy(), loss.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), data.grad.asnumpy(), atol=1e-5)


@pytest.mark.parametrize("blank", ["first", "last"])
@pytest.mark.parametrize("lengths", [False, True])
def test_ctc_loss_trains(blank, lengths, tmp_path):
    """The export compares the losses and the gradients with MXNet's, whose labels are zeros: empty or full."""
    data, label = mx.sym.var("data"), mx.sym.var("label")
    dense = mx.sym.FullyConnected(data, num_hidden=5, flatten=False, name="dense")
    further = {"use_data_lengths": True, "use_label_lengths": True, "data_lengths": mx.sym.var("data_lengths"),
               "label_lengths": mx.sym.var("label_lengths")} if lengths else {}
    loss = mx.sym.MakeLoss(mx.sym.CTCLoss(dense, label, blank_label=blank, **further))
    loss.save(str(tmp_path / "net-symbol.json"))
    rng = np.random.RandomState(0)
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:dense_weight": mx.nd.array(rng.randn(5, 3)),
                                                   "arg:dense_bias": mx.nd.array(rng.randn(5))})
    shapes = {"data": (7, 2, 3), "label": (2, 3), **({"data_lengths": (2,), "label_lengths": (2,)} if lengths else {})}
    gops.export.torch(tmp_path / "net", tmp_path / "port", shapes, training=True)
    assert "ctc_loss" in (tmp_path / "port/net.py").read_text()


def test_every_converter_has_a_case():
    """Layers with parameters are in test_torch.py, losses in test_torch_losses.py, NumPy's in tests/numpy_mode."""
    functions = {name: getattr(converter, "function", None) for name, converter in CONVERTERS.items()}
    of_losses = ("losses", "loss_functions")   # the modules of losses
    used = {name for name, function in functions.items() if getattr(function, "__module__", "").endswith(of_losses)}
    for function in CASES.values():
        net = Function(function)
        net.initialize()
        nodes = prepared(gops.export.ExportedModel.from_net(net, SHAPE), training=False).graph.nodes()
        used.update(f"gluonops_{our_name(node)}" if is_ours(node) else node.op for node in nodes)
    others = {name for name in CONVERTERS.keys() - used - ELSEWHERE if not name.startswith(("_np_", "_npi_", "_npx_"))}
    assert others == set()
