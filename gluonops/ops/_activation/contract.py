"""The contract of an activation: a function of every element, whose gradient reads the input."""
from __future__ import annotations

from ...contract.op import FLOATS, Arg, Attr, Cuda, Kernels, Op, Out, Shapes, each_element


def activation(name: str, summary: str, formula: str | None = None, attrs: tuple[Attr, ...] = (),
               types: tuple[str, ...] = FLOATS, **others) -> Op:
    """Return the contract of an activation.

    Parameters
    ----------
    name, summary : str
    formula : str, optional
        The value of its struct in ``formulas.inl``, such as ``Swish{args.beta}``, with which the kernels are generated.
        By default the operator's folder has the kernels.
    attrs : tuple of Attr
    types : tuple of str
        The dtypes of the data.
    **others
        Further fields of :class:`gluonops.contract.op.Op`.
    """
    kernels = formula and Kernels("_activation/activation", forward=f"activate_forward(args, {formula})",
                                  backward=f"activate_backward(args, {formula})")
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
        kernels=kernels,
        **others,
    )
