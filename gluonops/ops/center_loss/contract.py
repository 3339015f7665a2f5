"""What ``center_loss`` declares."""
from ...core.contract import FLOATS, LABELS, Arg, Attr, Cuda, Float, Int, Op, Out, names


def shapes(attrs, ndims):
    batch, classes, features = names("batch classes features")
    return {"data": (batch, features), "label": (batch,), "centers": (classes, features), "output": (batch,)}, ()


def scalars(attrs, known):
    batch, features = known["data"]
    return {"batch": batch, "classes": known["centers"][0], "features": features}


def forward_work(attrs, known):
    """One row of features per sample."""
    batch, features = known["data"]
    return batch, max(2, features)


def backward_work(attrs, known):
    """One row of features per sample, then one per class."""
    batch, features = known["data"]
    return batch + known["centers"][0], max(2, features)


def layer(classes, features, alpha):
    """What the layer keeps, the centres' shape and alpha; an OpError where one is out of range."""
    def parsed(name, kind, value):
        return Attr(name, kind, None, "").parse("CenterLoss", value)

    shape = parsed("classes", Int(1), classes), parsed("features", Int(1), features)
    return shape, parsed("alpha", Float(low=0), alpha)


OP = Op(
    name="center_loss",
    summary="half the squared distance to the centre of the class",
    inputs=(Arg("data", "T", "features, (batch, features)"),
            Arg("label", "L", "class indices, (batch,)", gradient=False, classes="centers"),
            Arg("centers", "T", "(classes, features)")),
    outputs=(Out("output", "T", "the loss of every sample, (batch,)"),),
    attrs=(),
    types={"T": FLOATS, "L": LABELS},
    shapes=shapes,
    backward=("output_grad", "data", "label", "centers"),
    cuda=Cuda(scalars=scalars, forward=forward_work, backward=backward_work),
    wide=True,
)
