"""What the nodes of a file may be: MXNet would call the address, read the path or write beyond the inputs."""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from gluonops.contract.errors import plural
from gluonops.export.symbol_files import read_graph


def content_of(op, attrs, inputs, **fields):
    """The JSON of one node behind variables."""
    nodes = [{"op": "null", "name": f"input{place}", "inputs": []} for place in range(inputs)]
    nodes.append({"op": op, "name": "node", "attrs": attrs, "inputs": [[place, 0, 0] for place in range(inputs)],
                  **fields})
    return {"nodes": nodes, "arg_nodes": list(range(inputs)), "heads": [[inputs, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901]}}


def read(content, folder):
    path = folder / "net-symbol.json"
    path.write_text(json.dumps(content))
    graph, _ = read_graph("test", str(path))
    return graph


READERS = {
    "rewrite": lambda prefix: gops.export.rewrite(prefix, prefix.parent / "out"),
    "onnx": lambda prefix: gops.export.onnx(prefix, prefix.parent / "out.onnx", (1, 3)),
    "picture": lambda prefix: gops.export.picture(prefix, prefix.parent / "out.svg", (1, 3)),
    "load": gops.export.load,
    "load_module": gops.train.load_module,
}


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_calls_an_address(reader, tmp_path):
    (tmp_path / "net-symbol.json").write_text(json.dumps(content_of("_Native", {"info": "0x1"}, 1)))
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    with pytest.raises(gops.OpError, match=r"net-symbol.json: the node 'node' is the operator _Native, which may not"):
        READERS[reader](tmp_path / "net")


@pytest.mark.parametrize("op, attrs, named", [
    ("_NDArray", {"info": "0x1"}, "_NDArray"),
    ("_cvimread", {"filename": "/etc/passwd"}, "_cvimread"),
    ("_npi_cvimread", {"filename": "/etc/passwd"}, "_cvimread"),   # an alias
    ("_cvimdecode", {}, "_cvimdecode"), ("_imdecode", {}, "_imdecode"),
    ("_CachedOp", {}, "_CachedOp"), ("_CustomFunction", {}, "_CustomFunction"),
    ("_sg_mkldnn_fully_connected", {}, "_sg_mkldnn_fully_connected"),
    ("_backward_broadcast_exponential", {}, "_backward_broadcast_exponential"),
    ("_backward_broadcast_rayleigh", {}, "_backward_broadcast_rayleigh"),
    ("_backward_gluonops_softmax", {}, "_backward_gluonops_softmax"),
    ("_contrib_backward_quadratic", {}, "_contrib_backward_quadratic"), ("reset_arrays", {}, "reset_arrays")])
def test_operators_that_a_file_may_not_have(op, attrs, named, tmp_path):
    with pytest.raises(gops.OpError, match=f"'node' is the operator {named}, which (may not be|computes with)"):
        read(content_of(op, attrs, 1), tmp_path)


def loop(op):
    """A node of MXNet's control flow, as a user exports it."""
    data, contrib = mx.sym.var("data"), mx.sym.contrib
    if op == "_foreach":
        found = contrib.foreach(lambda row, state: (row + state, row * 2 + state), data, mx.sym.zeros((3,)))[0]
    elif op == "_cond":
        found = contrib.cond(data.sum() > 1, lambda: data * 2, lambda: data + 1)
    else:
        found = contrib.while_loop(lambda i, row: i < 3, lambda i, row: (i + row.sum(), (i + 1, row * 2)),
                                   (mx.sym.zeros((1,)), data), max_iterations=5)[0]
    content = json.loads(found.tojson())
    node, = [node for node in content["nodes"] if node["op"] == op]
    return content, node


@pytest.mark.parametrize("op", ["_foreach", "_cond", "_while_loop"])
def test_loops_and_branches(op, tmp_path):
    """What is inside is checked, too, and the places that the attributes name exist."""
    content, node = loop(op)
    graph = read(content, tmp_path)
    found, expected = (symbol.eval(data=mx.nd.ones((2, 3)))[0].asnumpy()
                       for symbol in (graph.symbol(), mx.sym.load_json(json.dumps(content))))
    np.testing.assert_array_equal(found[:2], expected[:2])   # more rows of a while loop are not written

    for name in [name for name in node["attrs"] if name.endswith("_locs")]:
        for text, reason in (("[9]", "do not fit the graphs inside of it"), ("x", f"{name} is 'x'; expected")):
            content, node = loop(op)
            node["attrs"][name] = text
            with pytest.raises(gops.OpError, match=reason):
                read(content, tmp_path)
    for change in (lambda node: node["inputs"].append(node["inputs"][0]),
                   lambda node: node["subgraphs"].pop(), lambda node: node["attrs"].update(num_outputs="7")):
        content, node = loop(op)
        change(node)
        with pytest.raises(gops.OpError, match="do not fit the graphs inside of it"):
            read(content, tmp_path)

    content, node = loop(op)
    inner = next(item for item in node["subgraphs"][-1]["nodes"] if item["op"] != "null")
    inner.update(op="_Native", attrs={"info": "0x1"})
    with pytest.raises(gops.OpError, match="is the operator _Native, which may not be in a file"):
        read(content, tmp_path)
    inner.update(op="gluonops_softmax", attrs={}, inputs=[[0, 0, 0]] * 8)
    with pytest.raises(gops.OpError, match=r"\(gluonops_softmax\) has 8 inputs; expected 1"):
        read(content, tmp_path)


