"""Files as others wrote them with older versions of MXNet: repaired and folded, they give MXNet's numbers."""
import json
import pathlib
import re
import sys

import files_of_others as others
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "onnx"))
from onnx_oracle import session  # noqa: E402

data = mx.sym.var("data")
pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")   # mx.nd.array, with today's SciPy


def older(symbol, version=None):
    """The JSON of a symbol as an older MXNet wrote it; 0.8, which wrote no version, listed no states."""
    content = json.loads(symbol.tojson())
    states = () if version else symbol.list_auxiliary_states()
    kept = [place for place, node in enumerate(content["nodes"]) if node["name"] not in states]
    number = {place: i for i, place in enumerate(kept)}
    nodes = []
    for node in (content["nodes"][place] for place in kept):
        inputs = [[number[source], index] for source, index, _ in node["inputs"] if source in number]
        attributes = "attr" if version else "param"
        nodes.append({"op": node["op"], attributes: node.get("attrs", {}), "name": node["name"], "inputs": inputs,
                      "backward_source_id": -1})
    graph = {"nodes": nodes, "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
             "heads": [[number[source], index] for source, index, _ in content["heads"]]}
    return json.dumps({**graph, "attrs": {"mxnet_version": ["int", version]}} if version else graph)


def convolution(source, filters, name, act="relu", **options):
    options = {"kernel": (3, 3), "pad": (1, 1), "no_bias": True, **options}
    made = mx.sym.Convolution(source, num_filter=filters, name=name, **options)
    made = mx.sym.BatchNorm(made, fix_gamma=False, eps=2e-5, name=f"{name}_bn")
    if act == "prelu":
        return mx.sym.LeakyReLU(made, act_type="prelu", name=f"{name}_relu")
    return mx.sym.Activation(made, act_type=act, name=f"{name}_relu") if act else made


def inception():
    """MXNet 0.8 wrote it; Python 2 wrote (3L, 3L)."""
    stem = convolution(data, 8, "stem", no_bias=False)
    pooled = mx.sym.Pooling(stem, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="avg")
    mixed = mx.sym.Concat(convolution(stem, 4, "one", kernel=(1, 1), pad=(0, 0)), convolution(pooled, 4, "pool"))
    flat = mx.sym.Flatten(mx.sym.Pooling(mixed, kernel=(7, 7), global_pool=True, pool_type="avg"))
    head = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(flat, num_hidden=5, name="fc1"), name="softmax")
    return re.sub(r"(\d), (\d)\)", r"\1L, \2L)", older(head)), {"data": (2, 3, 16, 16), "softmax_label": (2,)}


def caffe():
    """A converter wrote it: a batch norm with a scale behind it, pooling that rounds up."""
    made = mx.sym.Convolution(data, kernel=(5, 5), stride=(2, 2), num_filter=8, name="conv1")
    made = mx.sym.LRN(mx.sym.Activation(made, act_type="relu"), nsize=5, alpha=1e-4, beta=0.75)
    made = mx.sym.Pooling(made, kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full")
    made = mx.sym.BatchNorm(made, use_global_stats=True, fix_gamma=False, eps=1e-5, name="bn1")
    made = mx.sym.broadcast_mul(made, mx.sym.var("scale1_gamma", shape=(1, 8, 1, 1)))
    made = mx.sym.broadcast_add(made, mx.sym.var("scale1_beta", shape=(1, 8, 1, 1)))
    made = mx.sym.Dropout(mx.sym.FullyConnected(mx.sym.Flatten(made), num_hidden=6, name="fc6"), p=0.5)
    head = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(made, num_hidden=3, name="fc8"), name="prob")
    return older(head, 10000), {"data": (2, 3, 31, 31), "prob_label": (2,)}


def face():
    """A residual net for faces: pre-activation, PReLU, a dense layer between batch norms."""
    made = convolution((mx.sym.identity(data, name="id") - 127.5) * 0.0078125, 8, "conv0", "prelu")
    shortcut = convolution(made, 8, "shortcut", None, kernel=(1, 1), stride=(2, 2), pad=(0, 0))
    unit = convolution(mx.sym.BatchNorm(made, fix_gamma=False, name="unit_bn1"), 8, "unit1", "prelu")
    made = shortcut + convolution(unit, 8, "unit2", None, stride=(2, 2))
    made = mx.sym.Dropout(mx.sym.BatchNorm(made, fix_gamma=False, name="bn1"), p=0.4)
    made = mx.sym.FullyConnected(made, num_hidden=16, name="pre_fc1")
    return older(mx.sym.BatchNorm(made, fix_gamma=True, name="fc1"), 10200), {"data": (2, 3, 16, 16)}


