"""Files read before they are rewritten, drawn or turned into ONNX: every parameter is there, and fits."""
import json
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

SHAPE = (2, 3, 6, 6)


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """A net whose files are net-symbol.json and net-0000.params in the working directory."""
    monkeypatch.chdir(tmp_path)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(3))
    net.initialize()
    gops.export.symbol(net, "net", SHAPE)
    return net


@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (2, 4, 6, 6), (2, 3, 2, 2), (2, 3)], ids=str)
@pytest.mark.parametrize("run", [
    lambda shape: gops.export.onnx("net", "net.onnx", shape),
    lambda shape: gops.export.quantize("net", "net", np.zeros((12, *shape[1:]), "float32")),
    lambda shape: gops.export.rewrite("net", "new", data_shape=shape),
    lambda shape: gops.export.picture("net", "net.svg", shape)], ids=["onnx", "quantize", "rewrite", "picture"])
def test_a_shape_that_the_net_refuses(run, shape, exported):
    with pytest.raises(gops.OpError, match=rf"the net refuses the shape of data \(\d, {str(shape[1:])[1:-1].strip(',')}"
                       r".*net_(conv|dense).*Pass a shape that it takes, the batch size first, in data_shape"):
        run(shape)


@pytest.mark.parametrize("run", [
    lambda shapes, net: gops.export.onnx("net", "net.onnx", shapes),
    lambda shapes, net: gops.export.onnx(net, "net.onnx", shapes),
    lambda shapes, net: gops.export.symbol(net, "out", shapes)], ids=["files", "net", "symbol"])
def test_a_list_of_shapes(run, exported):
    with pytest.raises(gops.OpError, match=r"data is \[\(2, 3, 6, 6\), \(2, 9\)\]; .*for several inputs a dict such"):
        run([SHAPE, (2, 9)], exported)


def change_parameters(change, path="net-0000.params"):
    values = mx.nd.load(path)
    change(values)
    mx.nd.save(path, values)


def without_stamp():
    edit(lambda content: content["attrs"].pop("gluonops"))


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("run", [
    lambda: gops.export.rewrite("net", "net"), lambda: gops.export.rewrite("net", "net", fold_batch_norm=True),
    lambda: gops.export.onnx("net", "net.onnx", SHAPE), lambda: gops.export.picture("net", "net.svg", SHAPE),
], ids=["rewrite", "fold", "onnx", "picture"])
def test_parameters_under_other_names(run, stamped, exported):
    """save_parameters writes such: they are refused, and neither file is touched."""
    exported.save_parameters("net-0000.params")
    if not stamped:
        without_stamp()
    before = {path.name: path.read_bytes() for path in pathlib.Path().iterdir()}
    with pytest.raises(gops.OpError, match=r"net-0000.params has no value for net_conv0_weight, net_conv0_bias, "
                       r"net_batchnorm0_gamma, .*net_dense0_bias; it has 0\.bias, 0\.weight"):
        run()
    assert {path.name: path.read_bytes() for path in pathlib.Path().iterdir()} == before


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("name", ["arg:net_conv0_weight", "arg:net_batchnorm0_gamma", "aux:net_batchnorm0_running_var",
                                  "arg:net_dense0_bias"])
def test_one_is_missing(name, stamped, exported):
    change_parameters(lambda values: values.pop(name))
    if not stamped:
        without_stamp()
    with pytest.raises(gops.OpError, match=f"net-0000.params has no value for {name[4:]}; it has "):
        gops.export.rewrite("net", "out", fold_batch_norm=True)
    assert not list(pathlib.Path().glob("out*"))


@pytest.mark.parametrize("name, text", [
    ("arg:net_conv0_weight", "Shape inconsistent"),
    ("arg:net_batchnorm0_gamma", r"net_batchnorm0_gamma has the shape \(5, 2\); expected \(4,\)")])
def test_one_has_another_shape(name, text, exported):
    change_parameters(lambda values: values.update({name: mx.nd.ones((5, 2))}))
    with pytest.raises(gops.OpError, match=f"net-0000.params does not fit net-symbol.json: .*{text}"):
        gops.export.rewrite("net", "out", fold_batch_norm=True)
    assert not list(pathlib.Path().glob("out*"))


