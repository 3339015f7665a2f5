"""Files exported before: rewritten for another backend without the net's source, and their golden structure."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon
from mxnet.gluon import nn

SHAPE = (2, 3, 8, 8)
BACKENDS = ("builtin", "custom", "native")


def build(rng):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), gops.nn.Reorg(2), gops.nn.Abs(), nn.Flatten(), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    with mx.autograd.record():
        net(mx.nd.array(rng.randn(*SHAPE)))
    return net


def nodes(path):
    return json.loads(pathlib.Path(path).read_text())["nodes"]


def sequence(path):
    """The operators in order, without variables."""
    return [node["op"] for node in nodes(path) if node["op"] != "null"]


PLAIN = ("squeeze", "_identity_with_attr_like_rhs")   # a copy in plain layout
GOLDEN = {
    "builtin": ["Convolution", "BatchNorm", "Reshape", "_identity_with_attr_like_rhs", *["Reshape"] * 5, "transpose",
                *["Reshape"] * 2, "slice", "tile", "BlockGrad", "reshape_like", "_copy", "abs", "_copy", "Flatten",
                "FullyConnected"],
    "native": ["Convolution", "BatchNorm", "gluonops_reorg", "gluonops_abs", "Flatten", "FullyConnected"],
    "custom": ["Convolution", "BatchNorm", *PLAIN, "Custom", "squeeze",
               *PLAIN, "Custom", *PLAIN, "Flatten", "FullyConnected"],
}
HEADS = {
    "native": ["gluonops_softmax_output", "make_loss", "_copy"],
    "custom": [*PLAIN, "Custom"],
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_golden_structure(backend, rng, tmp_path):
    symbol, _ = gops.export.symbol(build(rng), tmp_path / "net", SHAPE, backend=backend)
    assert sequence(symbol) == GOLDEN[backend]


@pytest.mark.parametrize("backend", sorted(HEADS))
def test_golden_structure_of_a_head(backend, rng, tmp_path):
    symbol, _ = gops.export.symbol(build(rng), tmp_path / "net", SHAPE, backend=backend, head="softmax_output")
    assert sequence(symbol)[-len(HEADS[backend]):] == HEADS[backend]


@pytest.mark.parametrize("head", [None, "softmax_output"])
@pytest.mark.parametrize("source, target", [("builtin", "builtin")] + [(source, target) for source in (
    "custom", "native") for target in BACKENDS])   # a builtin file has no operator of gluonops left to find
def test_every_pair_of_backends(source, target, head, rng, tmp_path):
    """The rewritten file is the file that an export with that backend writes, node for node."""
    net = build(rng)
    options = {"head": head, "epoch": 3}
    gops.export.symbol(net, tmp_path / "source", SHAPE, backend=source, **options)
    direct = gops.export.symbol(net, tmp_path / "direct", SHAPE, backend=target, **options)
    again = gops.export.rewrite(tmp_path / "source", tmp_path / "again", backend=target)
    assert [path.rsplit("/")[-1] for path in again] == ["again-symbol.json", "again-0003.params"]
    assert pathlib.Path(direct[0]).read_text() == pathlib.Path(again[0]).read_text()
    for name, value in mx.nd.load(direct[1]).items():
        np.testing.assert_array_equal(mx.nd.load(again[1])[name].asnumpy(), value.asnumpy())


@pytest.mark.parametrize("source", BACKENDS)
def test_it_computes_the_same(source, rng, tmp_path):
    net, data = build(rng), mx.nd.array(rng.randn(*SHAPE))
    gops.export.symbol(net, tmp_path / "source", SHAPE, backend=source)
    symbol, parameters = gops.export.rewrite(tmp_path / "source", tmp_path / "out", fold_batch_norm=True)
    assert not {"Custom", "BatchNorm", "gluonops_reorg"} & set(sequence(symbol))
    block = gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data).asnumpy(), rtol=1e-4, atol=1e-5)


def test_a_graph_made_by_hand(rng, tmp_path):
    """The tutorials build it of bare mx.sym.Custom nodes: names, attributes and unknown nodes stay."""
    with mx.AttrScope(__lr_mult__="0.5"):
        data = mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(1, 1), name="first")
        data = mx.sym.Custom(data, op_type="gluonops_reorg", stride=2, mode="CRD", name="mine")
    net = mx.sym.FullyConnected(mx.sym.Custom(data, op_type="gluonops_abs"), num_hidden=3, name="last")
    net.save(str(tmp_path / "in-symbol.json"))
    shapes, _, _ = net.infer_shape(data=SHAPE)
    values = {f"arg:{name}": mx.nd.array(rng.randn(*shape)) for name, shape in zip(net.list_arguments(), shapes)
              if name != "data"}
    mx.nd.save(str(tmp_path / "in-0000.params"), values)
    symbol, parameters = gops.export.rewrite(tmp_path / "in", tmp_path / "out")
    found = {node["name"]: node for node in nodes(symbol)}
    assert found["mine"]["op"] == "_copy" and found["mine"]["attrs"]["__lr_mult__"] == "0.5"
    assert found["first"]["attrs"]["num_filter"] == "4" and "Custom" not in sequence(symbol)
    arguments = {"data": mx.nd.array(rng.randn(*SHAPE)), **{name[4:]: value for name, value in values.items()}}
    outputs = [graph.bind(mx.cpu(), arguments).forward()[0].asnumpy() for graph in (net, mx.sym.load(symbol))]
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)


def test_in_place_and_the_newest_epoch(rng, tmp_path):
    net = build(rng)
    for epoch in (1, 12):
        gops.export.symbol(net, tmp_path / "net", SHAPE, backend="custom", epoch=epoch)
    assert gops.export.rewrite(tmp_path / "net", tmp_path / "net")[1].endswith("net-0012.params")
    assert gops.export.rewrite(tmp_path / "net", tmp_path / "net", epoch=1)[1].endswith("net-0001.params")
    assert len(list(tmp_path.iterdir())) == 3


def test_the_stamp(rng, tmp_path):
    symbol, _ = gops.export.symbol(build(rng), tmp_path / "net", SHAPE, backend="native")
    kind, text = json.loads(pathlib.Path(symbol).read_text())["attrs"]["gluonops"]
    stamp = json.loads(text)
    assert stamp.pop("parameters").keys() == {"epoch", "sha256"}
    assert kind == "str" and stamp == {
        "version": gops.__version__, "needs": ["abs", "reorg"], "inputs": {"data": list(SHAPE)}, "dtype": "float32",
        "task": "classification", "output": "logits"}


def edited(tmp_path, rng, change, backend="custom"):
    """An exported file after ``change(content, stamp)``."""
    symbol, _ = gops.export.symbol(build(rng), tmp_path / "net", SHAPE, backend=backend)
    content = json.loads(pathlib.Path(symbol).read_text())
    stamp = json.loads(content["attrs"]["gluonops"][1])
    change(content, stamp)
    content["attrs"]["gluonops"] = ["str", json.dumps(stamp)]
    pathlib.Path(symbol).write_text(json.dumps(content))


def reorgs(content):
    return [node for node in content["nodes"] if "reorg" in node.get("attrs", {}).get("op_type", node["op"])]


@pytest.mark.parametrize("backend", ["custom", "native"])
def test_a_file_of_another_version(backend, rng, tmp_path):
    def change(content, stamp):
        for node in reorgs(content):
            if backend == "custom":
                node["attrs"]["op_type"] = "gluonops_warp"
            else:
                node["op"] = "gluonops_warp"
        stamp.update(version="7.1.0", needs=["abs", "warp"])

    edited(tmp_path, rng, change, backend)
    with pytest.raises(gops.OpError) as caught:
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    assert ("is the operator gluonops_warp, which this gluonops does not have; the file was written by gluonops 7.1.0 "
            f"and needs abs, warp; this is gluonops {gops.__version__}. Install gluonops 7.1.0"
            ) in str(caught.value)
    assert not list(tmp_path.glob("out*"))


def test_an_attribute_of_another_version(rng, tmp_path):
    def change(content, stamp):
        reorgs(content)[0]["attrs"]["swirl"] = "3"
        stamp["version"] = "7.1.0"

    edited(tmp_path, rng, change)
    with pytest.raises(gops.OpError, match="net-symbol.json: the node .* does not fit this gluonops: 'swirl' is not an "
                                           "attribute.* gluonops 7.1.0"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")


def test_an_attribute_that_does_not_fit_the_shapes(rng, tmp_path):
    def change(content, stamp):
        reorgs(content)[0]["attrs"]["stride"] = "5"

    edited(tmp_path, rng, change)
    with pytest.raises(gops.OpError, match="gluonops.reorg: net-symbol.json: data has shape .* height 8 is not divi"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")


@pytest.mark.parametrize("change, text", [
    ({"op": "Custom", "attrs": {"op_type": "their_reorg"}},
     "the node '.*reorg0.*' is the Custom operator their_reorg, and the class"),
    ({"op": "TheirReorg", "attrs": {}},
     "node .*reorg0.* is the operator TheirReorg, which MXNet 1.9.1 does not have; the file was written by MXNet 1.9"),
    ({"op": "tile", "attrs": {"reps": "many"}}, "MXNet refuses the graph.*reorg0.*in operator tile"),
    ({"op": "tile", "attrs": {}}, "MXNet refuses the graph.*reorg0.*in operator tile"),
], ids=["custom", "operator", "attribute", "no_attribute"])
@pytest.mark.parametrize("run", [lambda folder: gops.export.rewrite(folder / "net", folder / "out"),
                                 lambda folder: gops.export.onnx(folder / "net", folder / "out.onnx"),
                                 lambda folder: gops.export.picture(folder / "net", folder / "out.svg")],
                         ids=["rewrite", "onnx", "picture"])
def test_what_mxnet_does_not_know_is_named(run, change, text, rng, tmp_path):
    edited(tmp_path, rng, lambda content, stamp: reorgs(content)[0].update(change))
    with pytest.raises(gops.OpError, match=text):
        run(tmp_path)
    assert not list(tmp_path.glob("out*"))


class TheirAbs(mx.operator.CustomOp):
    """Known to this process, and not ours."""


@mx.operator.register("their_abs")
class TheirProperties(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return TheirAbs()


def test_somebody_elses_custom_operator_is_noted(rng, tmp_path):
    edited(tmp_path, rng, lambda content, stamp: reorgs(content)[0].update(attrs={"op_type": "their_abs"}))
    with pytest.warns(gops.export.ExportWarning, match="is the operator 'their_abs', which is not from gluonops"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")


@pytest.mark.parametrize("damage, text", [
    (lambda folder: (folder / "net-symbol.json").unlink(), "there is no file .*net-symbol.json"),
    (lambda folder: (folder / "net-0000.params").unlink(), "there is no file .*net-NNNN.params"),
    (lambda folder: (folder / "net-symbol.json").write_text("{"), "net-symbol.json is not a symbol in JSON"),
    (lambda folder: (folder / "net-symbol.json").write_text("[1, 2]"), "net-symbol.json is not a symbol in JSON"),
    (lambda folder: (folder / "net-symbol.json").write_bytes(b"\xff\xfe\x00"), "is not a symbol in JSON"),
    (lambda folder: (folder / "net-0000.params").write_bytes((folder / "net-0000.params").read_bytes()[:99]),
     "net-0000.params is not a file of arrays, or it is damaged: byte"),
], ids=["no_symbol", "no_parameters", "half", "list", "binary", "cut_off"])
def test_damaged_files(damage, text, rng, tmp_path):
    gops.export.symbol(build(rng), tmp_path / "net", SHAPE)
    damage(tmp_path)
    with pytest.raises(gops.OpError, match=text):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


class Distance(gluon.HybridBlock):
    """A net whose label has a name of its own."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.dense, self.norm, self.loss = nn.Dense(3, in_units=4), nn.BatchNorm(in_channels=3), gluon.loss.L2Loss()

    def hybrid_forward(self, F, data, target):
        predicted = self.norm(self.dense(data))
        return predicted, self.loss(predicted, target)


