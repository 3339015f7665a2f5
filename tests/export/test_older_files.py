"""Files of older versions of MXNet: they mean what MXNet reads in them, and nothing is lost or reported."""
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.symbol_files import read_graph

sys.path.insert(0, str(pathlib.Path(__file__).parent / "onnx"))
from onnx_oracle import session  # noqa: E402

LEGACY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "legacy"


def node(op, name, *inputs, **attributes):
    """A node as MXNet 0.8 wrote it."""
    return {"op": op, "param": attributes, "name": name, "inputs": [[place, 0] for place in inputs],
            "backward_source_id": -1}


def text_of(nodes, version=None):
    """The JSON of a graph whose last node is the output. MXNet 0.8 wrote no version."""
    content = {"nodes": nodes, "heads": [[len(nodes) - 1, 0]],
               "arg_nodes": [place for place, item in enumerate(nodes) if item["op"] == "null"]}
    if version is not None:
        content["attrs"] = {"mxnet_version": ["int", version]}
    return json.dumps(content)


# Residual networks and face detectors of that time have a batch norm without its states, aliases, and marks.
RESIDUAL = text_of([
    node("null", "data"), node("null", "conv_weight"),
    node("Convolution", "conv", 0, 1, kernel="(3, 3)", pad="(1, 1)", num_filter="4", no_bias="True",
         weight_lr_mult="0.5", ctx_group="stage1"),
    node("null", "bn_gamma"), node("null", "bn_beta"),
    node("BatchNorm", "bn", 2, 3, 4, eps="2e-05", fix_gamma="False", beta_wd_mult="0"),
    node("_MinusScalar", "shifted", 0, scalar="0.5"), node("_mul_scalar", "scaled", 6, scalar="2"),
    node("_Plus", "sum", 5, 7), node("_Minus", "difference", 8, 0), node("_DivScalar", "half", 9, scalar="2"),
    node("_RMinusScalar", "turned", 10, scalar="1"), node("Activation", "relu", 11, act_type="relu"),
    node("Flatten", "flat", 12), node("null", "fc_weight"), node("null", "fc_bias"),
    node("FullyConnected", "fc", 13, 14, 15, num_hidden="3"), node("null", "softmax_label"),
    node("Softmax", "softmax", 16, 17)])
# Name -> JSON, and the shapes of the inputs.
FILES = {name: ((LEGACY / f"{name}-symbol.json").read_text(), shapes) for name, shapes in (
    ("save000800", {"data": (4, 20), "softmax_label": (4,)}), ("gotest", {"data": (1, 10), "softmax_label": (10,)}),
    ("det1", {"data": (1, 3, 24, 24)}))}
FILES["residual"] = RESIDUAL, {"data": (2, 4, 5, 5), "softmax_label": (2,)}


@pytest.fixture(params=FILES)
def older(request, tmp_path, rng):
    """(prefix, the symbol as MXNet reads it, its arrays), of files with random parameters."""
    text, inputs = FILES[request.param]
    (tmp_path / "net-symbol.json").write_text(text)
    symbol = mx.sym.load_json(text)
    states = symbol.list_auxiliary_states()
    arguments, _, sizes = symbol.infer_shape(**inputs)
    arrays = {}
    for name, shape in zip(symbol.list_arguments() + states, arguments + sizes):
        low = 0.5 if name.endswith(("gamma", "var")) else -0.5
        arrays[name] = mx.nd.array(rng.uniform(low, low + 1, shape))
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"{'aux' if name in states else 'arg'}:{name}": value
                                                   for name, value in arrays.items() if name not in inputs})
    return tmp_path / "net", symbol, arrays


def outputs_of(symbol, arrays):
    executor = symbol.bind(mx.cpu(), {name: arrays[name] for name in symbol.list_arguments()},
                           aux_states={name: arrays[name] for name in symbol.list_auxiliary_states()})
    return [output.asnumpy() for output in executor.forward(is_train=False)]