def ssd():
    """MXNet 0.9 wrote it, whose MultiBox operators had no _contrib_ in their names."""
    maps = mx.sym.L2Normalization(convolution(data, 8, "body"), mode="channel")
    maps = mx.sym.broadcast_mul(maps, mx.sym.var("scale", shape=(1, 8, 1, 1)))
    outputs = [mx.sym.transpose(mx.sym.Convolution(maps, kernel=(3, 3), pad=(1, 1), num_filter=count, name=name),
                                axes=(0, 2, 3, 1)) for name, count in (("cls_pred", 9), ("loc_pred", 12))]
    classes = mx.sym.transpose(mx.sym.Reshape(mx.sym.Flatten(outputs[0]), shape=(0, -1, 3)), axes=(0, 2, 1))
    anchors = mx.sym.contrib.MultiBoxPrior(maps, sizes=(0.2, 0.3), ratios=(1, 2), name="anchors")
    found = mx.sym.contrib.MultiBoxDetection(
        mx.sym.SoftmaxActivation(classes, mode="channel"), mx.sym.Flatten(outputs[1]),
        mx.sym.Reshape(anchors, shape=(0, -1, 4)), nms_threshold=0.5, nms_topk=40, name="detection")
    return older(found, 900), {"data": (2, 3, 8, 8)}


def regions():
    """Faster R-CNN: proposals and what is pooled there."""
    maps = convolution(data, 8, "body", stride=(2, 2))
    scores = mx.sym.Convolution(maps, kernel=(1, 1), num_filter=6, name="rpn_cls_score")
    offsets = mx.sym.Convolution(maps, kernel=(1, 1), num_filter=12, name="rpn_bbox_pred")
    scores = mx.sym.SoftmaxActivation(mx.sym.Reshape(scores, shape=(0, 2, -1, 0)), mode="channel")
    found = mx.sym.contrib.Proposal(
        mx.sym.Reshape(scores, shape=(0, 6, -1, 0)), offsets, mx.sym.var("im_info"), feature_stride=2, scales=(4,),
        ratios=(0.5, 1, 2), rpn_pre_nms_top_n=50, rpn_post_nms_top_n=10, rpn_min_size=1, name="rois")
    pooled = mx.sym.ROIPooling(maps, found, pooled_size=(3, 3), spatial_scale=0.5)
    classes = mx.sym.softmax(mx.sym.FullyConnected(pooled, num_hidden=4, name="cls_score"))
    return older(mx.sym.Group([found, classes]), 900), {"data": (1, 3, 32, 32), "im_info": (1, 3)}


def language_model(fused):
    """LSTMs of MXNet's bucketing examples."""
    if fused:
        cells = mx.rnn.FusedRNNCell(8, num_layers=2, mode="lstm", prefix="lstm_")
    else:
        cells = mx.rnn.SequentialRNNCell()
        for number in range(2):
            cells.add(mx.rnn.LSTMCell(8, prefix=f"l{number}_"))
    embedded = mx.sym.Embedding(data, input_dim=11, output_dim=6, name="embed")
    outputs, _ = cells.unroll(5, mx.sym.transpose(embedded, axes=(1, 0, 2)), merge_outputs=True, layout="TNC")
    scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 8)), num_hidden=11, name="pred")
    label = mx.sym.Reshape(mx.sym.var("softmax_label"), shape=(-1,))
    return older(mx.sym.SoftmaxOutput(scores, label, name="softmax"), 904), {"data": (3, 5), "softmax_label": (3, 5)}


FILES = {"inception": inception, "caffe": caffe, "face": face, "ssd": ssd, "regions": regions,
         "unrolled": lambda: language_model(False), "fused": lambda: language_model(True)}
RENAMED = {"ssd": ("MultiBoxPrior", "MultiBoxDetection"), "regions": ("Proposal",)}


