"""The contract of ``center_loss``."""
import math

from ...contract.op import Arg, Array, Cuda, Indices, Launch, Op, Out, Shapes, rows

BLOCKS = 1056         # the number of blocks that occupies a large GPU
SPLIT = 512           # the fewest samples for each of the blocks that share a class


def backward(args) -> Launch:
    """Return the launch in which a block takes a class, or several blocks share it if there are few classes.

    Samples without a class are one more class.
    """
    splits = max(1, min(BLOCKS // max(1, args.classes), math.ceil(args.batch / SPLIT)))
    return Launch(args.classes + 1, splits=splits)


OP = Op(
    name="center_loss",
    summary="half the squared distance to the centre of the label's class",
    family="other losses",
    role="loss",
    inputs=(Arg("data", "T", doc="Features, (batch, features); float16, float32 or float64."),
            Arg("label", "L", gradient=False, values=Indices("classes")),
            Arg("centers", "T", doc="(classes, features), the dtype of ``data``. In a graph its variable needs an "
                "explicit shape, such as ``mx.sym.var('centers', shape=(10, 2))``, because the number of classes does "
                "not follow from the data.")),
    outputs=(Out("output", "T", "loss per sample, (batch,)"),),
    shapes=Shapes(data="batch, features", label="batch", centers="classes, features", output="batch"),
    # The samples of a class as a list: its first sample, and the sample after each sample.
    scratch=(Array("first", "int64", "classes", "backward"), Array("next", "int64", "batch", "backward")),
    cuda=Cuda(
        forward=rows("batch", "features"),
        backward=backward,
        # The last block of a class adds up the sums of all.
        scratch=(Array("counts", "uint32", "classes", "backward", kept=True),
                 Array("sums", "A", "(classes + 1) * splits * features", "backward")),
        forward_bounds="512, 1",
        backward_bounds="THREADS, sizeof(T) == 8 ? 2 : 4",
    ),
)
