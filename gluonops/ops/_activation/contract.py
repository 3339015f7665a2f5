"""The contract of an activation: a function of every element, whose gradient reads the input."""
from ...contract.op import FLOATS, Arg, Attr, Cuda, Op, Out, Shapes, each_element


def activation(name: str, summary: str, attrs: tuple[Attr, ...] = (), types: tuple[str, ...] = FLOATS,
               **others) -> Op:
    """The contract of an activation.

    Parameters
    ----------
    name, summary : str
    attrs : tuple of Attr
    types : tuple of str
        The dtypes of the data.
    **others
        As of :class:`gluonops.contract.op.Op`.
    """
    return Op(
        name=name,
        summary=summary,
        family="activations",
        inputs=(Arg("data", "T"),),
        outputs=(Out("output", "T", "shape of data"),),
        attrs=attrs,
        types={"T": types},
        shapes=Shapes(data="...", output="..."),
        derived={"size": "data.size"},
        cuda=Cuda(forward=each_element, backward=each_element),
        **others,
    )
