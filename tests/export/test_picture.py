"""gops.export.picture: what it draws, where, and what it refuses."""
import re
import sys

import gluonops as gops
import mxnet as mx
import pytest
from gluonops.export.canonical import canonicalize_graph
from gluonops.export.drawing import arrange
from gluonops.export.graph import Graph
from gluonops.export.picture import layers
from grandalf.layouts import VertexViewer
from mxnet.gluon import nn

SHAPE = (1, 3, 34, 34)


def net():
    made = nn.HybridSequential(prefix="net_")
    with made.name_scope():
        made.add(nn.Conv2D(8, 3, 2), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Conv2D(4, 1, padding=1),
                 gops.nn.Reorg(2), nn.Dense(5))
    made.initialize()
    return made


def texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_what_it_says(backend, tmp_path):
    """Layers with their parameters and names, shapes between them, operators of gluonops by name."""
    gops.export.symbol(net(), tmp_path / "net", SHAPE, backend=backend)
    path = tmp_path / "net.svg"
    assert gops.export.picture(tmp_path / "net", path) == str(path)
    found = texts(path)
    for text in ("Convolution  3\u00d73 /2 \u2192 8", "BatchNorm", "Activation  relu", "Pooling  max 2\u00d72 /2",
                 "gluonops reorg  stride=2, mode=darknet, reverse=False", "FullyConnected  5", "net_conv0_fwd", "data",
                 "1\u00d73\u00d734\u00d734", "1\u00d78\u00d716\u00d716", "1\u00d716\u00d75\u00d75", "output"):
        assert text in found, text
    assert not any("gamma" in text or "weight" in text for text in found), "parameters are not drawn"
    assert "#ffe3c2" in path.read_text(), "the mark of gluonops"


def every_operator(data, label):
    """Operators side by side and in a row: with several outputs, with two inputs, as a loss head, of the same kind."""
    boxes = gops.ops.region_decode(data, (1, 2), 3, name="boxes")
    losses = gops.ops.region_loss(data, mx.sym.var("truth"), mx.sym.var("seen"), anchors=(1, 2), classes=3,
                                   parts=True, name="r")
    first = gops.ops.reorg(gops.ops.reorg(data, name="first"), reverse=True, name="first_again")
    logits = mx.sym.flatten(mx.sym.relu(first), name="own_conv0_fwd")
    head = gops.ops.softmax_output(gops.ops.softmax(logits, name="own"), label, name="head")
    loss = gops.ops.softmax_cross_entropy(gops.ops.abs(logits, name="a"), label, name="ce")
    center = gops.ops.center_loss(gops.ops.tile(logits, 2, name="t"), label, mx.sym.var("centers"), name="c")
    return mx.sym.Group([boxes, *losses, head, loss, center])


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"])
def test_a_layer_is_one_box(backend):
    """On every backend the boxes are the same, and so is what each has in it."""
    with gops.backend(backend):
        graph = Graph.of(every_operator(mx.sym.var("data"), mx.sym.var("label")))
    canonicalize_graph(graph)
    found = layers(graph)
    assert {(layer.name, layer.operator) for layer in found.values()} == {
        ("boxes", "region_decode"), ("r", "region_loss"), ("first", "reorg"), ("first_again", "reorg"),
        ("head", "softmax_output"), ("own", "softmax"), ("a", "abs"), ("ce", "softmax_cross_entropy"), ("t", "tile"),
        ("c", "center_loss")}
    again = next(layer for layer in found.values() if layer.name == "first_again")
    assert sorted(again.attributes.split(", ")) == ["mode=darknet", "reverse=True", "stride=2"]
    outside = [node.op for node in graph.nodes() if node not in found and not node.is_variable]
    assert outside == ["relu", "Flatten"]
    for node in graph.nodes():
        for source, _ in node.inputs:
            inside = found.get(source)
            assert inside is None or found.get(node) is inside or source.name.startswith(inside.name)


def test_names_that_look_like_formulas(tmp_path):
    path = tmp_path / "net.svg"
    mx.sym.relu(mx.sym.var("a$\\foo$")).save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {})
    gops.export.picture(tmp_path / "net", path, (1, 2))
    assert "a$\\foo$" in texts(path)


@pytest.mark.parametrize("ending, begin", [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_formats(ending, begin, tmp_path):
    path = tmp_path / f"net.{ending}"
    gops.export.picture(net(), path, SHAPE)
    assert path.read_bytes().startswith(begin)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_hundreds_of_nodes(tmp_path):
    big = mx.gluon.model_zoo.vision.get_model("mobilenetv2_0.25")   # 54 convolutions
    big.initialize()
    gops.export.picture(big, tmp_path / "net.svg", (1, 3, 64, 64))
    assert sum(text.startswith("Convolution") for text in texts(tmp_path / "net.svg")) == 54


def boxes(count):
    return [VertexViewer(60.0, 40.0) for _ in range(count)]


def test_layout():
    """Readers are below what they read, boxes of a layer apart, a chain is straight, and a long edge goes around."""
    a, b, c, d, e = items = boxes(5)
    edges = [(a, b), (b, c), (c, d), (a, d), (d, e)]
    routes = arrange(items, edges)
    assert all(reader.xy[1] >= source.xy[1] + source.h for source, reader in edges)
    assert [len(route) for route in routes] == [2, 2, 2, 4, 2]
    assert b.xy[0] == pytest.approx(c.xy[0]) and d.xy[0] == pytest.approx(e.xy[0])
    around = routes[3][1:-1]
    assert all(abs(point.xy[0] - box.xy[0]) > 30 for point, box in zip(around, (b, c)))


def test_layout_keeps_boxes_apart():
    root, *leaves, last = items = boxes(9)
    arrange(items, [(root, leaf) for leaf in leaves] + [(leaf, last) for leaf in leaves])
    places = sorted(leaf.xy[0] for leaf in leaves)
    assert all(right - left >= 60 for left, right in zip(places, places[1:]))
    middle = pytest.approx(sum(places) / len(places), abs=60)
    assert root.xy[0] == middle and last.xy[0] == middle


def test_layout_of_several_parts():
    """What is not connected stands side by side; one box alone is a part."""
    a, b, c, d = boxes(4)
    arrange([a, b, c, d], [(a, b)])
    places = sorted(box.xy[0] for box in (a, c, d))
    assert a.xy[0] == pytest.approx(b.xy[0]) and all(right - left >= 60 for left, right in zip(places, places[1:]))


@pytest.mark.parametrize("package", ["matplotlib", "grandalf"])
def test_without_a_package(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(gops.OpError, match=f"the package {package} is not installed. Run: pip install"):
        gops.export.picture(net(), tmp_path / "net.svg", SHAPE)


@pytest.mark.parametrize("options, text", [
    ({"path": "net.gif"}, "expected a name that ends in .svg, .png or .pdf"),
    ({"path": "missing/net.svg"}, "the folder missing does not exist"),
    ({"net": "nothing"}, "there is no file nothing-symbol.json"),
    ({"net": "bare"}, "the shape of the input data is not known. Pass data_shape, or --data-shape"),
])
def test_refusals(options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mx.sym.relu(mx.sym.var("data")).save("bare-symbol.json")
    mx.nd.save("bare-0000.params", {})
    with pytest.raises(gops.OpError) as caught:
        gops.export.picture(**{"net": "bare", "path": "net.svg", **options})
    assert text in str(caught.value) and not (tmp_path / "net.svg").exists()