@pytest.mark.filterwarnings("ignore:.*without the loss head")
@pytest.mark.parametrize("options", [{}, {"inference": True, "fold_batch_norm": True}], ids=["rewrite", "fold"])
def test_rewritten(options, older):
    prefix, symbol, arrays = older
    graph, parameters = gops.export.rewrite(prefix, prefix.parent / "out", **options)
    written = {name[4:]: value for name, value in mx.nd.load(parameters).items()}
    rewritten = mx.sym.load(graph)
    if not options:
        assert set(written) == {name for name in symbol.list_inputs() if name != "data" and not name.endswith("label")}
    else:
        assert "BatchNorm" not in rewritten.tojson()
    for found, expected in zip(outputs_of(rewritten, {**arrays, **written}), outputs_of(symbol, arrays)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*without the loss head")
def test_onnx(older):
    """The aliases convert as well, such as _Plus, which have no converters of their own."""
    prefix, symbol, arrays = older
    gops.export.onnx(prefix, f"{prefix}.onnx", arrays["data"].shape)
    found = session(f"{prefix}.onnx").run(None, {"data": arrays["data"].asnumpy()})
    for one, other in zip(found, outputs_of(symbol, arrays)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FILES)
def test_read_as_mxnet_reads_it(name, tmp_path, capfd):
    """All nodes, inputs and attributes agree; MXNet also gives a variable the attributes of the layer behind it."""
    (tmp_path / "net-symbol.json").write_text(FILES[name][0])
    graph, _ = read_graph("test", str(tmp_path / "net-symbol.json"))
    read = graph.symbol()
    assert capfd.readouterr().err == ""   # MXNet reports that it upgrades a file
    expected = mx.sym.load(str(tmp_path / "net-symbol.json"))
    for found, node in zip(json.loads(read.tojson())["nodes"], json.loads(expected.tojson())["nodes"]):
        for item in (found, node):
            kept = {key: value for key, value in item.get("attrs", {}).items() if item["op"] != "null" or key[0] == "_"}
            kept.pop("__init__", None)
            item["attrs"] = kept
        assert found == node
    assert read.list_outputs() == expected.list_outputs()


def test_marks_of_inputs(tmp_path):
    """weight_lr_mult of a layer is __lr_mult__ of its weight; one for an input that is not listed is dropped."""
    (tmp_path / "net-symbol.json").write_text(RESIDUAL.replace('"beta_wd_mult"', '"moving_var_wd_mult"'))
    nodes = {item.name: item for item in read_graph("test", str(tmp_path / "net-symbol.json"))[0].nodes()}
    assert nodes["conv_weight"].attrs == {"__lr_mult__": "0.5"}
    assert nodes["conv"].marks() == {"__ctx_group__": "stage1"}
    assert nodes["bn"].attrs == {"eps": "2e-05", "fix_gamma": "False"}


@pytest.mark.parametrize("version, axis", [(904, None), (905, "-1")])
def test_all_axes(version, axis, tmp_path):
    """-1 was argmax's default, and meant all axes."""
    (tmp_path / "net-symbol.json").write_text(text_of([node("null", "data"), node("argmax", "best", 0, axis="-1")],
                                                      version))
    graph, _ = read_graph("test", str(tmp_path / "net-symbol.json"))
    assert graph.outputs[0][0].attrs.get("axis") == axis


def test_states_that_are_missing(tmp_path):
    """Since 0.9 files list them."""
    variables = [node("null", name) for name in ("data", "gamma", "beta")]
    (tmp_path / "net-symbol.json").write_text(text_of([*variables, node("BatchNorm", "bn", 0, 1, 2)], 900))
    with pytest.raises(gops.OpError, match=r"'bn' \(BatchNorm\) has 3 inputs; expected 5"):
        read_graph("test", str(tmp_path / "net-symbol.json"))