def test_a_training_file_whose_label_has_another_name_does_not_fold(tmp_path):
    """What it is for is seen from the loss, until it is rewritten for inference."""
    net = Distance()
    net.initialize()
    gops.export.symbol(net, tmp_path / "net", {"data": (2, 4), "target": (2, 3)}, training=True)
    gops.export.rewrite(tmp_path / "net", tmp_path / "net", backend="native")
    with pytest.raises(gops.OpError, match="has a label, so it is for training, and fold_batch_norm is for"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out", fold_batch_norm=True)
    with pytest.warns(gops.export.ExportWarning, match=r"a loss \(mean\), the input 'target'"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out", inference=True)
    folded, _ = gops.export.rewrite(tmp_path / "out", tmp_path / "out", fold_batch_norm=True)
    assert "BatchNorm" not in sequence(folded)


def test_a_training_file_does_not_fold(rng, tmp_path):
    gops.export.symbol(build(rng), tmp_path / "net", SHAPE, head="softmax_output")
    with pytest.raises(gops.OpError, match="has a label, so it is for training, and fold_batch_norm is for inference"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "out", fold_batch_norm=True)


def test_a_mark_without_text(tmp_path):
    """A file whose mark of our operator is damaged has the operators that it names, and is written again."""
    gops.export.symbol(gops.nn.Abs(), str(tmp_path / "net"), (1, 3), backend="builtin")
    path = tmp_path / "net-symbol.json"
    graph = json.loads(path.read_text())
    marked = [node for node in graph["nodes"] if "__gluonops_operator__" in node.get("attrs", {})]
    assert marked
    for node in marked:
        node["attrs"]["__gluonops_operator__"] = ""
    path.write_text(json.dumps(graph))
    gops.export.rewrite(str(tmp_path / "net"), str(tmp_path / "again"))
    module = mx.mod.Module.load(str(tmp_path / "again"), 0, label_names=None)
    assert module.data_names == ["data"]