def test_a_second_input_without_a_stamp_is_no_parameter(exported):
    """Someone else's file: what stands where no layer has a parameter may be an input."""
    dense = mx.sym.FullyConnected(mx.sym.var("left"), num_hidden=2, name="fc")
    mx.sym.broadcast_add(dense, mx.sym.var("right")).save("two-symbol.json")
    mx.nd.save("two-0000.params", {"arg:fc_weight": mx.nd.ones((2, 3)), "arg:fc_bias": mx.nd.ones(2)})
    gops.export.rewrite("two", "out")
    assert mx.sym.load("out-symbol.json").list_arguments() == ["left", "fc_weight", "fc_bias", "right"]


@pytest.mark.parametrize("layer", [gops.nn.Softmax(), gops.nn.Reorg(2), nn.Flatten()], ids=repr)
def test_a_net_without_parameters(layer, tmp_path):
    """MXNet reads back an empty file of parameters as a list."""
    gops.export.symbol(layer, tmp_path / "net", (1, 4, 2, 2), backend="custom")
    symbol, parameters = gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx")
    gops.export.picture(tmp_path / "net", tmp_path / "net.svg")
    data = mx.nd.random.normal(shape=(3, 4, 2, 2))
    block = mx.gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), layer(data).asnumpy(), rtol=1e-6)


def edit(change):
    path = pathlib.Path("net-symbol.json")
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def note(**facts):
    """A note that says something else."""
    def change(content):
        stamp = json.loads(content["attrs"]["gluonops"][1])
        content["attrs"]["gluonops"] = ["str", json.dumps({**stamp, **facts})]
    return change