def test_a_graph_inside_of_another_operator(tmp_path):
    inner = content_of("relu", {}, 1)
    with pytest.raises(gops.OpError, match="is the operator relu, which may not be in a file"):
        read(content_of("relu", {}, 1, subgraphs=[inner]), tmp_path)


def test_layers_of_8_bits(tmp_path):
    """What export.quantize writes is read; the flags say which layers are inside."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Activation("relu"))
    net.initialize()
    gops.export.quantize(net, tmp_path / "net", mx.nd.random.normal(shape=(8, 3, 8, 8)), limit=2)
    text = (tmp_path / "net-symbol.json").read_text()
    gops.export.rewrite(tmp_path / "net", tmp_path / "again")

    def damaged(**attrs):
        content = json.loads(text)
        node, = [node for node in content["nodes"] if node["op"] == "_sg_mkldnn_conv"]
        node["attrs"].update(attrs)
        return content, node

    for attrs in ({"with_sum": "true"}, {"with_bn": "false"}, {"with_postsum_act": "true"}):
        with pytest.raises(gops.OpError, match="do not fit the graphs inside of it"):
            read(damaged(**attrs)[0], tmp_path)
    with pytest.raises(gops.OpError, match=r"_sg_mkldnn_conv\) has 8 inputs; expected 6"):
        read(damaged(quantized="false")[0], tmp_path)
    content, node = damaged()
    node["subgraphs"] = []
    with pytest.raises(gops.OpError, match="do not fit the graphs inside of it"):
        read(content, tmp_path)


@pytest.mark.parametrize("backend", ["custom", "native"])
@pytest.mark.parametrize("name", registry.entries())
def test_the_number_of_inputs_of_our_operators(name, backend, tmp_path):
    op = registry.get(name).op
    node = ("Custom", {"op_type": op.graph_name}) if backend == "custom" else (op.graph_name, {})
    needed = len(op.inputs)
    read(content_of(*node, needed), tmp_path)
    for inputs in (needed - 1, needed + 1, 8):
        with pytest.raises(gops.OpError, match=rf"'node' \({op.graph_name}\) has {plural(inputs, 'input')}; expected "
                           f"{needed}"):
            read(content_of(*node, inputs), tmp_path)
    content = content_of(*node, needed)
    content["heads"][0][1] = len(op.outputs)
    with pytest.raises(gops.OpError, match=f"reads output {len(op.outputs)} of the node 'node'"):
        read(content, tmp_path)


@pytest.mark.parametrize("op, attrs, needed", [
    ("BatchNorm", {}, 5), ("Embedding", {"input_dim": "3", "output_dim": "2"}, 2), ("take", {}, 2),
    ("elemwise_add", {}, 2), ("_zeros", {"shape": "(2,)"}, 0), ("relu", {}, 1)])
def test_the_number_of_inputs_of_mxnets_operators(op, attrs, needed, tmp_path):
    """MXNet crashes where it expects more, and ignores or overruns what it does not expect."""
    read(content_of(op, attrs, needed), tmp_path)
    for inputs in {0, needed + 1, 9} - {needed}:
        with pytest.raises(gops.OpError, match=rf"'node' \({op}\) has {plural(inputs, 'input')}; expected {needed}"):
            read(content_of(op, attrs, inputs), tmp_path)


@pytest.mark.parametrize("op, attrs", [
    ("Concat", {"num_args": "1000000000"}), ("multi_all_finite", {"num_arrays": "1000000000"}),
    ("SliceChannel", {"num_outputs": "1000000000"}), ("_split_v2", {"indices": "()", "sections": "1000000000"})])
def test_counts_that_would_take_all_memory(op, attrs, tmp_path):
    with pytest.raises(gops.OpError, match=rf"'node' \({op}\) has (num_\w+|sections) '1000000000'; expected at most"):
        read(content_of(op, attrs, 2), tmp_path)


def test_a_variable_that_mxnet_has_given_the_attributes_of_its_layer(tmp_path):
    symbol = mx.sym.UpSampling(mx.sym.var("data"), scale=2, sample_type="bilinear", num_filter=4, num_args=2)
    assert len(read(json.loads(symbol.tojson()), tmp_path).variables()) == 2


@pytest.mark.parametrize("version", [None, ["int"], ["str", "10901"], ["int", "x"], ["int", True], {}, 10901])
def test_no_version(version, tmp_path):
    content = content_of("relu", {}, 1)
    content["attrs"]["mxnet_version"] = version
    with pytest.raises(gops.OpError, match="net-symbol.json: mxnet_version is "):
        read(content, tmp_path)


@pytest.mark.parametrize("op, attrs", [("Convolution", {"kernel": "1" * 5000}), ("x" * 5000, {}),
                                       ("Custom", {"op_type": "x" * 5000})])
def test_long_texts_are_cut(op, attrs, tmp_path):
    with pytest.raises(gops.OpError) as caught:
        read(content_of(op, attrs, 1), tmp_path).symbol()
    assert len(str(caught.value)) < 1000


def test_a_name_with_half_a_character(tmp_path):
    """JSON can escape what UTF-8 cannot hold."""
    text = mx.sym.abs(mx.sym.var("data"), name="here").tojson().replace('"here"', r'"\ud800"')
    (tmp_path / "net-symbol.json").write_text(text)
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    with pytest.raises(gops.OpError, match="net-symbol.json is not a symbol in JSON .UnicodeEncodeError"):
        gops.export.rewrite(tmp_path / "net", tmp_path / "again")
