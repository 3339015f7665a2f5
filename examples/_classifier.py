"""A net for classification out of any model with ``features``, and how to start it from existing weights."""
import pathlib

import _checkpoint
import gluonops as gops
import mxnet as mx
from gluonops.core.optional import require
from gluonops.data.base import class_names
from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

OURS = ("mlp", "lenet_reorg", "darknet19")


class Classifier(gluon.HybridBlock):
    """``output(embed(x))``; ``embed`` is the model's features, flat, and perhaps a layer of a few units.

    Parameters
    ----------
    features : HybridBlock
        Images to maps or vectors.
    pool : bool
        Whether they are maps, to be averaged.
    embedding : int
        Units of a layer between features and output; 0 for none.
    classes : list of str
        Names of the classes.
    """

    def __init__(self, features, pool, embedding, classes, **kwargs):
        super().__init__(**kwargs)
        self.classes = list(classes)
        with self.name_scope():
            self.embed = nn.HybridSequential()
            self.embed.add(features)
            if pool:
                self.embed.add(nn.GlobalAvgPool2D())
            self.embed.add(nn.Flatten())
            if embedding:
                self.embed.add(nn.Dense(embedding))
            self.output = nn.Dense(len(self.classes))

    @property
    def features(self):
        """The model's own layers: the backbone."""
        return self.embed[0]

    def hybrid_forward(self, F, data):
        return self.output(self.embed(data))


def make(args, classes, shape):
    """The net of --model for images of ``shape``, (C, H, W); initialized."""
    features = _features(args.model, len(classes), shape)
    try:
        out = features(mx.sym.var("data")).infer_shape(data=(1, *shape))[1][0]
    except mx.MXNetError as error:
        channels, height, width = shape
        raise gops.OpError("examples", f"{args.model} takes no images of {channels} channels, {height} x {width}; "
                           "expected a --model for such", "Choose another --model, or a larger --size") from error
    net = Classifier(features, len(out) == 4, args.embedding, classes)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, *shape)))   # fixes every shape
    return net


def _features(name, classes, shape):
    if name in OURS:
        net = gops.models.get_model(name, classes=classes, **({"size": shape[1]} if name == "lenet_reorg" else {}))
        if name == "darknet19":
            features = nn.HybridSequential()
            features.add(net.features.fine, net.features.coarse)
            return features
        return net.body[:-1] if name == "mlp" else net.features
    try:
        return vision.get_model(name, classes=classes).features
    except (ValueError, AttributeError):
        zoo = require("gluoncv.model_zoo", "examples")
    options = {"classes": classes, "pretrained": False}
    try:
        try:   # a detector would else download the weights of the classifier that it is made upon
            return zoo.get_model(name, pretrained_base=False, **options).features
        except (TypeError, Warning) as error:   # as a classifier raises, which knows no such option
            if "'classes'" in str(error):
                raise ValueError("its classes are fixed") from error
            return zoo.get_model(name, **options).features
    except (ValueError, AttributeError) as error:
        raise gops.OpError("examples", f"there is no classifier {name!r} with `features`",
                           f"Choose {', '.join(OURS)}, resnet18_v1, mobilenet0.25, ...") from error


def start_from(net, args):
    """Load --pretrained: a checkpoint of these scripts, a .params file of theirs, or darknet19.weights.

    The rows of the output layer whose class has the same name in the file are reused. The other rows, and an output of
    another width, are initialized. Returns the names of the reused classes.
    """
    path = pathlib.Path(args.pretrained)
    names = class_names(args.pretrained_names, "examples") if args.pretrained_names else None
    if path.suffix == ".checkpoint":
        tensors, train_state = _checkpoint.read(path)
        names = train_state["classes"]
        tensors = {name[len("param:net."):]: value for name, value in tensors.items() if name.startswith("param:net.")}
    elif path.suffix == ".weights":
        tensors = _darknet19(path, len(names or range(1000)))
    else:
        tensors = _checkpoint.parameters(path)
    wanted = net._collect_params_with_prefix()
    for name, parameter in wanted.items():
        if name.startswith("output."):
            continue
        if name not in tensors or tensors[name].shape != parameter.shape:
            has = f"has the shape {tensors[name].shape} for" if name in tensors else "lacks"
            raise gops.OpError("examples", f"{path} {has} {name}; expected {parameter.shape}",
                               "Choose the --model, --embedding and --size it was made with")
        parameter.set_data(tensors[name])
    if not names or "output.weight" not in tensors:
        return []
    outputs = tensors["output.weight"].shape
    if len(names) != outputs[0]:
        raise gops.OpError("examples", f"{args.pretrained_names} has {len(names)} names; expected {outputs[0]}, one "
                           f"for each output of {path}", "Name the file with the classes it was trained on")
    if outputs[1:] != wanted["output.weight"].shape[1:]:
        return []
    reused = [name for name in net.classes if name in names]
    for part in ("output.weight", "output.bias"):
        rows = wanted[part].data().copy()
        for name in reused:
            rows[net.classes.index(name)] = tensors[part][names.index(name)]
        wanted[part].set_data(rows)
    return reused


def _darknet19(path, classes):
    """Darknet's weights by the names of a Classifier; its 1x1 convolution before the mean is a dense layer after it."""
    net = gops.models.darknet19(classes)
    net.initialize()
    net.load_darknet(str(path))
    stages = {"embed.0.0": net.features.fine, "embed.0.1": net.features.coarse}
    tensors = {f"{stage}.{name}": parameter.data() for stage, block in stages.items()
               for name, parameter in block._collect_params_with_prefix().items()}
    return {**tensors, "output.weight": net.output.conv.weight.data().reshape((classes, -1)),
            "output.bias": net.output.conv.bias.data()}