DAMAGED = {
    "attrs_of_a_node_a_list": (lambda content: content["nodes"][2].update(attrs=["kernel"]), "is not a symbol in JSON"),
    "name_a_number": (lambda content: content["nodes"][2].update(name=5), "is not a symbol in JSON .*5 is not text"),
    "op_a_list": (lambda content: content["nodes"][2].update(op=["x"]), "is not a symbol in JSON .*is not text"),
    "head_true": (lambda content: content.update(heads=[[True, 0, 0]]), "JSON .*is not an output of a"),
    "attrs_a_list": (lambda content: content.update(attrs=["x"]), "is not a symbol in JSON"),
    "note_a_string": (lambda content: content["attrs"].update(gluonops="x"),
                      "what gluonops has noted .* is damaged: 'x'"),
    "note_a_number": (lambda content: content["attrs"].update(gluonops=["str", "5"]),
                      "what gluonops has noted .* is damaged"),
    "inputs_a_number": (note(inputs=5), "what gluonops has noted in the file is damaged"),
    "sizes_a_number": (note(inputs={"data": 5}), "what gluonops has noted in the file is damaged"),
    "sizes_below_zero": (note(inputs={"data": [-1, 3, 6, 6]}), "what gluonops has noted in the file is damaged"),
    "sizes_beyond_64_bits": (note(inputs={"data": [2 ** 63, 3, 6, 6]}),
                             "what gluonops has noted in the file is damaged"),
    "sizes_true": (note(inputs={"data": [True, 3, 6, 6]}), "what gluonops has noted in the file is damaged"),
    "type_a_dict": (note(dtype={}), "what gluonops has noted in the file is damaged"),
    "type_of_bytes": (note(dtype="V0"), "what gluonops has noted in the file is damaged"),
    "no_such_type": (note(dtype="float33"), "what gluonops has noted in the file is damaged"),
    "node_below_zero": (lambda content: content.update(heads=[[-1, 0, 0]]), "is not a symbol .*output 0 of node -1"),
    "output_below_zero": (lambda content: content["heads"][0].__setitem__(1, -1), "is not a .*output -1 of node"),
    "no_such_output": (lambda content: content["heads"][0].__setitem__(1, 5), "reads output 5 of .*'net_dense0_fwd'"),
    "output_of_a_variable": (lambda content: content["nodes"][3]["inputs"][0].__setitem__(1, 1), "output 1 of .*data"),
    "no_output": (lambda content: content.update(heads=[]), "is not a symbol in JSON .*it has no output"),
    "a_lost_input": (lambda content: content["nodes"][8]["inputs"].pop(), "net_batchnorm0_fwd"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_graphs(damage, exported):
    change, text = DAMAGED[damage]
    edit(change)
    with pytest.raises(gops.OpError, match=text):
        gops.export.rewrite("net", "out", fold_batch_norm=True)
    assert not list(pathlib.Path().glob("out*"))


def test_no_attributes_is_null(exported):
    """Some writers of JSON leave it so."""
    edit(lambda content: (content["nodes"][0].update(attrs=None), content.update(attrs=None)))
    gops.export.rewrite("net", "out")
    edit(lambda content: content["nodes"][0].pop("attrs"))
    gops.export.onnx("net", "out.onnx", SHAPE)


def test_names_beyond_ascii(tmp_path):
    """MXNet's reader of JSON does not know escapes such as \\u00e9."""
    net = nn.HybridSequential(prefix="caf\u00e9_")
    with net.name_scope():
        net.add(nn.Dense(3, in_units=4), gops.nn.Softmax())
    net.initialize()
    net.classes = ["\u732b", "\u72ac", "\u725b"]
    gops.export.symbol(net, tmp_path / "net", (2, 4), backend="custom")
    symbol, parameters = gops.export.rewrite(tmp_path / "net", tmp_path / "out")
    assert "caf\u00e9_dense0_weight" in mx.sym.load(symbol).list_arguments()
    gops.export.onnx(tmp_path / "net", tmp_path / "net.onnx")
    gops.export.picture(tmp_path / "net", tmp_path / "net.svg")
    data = mx.nd.random.normal(shape=(2, 4))
    block = mx.gluon.SymbolBlock.imports(symbol, ["data"], parameters)
    np.testing.assert_allclose(block(data).asnumpy(), net(data).asnumpy(), rtol=1e-6)


def test_parameters_of_another_export(exported):
    """A process that is killed between the two renames leaves them. Another epoch's are not compared."""
    change_parameters(lambda values: values.update({"arg:net_dense0_bias": mx.nd.ones(3)}))
    with pytest.raises(gops.OpError, match="net-0000.params is not the file that was written with its symbol JSON"):
        gops.export.rewrite("net", "net")
    with pytest.raises(gops.OpError, match="net-0000.params is not the file that was written with its symbol JSON"):
        gops.train.load_module("net")
    pathlib.Path("net-0000.params").rename("net-0001.params")
    gops.export.rewrite("net", "again")
    assert len(gops.train.load_module("net", 1)) == 3


def test_an_argument_that_mxnet_does_not_know(exported):
    path = pathlib.Path("net-symbol.json")
    path.write_text(path.read_text().replace('"kernel"', '"colonel"'))
    with pytest.raises(gops.OpError, match=r"net-symbol\.json: MXNet refuses the graph at the node 'net_conv0_fwd': "
                       r".*Cannot find argument 'colonel'.*, in operator Convolution"):
        gops.export.rewrite("net", "again")


def test_damaged_metadata_names_the_file(exported):
    edit(lambda content: content["attrs"].update(gluonops=["str", "{nan"]))
    with pytest.raises(gops.OpError, match=r"net-symbol\.json: what gluonops has noted in the file is damaged"):
        gops.export.rewrite("net", "again")


def test_an_input_of_2_to_the_31_elements(exported):
    def enlarge(content):
        kind, text = content["attrs"]["gluonops"]
        content["attrs"]["gluonops"] = [kind, json.dumps({**json.loads(text), "inputs": {"data": [2 ** 31, 3, 6, 6]}})]

    edit(enlarge)
    with pytest.raises(gops.OpError, match="net-0000.params does not fit net-symbol.json: .*larger than 2.31 elements"):
        gops.export.rewrite("net", "again")