@pytest.fixture(params=FILES)
def file(request, tmp_path, rng):
    """(name, prefix, symbol, arrays, the shapes of the inputs)."""
    text, shapes = FILES[request.param]()
    symbol = mx.sym.load_json(text)
    arrays = others.arrays_of(symbol, shapes, rng)
    if request.param in ("unrolled", "fused"):
        arrays["data"] = mx.nd.array(rng.randint(0, 11, shapes["data"]))
    if "im_info" in shapes:
        arrays["im_info"] = mx.nd.array([[32, 32, 1]])
    for name in RENAMED.get(request.param, ()):
        text = text.replace(f'"_contrib_{name}"', f'"{name}"')
    others.save(tmp_path / "net", text, arrays, symbol.list_auxiliary_states(), shapes)
    return request.param, tmp_path / "net", symbol, arrays, shapes


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
@pytest.mark.filterwarnings("ignore:.*_contrib_")
@pytest.mark.parametrize("options", [{}, {"inference": True, "fold_batch_norm": True, "pad_channels": True}],
                         ids=["repair", "fold"])
def test_numbers(options, file):
    _, prefix, symbol, arrays, shapes = file
    expected = others.outputs_of(symbol, arrays)
    out = prefix.parent / "out"
    gops.export.rewrite(f"{prefix}-symbol.json", out, **options)
    for run in (others.in_module, others.in_gluon):
        others.close(run(out, arrays, shapes), expected, 1e-5 if not options else 1e-4)
    if not options:
        written = mx.nd.load(f"{out}-0000.params")
        for name, value in mx.nd.load(f"{prefix}-0000.params").items():
            np.testing.assert_array_equal(written[name].asnumpy(), value.asnumpy())


@pytest.mark.parametrize("name", RENAMED)
def test_renamed_operators_are_noted(name, tmp_path, rng):
    """MXNet itself does not read these files."""
    text, shapes = FILES[name]()
    symbol = mx.sym.load_json(text)
    old = RENAMED[name][0]
    text = text.replace(f'"_contrib_{old}"', f'"{old}"')
    with pytest.raises(mx.MXNetError):
        mx.sym.load_json(text)
    others.save(tmp_path / "net", text, others.arrays_of(symbol, shapes, rng), symbol.list_auxiliary_states(), shapes)
    with pytest.warns(gops.export.ExportWarning, match=f"net-symbol.json: the operator {old}, of MXNet 0.9.0, is "
                      f"_contrib_{old} in MXNet 1.9.1: nodes "):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
def test_long_integers_of_python_2(tmp_path, rng):
    """(3L, 3L) is what MXNet reads, and no other program."""
    text, shapes = inception()
    assert "(3L, 3L)" in text
    symbol = mx.sym.load_json(text)
    arrays = others.arrays_of(symbol, shapes, rng)
    others.save(tmp_path / "net", text, arrays, symbol.list_auxiliary_states(), shapes)
    graph, _ = gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    assert "(3, 3)" in pathlib.Path(graph).read_text() and "3L" not in pathlib.Path(graph).read_text()
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", shapes["data"])
    found = session(tmp_path / "net.onnx").run(None, {"data": arrays["data"].asnumpy()})
    others.close(found, others.outputs_of(symbol, arrays), 1e-4)


def values(tmp_path, change, text=None):
    """Write the files of a net for faces, with changed values. Returns its symbol, its arrays and its shapes."""
    made, shapes = face()
    symbol = mx.sym.load_json(made)
    arrays = others.arrays_of(symbol, shapes, np.random.RandomState(0))
    others.save(tmp_path / "net", text or made, arrays, symbol.list_auxiliary_states(), shapes)
    saved = mx.nd.load(str(tmp_path / "net-0000.params"))
    mx.nd.save(str(tmp_path / "net-0000.params"), change(saved) or saved)
    return symbol, arrays, shapes


@pytest.mark.parametrize("change, note", [
    (lambda saved: {name[4:]: value for name, value in saved.items()}, None),
    (lambda saved: {name.replace("moving_", "running_"): value for name, value in saved.items()},
     r"net-0000.params has states under other names than the graph: bn1_running_mean is bn1_moving_mean, "),
    (lambda saved: saved.update({"arg:fc7_weight": mx.nd.ones(2), "aux:other": mx.nd.ones(2)}),
     "net-0000.params has values that no node reads, and that are left out: fc7_weight, other"),
    (lambda saved: saved.update({"arg:conv0_gamma": mx.nd.ones(2)}), "left out: conv0_gamma")],
    ids=["without_tags", "running", "surplus", "one"])
