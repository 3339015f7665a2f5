"""The contract of an activation: a function of every element, whose gradient reads the input."""
from __future__ import annotations

import math
from collections.abc import Callable

from ...core.contract import FLOATS, Arg, Attr, Cuda, Op, Out, Shapes


def size(known: dict) -> int:
    """The number of elements."""
    return math.prod(known["data"])


def elements(attrs, known: dict) -> tuple[int, int]:
    """One thread per element."""
    return size(known), 1


def activation(name: str, summary: str, attrs: tuple[Attr, ...] = (),
               scalars: Callable[[tuple], dict] | None = None, types: tuple[str, ...] = FLOATS,
               accumulate_fp32: bool = True) -> Op:
    """The contract of an activation.

    Parameters
    ----------
    name, summary : str
    attrs : tuple of Attr
    scalars : callable, optional
        ``scalars(attrs)`` returns the kernels' arguments that follow from the attributes, by name.
    types : tuple of str
        The dtypes of the data.
    accumulate_fp32 : bool
        As of :class:`gluonops.core.contract.Op`.
    """
    def arguments(values, known: dict) -> dict:
        return {"size": size(known), **(scalars(values) if scalars else {})}

    return Op(
        name=name,
        summary=summary,
        family="activations",
        inputs=(Arg("data", "T", "any shape"),),
        outputs=(Out("output", "T", "shape of data"),),
        attrs=attrs,
        types={"T": types},
        shapes=Shapes(data="...", output="..."),
        backward=("output_grad", "data"),
        derived={"size": "data.size"},
        cuda=Cuda(scalars=arguments, forward=elements, backward=elements),
        accumulate_fp32=accumulate_fp32,
    )
