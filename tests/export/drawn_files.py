"""Small files of kinds that people have: labels under any name, heads that cannot be loaded, generators."""
import json
import pathlib

import mxnet as mx
import numpy as np

v = mx.sym.var
DATA = v("data")   # One variable: MXNet refuses two of a name.


def dense(name="f", size=3, data=None):
    return mx.sym.FullyConnected(DATA if data is None else data, num_hidden=size, name=name)


def regression(name):
    return mx.sym.LinearRegressionOutput(dense(size=1), v(name), name="out"), {"data": (4, 5), name: (4, 1)}


def two_tasks():
    return mx.sym.Group([mx.sym.SoftmaxOutput(dense("g", 2), v("gender")),
                         mx.sym.MAERegressionOutput(dense("a", 1), v("age"))]), {
        "data": (4, 5), "gender": (4,), "age": (4, 1)}


def margin(returns_label=False):
    """Face recognition: the label moves its own class's logit, so that the softmax needs it."""
    logits, person = dense("c", 6), v("person")
    outputs = [mx.sym.BlockGrad(logits, name="embedding"),
               mx.sym.SoftmaxOutput(logits - 0.3 * mx.sym.one_hot(person, depth=6), person, name="softmax")]
    if returns_label:
        outputs.append(mx.sym.BlockGrad(mx.sym.reshape(person, shape=(-1,)), name="same"))
    return mx.sym.Group(outputs), {"data": (4, 5), "person": (4,)}


def ctc():
    steps = mx.sym.transpose(mx.sym.FullyConnected(DATA, num_hidden=7, flatten=False, name="f"), axes=(1, 0, 2),
                             name="steps")
    return mx.sym.MakeLoss(mx.sym.CTCLoss(steps, v("words"))), {"data": (2, 8, 5), "words": (2, 3)}


def center():
    """A loss that looks the label up in a layer of its own."""
    features, person = dense("features", 4), v("who")
    centers = mx.sym.Embedding(person, input_dim=6, output_dim=4, name="centers")
    return mx.sym.Group([mx.sym.SoftmaxOutput(dense("fc", 6, features), person, name="softmax"),
                         mx.sym.MakeLoss(mx.sym.square(features - centers), name="near")]), {
        "data": (4, 5), "who": (4,)}


def weighted():
    """A loss of arithmetic, with a weight for each sample."""
    predicted = dense("f", 1)
    return mx.sym.Group([mx.sym.BlockGrad(predicted, name="predicted"), mx.sym.MakeLoss(
        mx.sym.broadcast_mul(mx.sym.square(predicted - v("wanted")), v("weight")), name="loss")]), {
        "data": (4, 5), "wanted": (4, 1), "weight": (4, 1)}


def ssd():
    body = mx.sym.Convolution(DATA, kernel=(3, 3), pad=(1, 1), num_filter=4, name="body")
    anchors = mx.sym.contrib.MultiBoxPrior(body, sizes=(0.3,), ratios=(1,), name="anchors")
    maps = mx.sym.transpose(mx.sym.Convolution(body, kernel=(1, 1), num_filter=2, name="scores"), axes=(0, 2, 3, 1))
    scores = mx.sym.transpose(mx.sym.reshape(maps, shape=(0, -1, 2)), axes=(0, 2, 1))
    moves = mx.sym.flatten(mx.sym.Convolution(body, kernel=(1, 1), num_filter=4, name="moves"))
    goal = mx.sym.contrib.MultiBoxTarget(anchors, v("boxes"), scores, name="goal")
    found = mx.sym.SoftmaxOutput(scores, goal[2], ignore_label=-1, use_ignore=True, multi_output=True, name="cls_prob")
    loss = mx.sym.MakeLoss(mx.sym.smooth_l1(goal[1] * (moves - goal[0]), scalar=1.0), name="loc_loss")
    rows = mx.sym.MakeLoss(mx.sym.contrib.MultiBoxDetection(found, moves, anchors), grad_scale=0, name="detections")
    goals = mx.sym.MakeLoss(goal[2], grad_scale=0, name="cls_goal")
    return mx.sym.Group([found, loss, rows, goals]), {"data": (1, 3, 8, 8), "boxes": (1, 3, 6)}


def generator():
    """A generator under a condition, whose input is called label."""
    return dense("f", 12, mx.sym.concat(v("noise"), v("label"), dim=1)), {"noise": (1, 5), "label": (1, 10)}


def autoencoder():
    return mx.sym.LinearRegressionOutput(dense("back", 5, dense("code", 2)), DATA, name="same"), {"data": (4, 5)}


KINDS = {**{name: lambda name=name: regression(name) for name in ("target", "y", "output", "input_", "x_label")},
         "two_tasks": two_tasks, "margin": margin, "margin_with_label": lambda: margin(True), "ctc": ctc,
         "center": center, "weighted": weighted, "ssd": ssd, "generator": generator, "autoencoder": autoencoder}
LABELS = {**{name: [name] for name in ("target", "y", "output", "input_", "x_label")}, "two_tasks": ["age", "gender"],
          "margin": ["person"], "margin_with_label": ["person"], "ctc": ["words"], "center": ["who"],
          "weighted": ["wanted", "weight"], "ssd": ["boxes"], "generator": [], "autoencoder": []}
# What cannot be loaded, at the end of a net whose last layer is ``top``.
HEADS = {"class": {"op": "Custom", "name": "q", "attrs": {"op_type": "ValueHead"}},
         "numpyop": {"op": "_Native", "name": "q", "attrs": {"info": "0x7f0000000000", "need_top_grad": "false"}},
         "ndarrayop": {"op": "_NDArray", "name": "q", "attrs": {"info": "0x7f0000000000"}},
         "plugin": {"op": "WarpCTC", "name": "q", "attrs": {"input_length": "4", "label_length": "2"}}}


def save(prefix, symbol, shapes):
    """Write PREFIX-symbol.json and PREFIX-0000.params. ``shapes``: of the data and the labels, which get no array."""
    arguments, _, states = symbol.infer_shape(**shapes)
    draw = np.random.RandomState(0)
    arrays = {f"arg:{name}": mx.nd.array(draw.normal(0, 0.3, shape))
              for name, shape in zip(symbol.list_arguments(), arguments) if name not in shapes}
    arrays.update({f"aux:{name}": mx.nd.ones(shape) for name, shape in zip(symbol.list_auxiliary_states(), states)})
    symbol.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", arrays)


def drawn(folder, kind):
    """Write files of a kind. Returns the shapes of what is no label, by name."""
    symbol, shapes = KINDS[kind]()
    save(folder / kind, symbol, shapes)
    return {name: shape for name, shape in shapes.items() if name not in LABELS[kind]}


def with_head(folder, kind, first=None):
    """Write files that end in a node that cannot be loaded: HEAD reads ``top``. ``first``: another output, in front."""
    top = mx.sym.relu(dense("f", 4), name="top")
    save(folder / kind, top if first is None else mx.sym.Group([mx.sym.exp(top, name=first), top]), {"data": (2, 5)})
    path = pathlib.Path(folder / f"{kind}-symbol.json")
    graph = json.loads(path.read_text())
    place = next(i for i, node in enumerate(graph["nodes"]) if node["name"] == "top")
    graph["nodes"].append({**HEADS[kind], "inputs": [[place, 0, 0]]})
    graph["heads"][-1] = [len(graph["nodes"]) - 1, 0, 0]
    path.write_text(json.dumps(graph))
