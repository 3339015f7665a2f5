"""What ``softmax`` declares, and what its relatives share."""
import math

from ...core.contract import FLOATS, Arg, Attr, Cuda, Dim, Float, Int, Op, Out, check_axis

MANY_ROWS = 16384   # enough threads for a GPU
AXIS = Attr("axis", Int(), -1, "the classes")


def class_dims(ndim, axis):
    """Named dimensions of a tensor whose ``axis`` holds the classes."""
    return tuple(Dim("classes" if i == axis else "batch" if i == 0 else f"dim{i}") for i in range(ndim))


def rows(attrs, shape):
    """(outer, classes, inner): the shape seen from the axis of the classes."""
    axis = attrs.axis % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])


def row_work(attrs, known):
    """One row of classes per (outer, inner). Where rows are many and neighbours in memory, one thread walks each, as it
    does rows of two: so the threads of a warp read neighbours."""
    outer, classes, inner = rows(attrs, known["data"])
    return outer * inner, 2 if inner > 1 and outer * inner >= MANY_ROWS else max(2, classes)


def row_sizes(attrs, known):
    """The sizes that every kernel of the family starts with."""
    return dict(zip(("outer", "classes", "inner"), rows(attrs, known["data"])))


def shapes(attrs, ndims):
    dims = class_dims(ndims["data"], check_axis("softmax", attrs.axis, ndims["data"]))
    return {"data": dims, "output": dims}, ()


OP = Op(
    name="softmax",
    summary="probabilities along an axis",
    inputs=(Arg("data", "T", "any shape"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(AXIS, Attr("temperature", Float(above=0), 1.0, "divides the logits")),
    types={"T": FLOATS},
    shapes=shapes,
    backward=("output_grad", "output"),
    cuda=Cuda(scalars=lambda attrs, known: {**row_sizes(attrs, known), "temperature": attrs.temperature},
              forward=row_work, backward=row_work),
    wide=True,
)