def test_names_of_values(change, note, tmp_path, recwarn):
    symbol, arrays, shapes = values(tmp_path, change)
    gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    notes = [str(warning.message) for warning in recwarn if warning.category is gops.export.ExportWarning]
    assert [bool(re.search(note, text)) for text in notes] == [True] if note else not notes
    others.close(others.in_gluon(tmp_path / "out", arrays, shapes), others.outputs_of(symbol, arrays), 1e-6)
    tags = {**dict.fromkeys(symbol.list_arguments(), "arg"), **dict.fromkeys(symbol.list_auxiliary_states(), "aux")}
    del tags["data"]
    assert set(mx.nd.load(str(tmp_path / "out-0000.params"))) == {f"{tag}:{name}" for name, tag in tags.items()}


def test_every_missing_value_is_named(tmp_path):
    values(tmp_path, lambda saved: [saved.pop(name) for name in ("arg:conv0_weight", "aux:fc1_moving_var")] and None)
    with pytest.raises(gops.OpError, match="net-0000.params has no value for conv0_weight, fc1_moving_var; it has "):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    values(tmp_path, lambda saved: saved.update({"aux:conv0_weight": mx.nd.ones(2)}))
    with pytest.raises(gops.OpError, match="net-0000.params has two values for conv0_weight"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")


@pytest.mark.parametrize("kept", [(), ("gamma", "beta", "mean", "var")], ids=["all", "mixed"])
def test_values_of_float16(kept, tmp_path):
    """A small file has them, or mixed training. Module makes float32 of them, and so do the written files."""
    def halved(saved):
        return {name: value if name.endswith(kept or ("!",)) else value.astype("float16")
                for name, value in saved.items()}

    symbol, arrays, shapes = values(tmp_path, halved)
    read = {name[4:]: value.astype("float32") for name, value in
            mx.nd.load(str(tmp_path / "net-0000.params")).items()}
    expected = others.outputs_of(symbol, {**arrays, **read})
    with pytest.warns(gops.export.ExportWarning, match="has values of float16 for a graph of float32"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out", fold_batch_norm=True)
    for run in (others.in_module, others.in_gluon):
        others.close(run(tmp_path / "out", arrays, shapes), expected, 1e-5)


@pytest.mark.parametrize("dtype, kinds", [("float16", {np.float16, np.float32}), ("float64", {np.float64})])
def test_a_net_of_another_type_stays_one(dtype, kinds, tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3, in_channels=3), mx.gluon.nn.BatchNorm(in_channels=4))
    net.initialize()
    net.cast(dtype)
    net.hybridize()
    net.infer_shape(mx.nd.ones((1, 3, 6, 6), dtype=dtype))
    net(mx.sym.var("data", dtype=dtype)).save(str(tmp_path / "net-symbol.json"))
    net.collect_params().save(str(tmp_path / "net-0000.params"))
    gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    assert {value.dtype for value in mx.nd.load(str(tmp_path / "out-0000.params")).values()} == kinds
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (1, 3, 6, 6))
    with pytest.raises(gops.OpError, match="the net refuses inputs of float32: .*Pass another dtype"):
        gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx", (1, 3, 6, 6), dtype="float32")


def test_what_gluonops_lacks_is_named(tmp_path):
    text = face()[0].replace('"op": "Dropout"', '"op": "CaffeOp"')
    values(tmp_path, dict, text)
    with pytest.raises(gops.OpError, match="net-symbol.json: the node 'dropout.*' is the operator CaffeOp, which MXNet "
                       "1.9.1 does not have; the file was written by MXNet 1.2.0"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    text = face()[0].replace('"op": "BatchNorm"', '"op": "CuDNNBatchNorm"')
    symbol, arrays, shapes = values(tmp_path, dict, text)
    with pytest.warns(gops.export.ExportWarning, match="the operator CuDNNBatchNorm, of MXNet 1.2.0, is BatchNorm in"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out", fold_batch_norm=True)
    others.close(others.in_gluon(tmp_path / "out", arrays, shapes), others.outputs_of(symbol, arrays), 1e-5)
