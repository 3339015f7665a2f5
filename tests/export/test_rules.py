"""gluonops.export.rules: the shapes and types that MXNet infers, for every operator and for whole nets."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
import test_legacy_files as legacy
from gluonops.backends import native
from gluonops.export import passes, rules, sizes
from gluonops.export.graph import CURRENT, VARIABLE, Graph, Node
from gluonops.export.symbolic import free, value_of

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CHANNELS = {"pj-extra.cfg": 2}
IMAGE = (2, 6, 8, 10)
# Operator -> the shapes of its inputs, and attributes. Of those that are not here, the rule has nothing but the shape.
CASES = {
    **dict.fromkeys(("Convolution", "Convolution_v1"), [
        ([IMAGE, (4, 3, 3, 3), (4,)],
         {"kernel": (3, 3), "num_filter": 4, "num_group": 2, "stride": (2, 1), "pad": (1, 0)}),
        ([IMAGE, (4, 6, 3, 3)], {"kernel": (3, 3), "num_filter": 4, "dilate": (2, 3), "no_bias": True})]),
    "Deconvolution": [
        ([IMAGE, (6, 4, 3, 3)], {"kernel": (3, 3), "num_filter": 4, "stride": (2, 2), "pad": (1, 1), "adj": (1, 0)}),
        ([IMAGE, (6, 2, 2, 3), (4,)],
         {"kernel": (2, 3), "num_filter": 4, "num_group": 2, "dilate": (2, 1), "no_bias": False})],
    "_contrib_ModulatedDeformableConvolution": [
        ([IMAGE, (2, 18, 8, 10), (2, 9, 8, 10), (4, 6, 3, 3), (4,)],
         {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)})],
    "_contrib_DeformableConvolution": [
        ([IMAGE, (2, 18, 8, 10), (4, 6, 3, 3), (4,)], {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)})],
    "FullyConnected": [
        ([IMAGE, (5, 480), (5,)], {"num_hidden": 5}),
        ([IMAGE, (5, 10)], {"num_hidden": 5, "flatten": False, "no_bias": True}),
        ([(10,), (5, 1), (5,)], {"num_hidden": 5})],
    **dict.fromkeys(("Pooling", "Pooling_v1"), [
        ([IMAGE], {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 0)}),
        ([IMAGE], {"global_pool": True, "kernel": (1, 1)}),
        ([IMAGE], {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full", "pool_type": "avg"})]),
    "BatchNorm": [([IMAGE, *[(6,)] * 4], {}), ([IMAGE, *[(10,)] * 4], {"axis": -1})],
    "BatchNorm_v1": [([IMAGE, *[(6,)] * 4], {})],
    "_contrib_SyncBatchNorm": [([IMAGE, *[(6,)] * 4], {"key": "a"})],
    "LayerNorm": [([IMAGE, (10,), (10,)], {})],
    "InstanceNorm": [([IMAGE, (6,), (6,)], {})],
    "GroupNorm": [([IMAGE, (2,), (2,)], {"num_groups": 2})],
    "LeakyReLU": [([IMAGE], {}), ([IMAGE, (6,)], {"act_type": "prelu"})],
    "Embedding": [([(2, 3), (7, 4)], {"input_dim": 7, "output_dim": 4})],
    "RNN": [
        ([(5, 2, 3), (440,), (2, 2, 5), (2, 2, 5)], {"state_size": 5, "num_layers": 2, "mode": "lstm"}),
        ([(5, 2, 3), (300,), (2, 2, 5)],
         {"state_size": 5, "num_layers": 1, "mode": "gru", "bidirectional": True, "state_outputs": True})],
    "UpSampling": [([IMAGE], {"scale": 2, "sample_type": "nearest", "num_args": 1}),
                   ([IMAGE, IMAGE], {"scale": 2, "sample_type": "nearest", "num_args": 2}),
                   ([IMAGE, IMAGE], {"scale": 2, "sample_type": "nearest", "num_args": 2, "multi_input_mode": "sum"})],
    "_contrib_BilinearResize2D": [
        ([IMAGE], {"height": 5, "width": 7}),
        ([IMAGE], {"scale_height": 1.3, "scale_width": 2}),
        ([IMAGE], {"height": 3, "scale_width": 2}),
        ([IMAGE, (2, 1, 3, 4)], {"mode": "like"})],
    "_contrib_AdaptiveAvgPooling2D": [([IMAGE], {}), ([IMAGE], {"output_size": 3}), ([IMAGE], {"output_size": (3, 2)})],
    "SoftmaxOutput": [
        ([(4, 5), (4,)], {}),
        ([(4, 5), (4, 5)], {}),
        ([IMAGE, (2, 8, 10)], {"multi_output": True}),
        ([IMAGE, (2, 80)], {"multi_output": True}),
        ([(2, 3, 5), (2, 3)], {"preserve_shape": True})],
    **dict.fromkeys(("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"), [
        ([(4, 5), (4, 5)], {}),
        ([(4, 1), (4,)], {})]),
    "SVMOutput": [([(4, 5), (4,)], {}), ([(4, 5, 3), (4, 5)], {})],
    "softmax_cross_entropy": [([(4, 5), (4,)], {})],
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "nansum", "nanprod"), [
        ([IMAGE], {}),
        ([IMAGE], {"axis": (1, -1)}),
        ([IMAGE], {"axis": 2, "keepdims": True}),
        ([IMAGE], {"keepdims": True})]),
    "norm": [([IMAGE], {}), ([IMAGE], {"axis": (1, -1), "out_dtype": "float64"})],
    "moments": [([IMAGE], {"axes": (1, -1)}), ([IMAGE], {"axes": (2,), "keepdims": True})],
    **dict.fromkeys(("argmax", "argmin"), [
        ([IMAGE], {"axis": 1}),
        ([IMAGE], {"axis": -1, "keepdims": True}),
        ([IMAGE], {})]),
    "topk": [
        ([IMAGE], {"k": 3}),
        ([IMAGE], {"k": 3, "axis": 1, "ret_typ": "both", "dtype": "int32"}),
        ([IMAGE], {"ret_typ": "value", "k": 2}),
        ([IMAGE], {"ret_typ": "mask", "k": 2}),
        ([IMAGE], {"axis": None, "k": 4}),
        ([IMAGE], {"axis": None, "ret_typ": "mask"})],
    "sort": [([IMAGE], {}), ([IMAGE], {"axis": None})],
    **dict.fromkeys(("batch_dot", "_linalg_gemm2"), [
        ([(2, 3, 4), (2, 4, 5)], {}),
        ([(2, 4, 3), (2, 5, 4)], {"transpose_a": True, "transpose_b": True})]),
    "dot": [
        ([(3, 4), (4, 5)], {}),
        ([(4, 3), (5, 4)], {"transpose_a": True, "transpose_b": True}),
        ([(4,), (4,)], {}),
        ([(2, 3, 4), (4, 5)], {})],
    "Reshape": [
        *(([IMAGE], {"shape": shape}) for shape in (
            (0, -1), (-1,), (-2,), (0, -3, -2), (-4, 1, 2, -2), (0, 0, 0, -4, -1, 5), (0, 0, -1), (4, -1, 10))),
        ([IMAGE], {"shape": (-1, 0), "reverse": True}),
        ([IMAGE], {"target_shape": (0, 480), "keep_highest": True})],
    "_npx_reshape": [([(2, 1, 8, 10)], {"newshape": shape}) for shape in (
        (-2, -3, -1), (-2, -1), (-2, -2, -5), (-2, -2, -6, 4, -1, -4))],
    "reshape_like": [
        ([(6, 10), (2, 3, 10)], {}),
        ([(30, 7), (15, 2, 4)], {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2})],
    "transpose": [([IMAGE], {}), ([IMAGE], {"axes": (0, 2, 3, 1)})],
    "SwapAxis": [([IMAGE], {"dim1": 1, "dim2": 3})],
    "expand_dims": [([IMAGE], {"axis": 1}), ([IMAGE], {"axis": -1})],
    "squeeze": [([(1, 3, 1)], {}), ([(1, 3, 1)], {"axis": -1}), ([(1, 1)], {}),
                ([(1, 3, 1)], {"axis": ()})],
    "Concat": [([IMAGE, (2, 3, 8, 10)], {"num_args": 2}), ([IMAGE, IMAGE], {"num_args": 2, "dim": -1})],
    "_rnn_param_concat": [([(5,), (7,)], {"num_args": 2, "dim": 0}), ([(5, 2), (5, 7)], {"num_args": 2})],
    "stack": [([IMAGE, IMAGE], {"num_args": 2, "axis": 1}), ([IMAGE, IMAGE], {"num_args": 2, "axis": -1})],
    "SliceChannel": [([IMAGE], {"num_outputs": 3}), ([IMAGE], {"num_outputs": 2, "axis": 0, "squeeze_axis": True})],
    "_split_v2": [
        ([IMAGE], {"indices": (), "sections": 2, "axis": 2}), ([IMAGE], {"indices": (0, 1, 5), "axis": 1}),
        ([IMAGE], {"indices": (), "sections": 6, "axis": 1, "squeeze_axis": True})],
    "slice_axis": [([IMAGE], {"axis": 2, "begin": 1, "end": None}), ([IMAGE], {"axis": -1, "begin": -4, "end": -1})],
    "slice": [
        ([IMAGE], {"begin": (None, 1, 2), "end": (None, -1, 7), "step": (None, 1, 2)}),
        ([IMAGE], {"begin": (1,), "end": (2,)}),
        ([IMAGE], {"begin": (None, -1), "end": (None, None), "step": (1, -2)})],
    "slice_like": [([IMAGE, (2, 3, 4, 5)], {}), ([IMAGE, (9, 9, 4, 5)], {"axes": (2, -1)})],
    "Crop": [([IMAGE, (2, 1, 4, 5)], {"num_args": 2}), ([IMAGE], {"num_args": 1, "h_w": (3, 4)})],
    "tile": [([(3, 4)], {"reps": (2, 1, 3)}), ([IMAGE], {"reps": (2,)})],
    "repeat": [([IMAGE], {"repeats": 2, "axis": 1}), ([IMAGE], {"repeats": 3})],
    "broadcast_to": [([(1, 3, 1)], {"shape": (4, 0, 5)})],
    "broadcast_axis": [([(1, 3, 1)], {"axis": (0, 2), "size": (4, 5)})],
    "broadcast_like": [([(1, 3, 1), (4, 3, 5)], {}), ([(1, 3), (7, 5)], {"lhs_axes": (0,), "rhs_axes": (-1,)}),
                       ([(1, 3), (7, 3)], {"rhs_axes": (1,)})],
    "Pad": [([IMAGE], {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 3, 4)})],
    **dict.fromkeys(("space_to_depth",), [([IMAGE], {"block_size": 2})]),
    "depth_to_space": [([(2, 8, 3, 3)], {"block_size": 2})],
    "take": [([IMAGE, (3, 4)], {}), ([IMAGE, (3,)], {"axis": -1})],
    "pick": [([(4, 5), (4,)], {}), ([(4, 5, 6), (4, 6)], {"axis": 1}), ([(4, 5), (4, 1)], {"keepdims": True})],
    "gather_nd": [([(4, 5, 6), (2, 3)], {})],
    "one_hot": [([(4, 5)], {"depth": 3, "dtype": "int32"})],
    "SequenceLast": [([(5, 2, 3)], {}), ([(5, 2, 3), (5,)], {"axis": 1, "use_sequence_length": True})],
    "SequenceMask": [([(5, 2, 3), (2,)], {"use_sequence_length": True})],
    "SequenceReverse": [([(5, 2, 3), (2,)], {"use_sequence_length": True})],
    **dict.fromkeys(("_zeros", "_ones"), [
        ([], {"shape": (2, 3), "dtype": "float64"})]),
    "_full": [([], {"shape": (2, 3), "value": 0.5, "dtype": "int32"})],
    "_arange": [([], {"start": 5}), ([], {"start": 1, "stop": 8.5, "step": 1.5, "repeat": 2, "dtype": "float64"})],
    "_contrib_arange_like": [([IMAGE], {}), ([IMAGE], {"axis": -1})],
    "_contrib_box_nms": [([(2, 7, 6)], {})],
    "_contrib_box_decode": [([(2, 7, 4), (1, 7, 4)], {"format": "center"})],
    "_contrib_ROIAlign": [([IMAGE, (5, 5)], {"pooled_size": (3, 2), "spatial_scale": 0.5})],
    "ROIPooling": [([IMAGE, (5, 5)], {"pooled_size": (3, 2), "spatial_scale": 0.5})],
    "_contrib_PSROIPooling": [([(2, 18, 8, 10), (5, 5)], {"pooled_size": 3, "spatial_scale": 0.5, "output_dim": 2})],
    "_contrib_Proposal": [([(1, 24, 4, 5), (1, 48, 4, 5), (1, 3)], {})],
    "_contrib_MultiProposal": [([(2, 24, 4, 5), (2, 48, 4, 5), (2, 3)], {"rpn_post_nms_top_n": 7})],
    **dict.fromkeys(("_random_normal", "_random_uniform"), [([], {"shape": (2, 3), "dtype": "float64"}),
                                                            ([], {"shape": (2, 3)})]),
    **dict.fromkeys(("_sample_normal", "_sample_uniform"), [([(2, 3), (2, 3)], {}),
                                                            ([(2,), (2,)], {"shape": (3, 4), "dtype": "float16"})]),
    "_sample_multinomial": [([(2, 3)], {}), ([(2, 3)], {"shape": (4, 5)}), ([(3,)], {}), ([(3,)], {"shape": (4,)}),
                            ([(2, 3)], {"get_prob": True})],
    "_foreach": [],   # a test below
    "Correlation": [([IMAGE, IMAGE], {"max_displacement": 2, "stride2": 2, "pad_size": 2}),
                    ([IMAGE, IMAGE], {"kernel_size": 3, "stride1": 2, "pad_size": 3, "is_multiply": False})],
    "BilinearSampler": [([IMAGE, (2, 2, 4, 5)], {})],
    "GridGenerator": [([(2, 6)], {"transform_type": "affine", "target_shape": (4, 5)}),
                      ([(2, 2, 4, 5)], {"transform_type": "warp"})],
    "SpatialTransformer": [
        ([IMAGE, (2, 6)], {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (4, 5)})],
    "CTCLoss": [([(5, 2, 7), (2, 3)], {})],
    "_linalg_gemm": [([(2, 3, 4), (2, 4, 5), (2, 3, 5)], {})],
    **dict.fromkeys(("_linalg_trmm", "_linalg_trsm"), [([(2, 3, 3), (2, 3, 4)], {})]),
    **dict.fromkeys(("_linalg_inverse", "_linalg_det", "_linalg_extractdiag"), [([(2, 3, 3)], {})]),
    "khatri_rao": [([(2, 4), (3, 4)], {"num_args": 2})],
    "_np_cumsum": [([IMAGE], {}), ([IMAGE], {"axis": 1})],
    "_contrib_interleaved_matmul_selfatt_qk": [([(5, 2, 24)], {"heads": 4})],
    "_contrib_interleaved_matmul_selfatt_valatt": [([(5, 2, 24), (8, 5, 5)], {"heads": 4})],
    "_contrib_interleaved_matmul_encdec_qk": [([(5, 2, 8), (7, 2, 16)], {"heads": 4})],
    "_contrib_interleaved_matmul_encdec_valatt": [([(7, 2, 16), (8, 5, 7)], {"heads": 4})],
    "_contrib_MultiBoxPrior": [([IMAGE], {}), ([IMAGE], {"sizes": (0.1, 0.2), "ratios": (1, 2, 0.5)})],
    "batch_take": [([(4, 5), (4,)], {}), ([(4, 5, 3), (4, 5)], {})],
    "_contrib_MultiBoxTarget": [([(1, 7, 4), (2, 3, 5), (2, 4, 7)], {})],
    "_contrib_MultiBoxDetection": [([(2, 4, 7), (2, 28), (1, 7, 4)], {})],
    "where": [([IMAGE] * 3, {}), ([(2,), (2, 3), (2, 3)], {})],
    "add_n": [([IMAGE] * 3, {"num_args": 3})],
    "shape_array": [([IMAGE], {})],
    "_contrib_index_array": [([IMAGE], {}), ([IMAGE], {"axes": (1, -1)})],
    "size_array": [([IMAGE], {})],
    "Cast": [([IMAGE], {"dtype": "int32"})],
    "amp_cast": [([IMAGE], {"dtype": "float16"})],
    "clip": [([IMAGE], {"a_min": 0, "a_max": 1})],
    "reverse": [([IMAGE], {"axis": 1})],
    "Activation": [([IMAGE], {"act_type": "relu"})],
    "argsort": [([IMAGE], {"dtype": "int32"}), ([IMAGE], {"axis": None})],
    "softmax": [([IMAGE], {"dtype": "float64"}), ([IMAGE, (2, 8, 10)], {"axis": 1, "use_length": True})],
    "LRN": [([IMAGE], {"nsize": 3})],
    "_identity_with_attr_like_rhs": [([IMAGE] * 2, {})],
}
FIXED = {("diag", "batch")}   # The diagonal is as long as the smaller one of the batch and 6.


def cases():
    for op in rules.RULES:
        if op.startswith(("_np_", "_npi_", "_npx_")) and op not in CASES:   # tests/numpy_mode has these
            continue
        pair = [(2, 1, 8, 10), (2, 6, 1, 10)] if op.startswith("broadcast_") else [IMAGE, IMAGE]
        takes_two = rules.RULES[op] in (rules.RULES["elemwise_add"], rules.RULES["broadcast_add"])
        scalar = {"scalar": 2} if op.endswith("_scalar") else {}
        for number, (shapes, attrs) in enumerate(CASES.get(op, [(pair if takes_two else [IMAGE], scalar)])):
            yield pytest.param(op, shapes, attrs, id=f"{op}-{number}")


def graph_of(op, shapes, attrs):
    """A graph of one node."""
    variables = [Node(VARIABLE, f"input{place}") for place in range(len(shapes))]
    texts = {name: str(value) for name, value in attrs.items()}
    return Graph([(Node(op, "node", texts, [(variable, 0) for variable in variables]), 0)],
                 {"mxnet_version": ["int", CURRENT]})


def check(graph, shapes, types):
    found = rules.infer_shapes(graph, shapes)
    outputs = Graph(found, graph.attrs)   # MXNet tells the outputs that are read, and the rules further ones
    expected = sizes.by_mxnet("infer_shape_partial", outputs, shapes)
    read = {*graph.outputs, *(entry for node in graph.nodes() for entry in node.inputs)}
    assert read <= found.keys() <= expected.keys()
    assert found == {entry: tuple(expected[entry]) for entry in found}
    kinds = sizes.by_mxnet("infer_type_partial", outputs, types)
    assert rules.infer_types(graph, types, found) == {entry: np.dtype(kinds[entry]) for entry in found}


def check_model(model):
    for each in (model, passes.lower(model, "builtin"), passes.inference(model)):
        shapes = each.shapes()
        types = {name: each.parameters[name].dtype if name in each.parameters else np.float32 for name in shapes}
        check(each.graph, shapes, types)


@pytest.mark.parametrize("op, shapes, attrs", list(cases()))
def test_operators(op, shapes, attrs):
    graph = graph_of(op, shapes, attrs)
    known = {f"input{place}": shape for place, shape in enumerate(shapes)}
    types = dict.fromkeys(known, np.dtype("float32"))
    check(graph, known, {**types, "input1": np.dtype("int32")} if op == "batch_take" else types)


BATCH = {0: {2: free("batch")}}
PIXELS = {-2: {8: 8 * free("height")}, -1: {10: 10 * free("width")}}
OF_FREE = [dict(zip(("batch", "height", "width"), sizes)) for sizes in (
    (2, 2, 2), (3, 4, 2), (5, 2, 3), (7, 8, 5), (8, 3, 8))]


def freed(shape, free_sizes):
    """The shape with free sizes along some axes in place of numbers."""
    sizes = list(shape)
    for axis, replaced in free_sizes.items():
        if -len(shape) <= axis < len(shape):
            sizes[axis] = replaced.get(sizes[axis], sizes[axis])
    return tuple(sizes)


@pytest.mark.parametrize("axes", [BATCH, PIXELS], ids=["batch", "pixels"])
@pytest.mark.parametrize("op, shapes, attrs", list(cases()))
def test_operators_with_free_sizes(op, shapes, attrs, axes):
    """A rule makes of free sizes what it makes of the numbers that they stand for, or says that it depends on them."""
    graph = graph_of(op, shapes, attrs)
    of_free = {f"input{place}": freed(shape, axes) for place, shape in enumerate(shapes)}
    of_numbers = []
    for values in OF_FREE:
        numbers = {name: tuple(value_of(size, values) for size in shape) for name, shape in of_free.items()}
        try:
            of_numbers.append(rules.infer_shapes(graph, numbers))
        except rules.Misfit:
            of_numbers.append(None)
    try:
        found = rules.infer_shapes(graph, of_free)
    except rules.Misfit as misfit:
        assert re.search("'node'.*(batch|height|width)", str(misfit))
        assert None in of_numbers or (op, "batch" if axes is BATCH else "pixels") in FIXED
    else:
        assert of_numbers == [{entry: tuple(value_of(size, values) for size in shape)
                               for entry, shape in found.items()} for values in OF_FREE]


def test_what_fixes_the_batch_is_named():
    data = Node(VARIABLE, "data")
    flat = Node("Reshape", "rows", {"shape": "(4, -1)"}, [(data, 0)])
    graph = Graph([(Node("relu", "relu", {}, [(flat, 0)]), 0)], {"mxnet_version": ["int", CURRENT]})
    with pytest.raises(gops.OpError, match=r"does not take any batch size: 'rows' \(Reshape\) .*depends on batch"):
        sizes.Sizes(graph, {"data": (4, 3, 5)}, {}, "float32", True)
    assert sizes.Sizes(graph, {"data": (4, 3, 5)}, {}, "float32", False).shape[flat, 0] == (4, 15)


def test_constants_without_a_rule_have_the_shape_that_mxnet_tells():
    data, eye = Node(VARIABLE, "data"), Node("_eye", "eye", {"N": "3"})
    product = Node("dot", "product", {}, [(data, 0), (eye, 0)])
    graph = Graph([(product, 0)], {"mxnet_version": ["int", CURRENT]})
    shape = sizes.Sizes(graph, {"data": (4, 3)}, {}, "float32", True).shape
    assert "_eye" not in rules.RULES
    assert list(map(str, shape[product, 0])) == ["batch", "3"] and shape[eye, 0] == (3, 3)


def test_a_loop():
    from mxnet.symbol import contrib
    data, weight = mx.sym.var("data"), mx.sym.var("weight")

    def step(frame, state):
        state = mx.sym.tanh(mx.sym.dot(frame, weight) + state)
        return [mx.sym.concat(state, state, dim=1), frame.astype("int32")], state

    (rows, whole), last = contrib.foreach(step, data, mx.sym.var("state"))
    graph = Graph.of(mx.sym.Group([rows, whole, last]))
    names = {"data": (5, 2, 3), "weight": (3, 4), "state": (2, 4)}
    check(graph, names, dict.fromkeys(names, np.dtype("float32")))


@pytest.mark.parametrize("table", ["onnx", "torch"])
def test_every_operator_that_has_a_converter_has_a_rule(table):
    from gluonops.export.operators.rule_registry import ONNX, TORCH
    others = {name for name in native_names() if not name.startswith("gluonops_")}   # contracts have the rules of ours
    assert others & {"onnx": ONNX, "torch": TORCH}[table].keys() - rules.RULES.keys() <= {"_NoGradient"}   # has no data


@pytest.mark.parametrize("op, shapes, attrs", [
    ("Convolution", [IMAGE, (4, 5, 3, 3)], {"kernel": (3, 3), "num_filter": 4}),
    ("FullyConnected", [IMAGE, (5, 10), (5,)], {"num_hidden": 5}), ("BatchNorm", [IMAGE, *[(5,)] * 4], {}),
    ("Pooling", [IMAGE], {"kernel": (9, 3)}), ("elemwise_add", [IMAGE, (2, 6, 8, 1)], {}),
    ("Reshape", [IMAGE], {"shape": (7, -1)}),
    ("broadcast_add", [IMAGE, (2, 5, 8, 10)], {}), ("Concat", [IMAGE, (2, 6, 7, 10)], {"num_args": 2}),
    ("RNN", [(5, 2, 3), (441,), (2, 2, 5), (2, 2, 5)], {"state_size": 5, "num_layers": 2, "mode": "lstm"}),
    ("batch_dot", [(2, 3, 4), (2, 5, 4)], {}), ("SliceChannel", [IMAGE], {"num_outputs": 4}),
    ("Embedding", [IMAGE], {}), ("_contrib_MultiBoxDetection", [(2, 4, 7), (2, 24), (1, 7, 4)], {}),
    ("_contrib_box_decode", [(2, 7, 4), (1, 6, 4)], {}), ("pick", [(4, 5), (3,)], {}),
    ("SequenceMask", [(5, 2, 3), (5,)], {"use_sequence_length": True}),
    ("_contrib_MultiBoxTarget", [(1, 7, 4), (2, 3, 5), (2, 4, 6)], {}),
    ("_contrib_interleaved_matmul_selfatt_valatt", [(5, 2, 24), (8, 5, 6)], {"heads": 4}),
    ("slice_axis", [IMAGE], {"axis": 9, "begin": 0, "end": None}), ("transpose", [IMAGE], {"axes": "(1, 'a')"}),
    ("slice_axis", [IMAGE], {"axis": 1, "begin": -7, "end": None}), ("topk", [IMAGE], {"axis": 1, "k": 7}),
    ("gather_nd", [IMAGE, (5, 3)], {}), ("moments", [IMAGE], {}),
    ("slice_axis", [IMAGE], {"axis": 1, "begin": 0, "end": 7}),
    ("Pad", [IMAGE[1:]], {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 1)}),
    ("_linalg_gemm2", [(2, 3, 4, 3)] * 2, {"axis": 1}), ("pick", [(4, 5), (4,)], {"axis": None}),
    ("_contrib_AdaptiveAvgPooling2D", [(2, 6, 4, 8, 10)], {}), ("sort", [IMAGE], {"axis": 4}),
    ("broadcast_to", [(1, 3)], {"shape": (4, 2)}), ("space_to_depth", [IMAGE], {"block_size": 3})])
def test_what_does_not_fit_is_named(op, shapes, attrs):
    graph = graph_of(op, shapes, attrs)
    with pytest.raises(rules.Misfit, match=rf"'node' \({op}\)"):
        rules.infer_shapes(graph, {f"input{place}": shape for place, shape in enumerate(shapes)})


@pytest.mark.parametrize("op, attrs, kinds", [
    ("amp_cast", {"dtype": "float16"}, ["int32"]), ("amp_cast", {"dtype": "float16"}, ["float64"]),
    ("take", {}, ["float16", "int32"]), ("where", {}, ["int32", "float16", "float16"]),
    ("slice_like", {}, ["float16", "float32"])])
def test_types(op, attrs, kinds):
    graph = graph_of(op, [None] * len(kinds), attrs)
    types = {f"input{place}": np.dtype(kind) for place, kind in enumerate(kinds)}
    expected = sizes.by_mxnet("infer_type_partial", graph, types)
    assert rules.infer_types(graph, types)[graph.outputs[0]] == np.dtype(expected[graph.outputs[0]])


@pytest.mark.parametrize("op", ["elemwise_add", "broadcast_mul", "Concat", "dot", "FullyConnected", "SoftmaxOutput"])
def test_types_that_mxnet_does_not_mix(op):
    attrs = {"Concat": {"num_args": 2}, "FullyConnected": {"num_hidden": 3, "no_bias": True}}.get(op, {})
    types = {"input0": np.dtype("float32"), "input1": np.dtype("float16")}
    graph = graph_of(op, [None] * 2, attrs)
    with pytest.raises(rules.Misfit, match=r"reads float16 beside data of float32; expected float32"):
        rules.infer_types(graph, types)
    with pytest.raises(rules.Misfit):
        sizes.by_mxnet("infer_type_partial", graph, types)


def test_the_shape_of_labels_that_are_picked():
    graph = graph_of("pick", [(2, 3, 4), None], {"axis": 1})
    assert rules.infer_shapes(graph, {"input0": (2, 3, 4)})[graph.outputs[0][0].inputs[1]] == (2, 4)


def test_aliases():
    """All that files of other versions may call an operator that has a rule, as MXNet itself knows them."""
    from gluonops.export.operators import admission
    ours = re.compile("_sparse_|_np[xi]?_")
    for name in native_names():
        own = native.operator_name(name)
        if own in rules.RULES and name != own and not ours.match(name):
            assert admission._name_without_mxnet(name) == own


def native_names():
    from ctypes import POINTER, byref, c_char_p, c_uint
    size, names = c_uint(), POINTER(c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(byref(size), byref(names)))
    return [names[place].decode() for place in range(size.value)]


@pytest.mark.parametrize("name", legacy.FILES)
def test_files(name):
    symbol, shapes = mx.sym.load_json(legacy.text_of(name)), legacy.FILES[name]
    arguments, _, states = symbol.infer_shape_partial(**shapes)
    known = dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), arguments + states))
    check(Graph.of(symbol), known, dict.fromkeys(known, np.dtype("float32")))


@pytest.mark.parametrize("cell", ["RNNCell", "LSTMCell", "GRUCell"])
def test_first_states_of_cells(cell):
    output, _ = getattr(mx.rnn, cell)(4).unroll(2, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    names, (shapes, _, _) = output.list_arguments(), output.infer_shape(data=(3, 2, 5))
    check(Graph.of(output), dict(zip(names, shapes)), dict.fromkeys(names, np.dtype("float32")))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((GOLDEN / "darknet").glob("*.cfg")), ids=lambda path: path.name)
def test_darknet(path):
    net = gops.darknet.load(path)
    net.initialize()
    check_model(gops.export.ExportedModel.from_net(net, (1, CHANNELS.get(path.name, 3), 96, 96)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_zoo():
    from benchmarks.networks import gluoncv_nets
    for name, shape in gluoncv_nets.NETS.items():
        check_model(gops.export.ExportedModel.from_net(gluoncv_nets.made(name), (1, *shape)))
