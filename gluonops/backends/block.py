"""Blocks of one operator: how they call it and are printed, and what their page takes from the function's.

The docstring of such a block says only what the function's docstring does not. The rest is added when the class is
made: the arguments of the constructor, the inputs, the output and the errors. What all operators' functions have in
common is added to their docstrings by :func:`complete`.
"""
from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from mxnet.gluon import HybridBlock
from mxnet.gluon.loss import Loss, _apply_weighting

from ..contract import registry
from ..contract.errors import OpError
from ..contract.op import Arg, Indices, Op
from ..runtime.near import perhaps
from .emitter import Array
from .layer import EitherModeBlock
from .printed import Printed

HEADING = re.compile(r"^(\w+)(?:\n-+|:)\n", re.M)   # numpydoc's, or Gluon's "Inputs:"
ENTRY = re.compile(r"^(?P<names>\S.*?) : (?P<type>.*)\n(?P<meaning>(?:[ ]+.*\n|\n)+)", re.M)
ITEM = re.compile(r"^ *- \*\*(\w+)\*\*: (.*(?:\n(?! *- \*\*) .*)*)", re.M)
WIDTH = 112
BLOCK_ARGUMENTS = ("prefix", "params")   # every block has them
IMPORTS = ">>> import gluonops as gops\n>>> import mxnet as mx\n"   # Every example begins with them.
RAISES = "OpError\n    A shape or dtype does not fit, or an attribute is out of range.\n"
CHECKED = "    With ``GLUONOPS_CHECK_LABELS=1`` also: a label or a ground truth is invalid.\n"


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a docstring, by their headings. The text in front has the heading ''."""
    first, *rest = HEADING.split(f"{inspect.cleandoc(docstring)}\n")
    return {"": first.strip(), **{heading: f"{text.rstrip()}\n" for heading, text in zip(rest[::2], rest[1::2])}}


def entries(section: str) -> list[tuple[str, str, str]]:
    """Return the names, the type and the meaning of each entry of a section such as ``Parameters``."""
    return [(match["names"], match["type"], " ".join(match["meaning"].split())) for match in ENTRY.finditer(section)]


def complete(function: Callable, op: Op) -> None:
    """Add to the docstring of an operator's function what follows from the contract.

    These are the arguments, the output, the errors, and what an example imports.
    """
    page, arguments = sections(function.__doc__), inspect.signature(function).parameters
    described = {arg.name: ("NDArray or Symbol", _meaning(op, arg)) for arg in op.inputs}
    described.update((attr.name, (attr.kind.type, attr.doc)) for attr in op.attrs)
    described["name"] = ("str", "Name of the node in a graph.")
    parameters = "".join(_entry(argument, *described[name]) for name, argument in arguments.items())
    returns = f"NDArray or Symbol\n{_indented(_returned(op))}"
    raises = f"{RAISES}{CHECKED if op.restricts_values else ''}"
    page["Examples"] = f"{IMPORTS}{page['Examples']}"
    derived = {"Parameters": parameters, "Returns": returns, "Raises": raises}
    parts = [f"{heading}\n{'-' * len(heading)}\n{text}" for heading, text in {**derived, **page}.items() if heading]
    function.__doc__ = "\n".join([f"{page['']}\n", *parts])


def _entry(argument: inspect.Parameter, kind: str, meaning: str) -> str:
    default = argument.default
    behind = {None: ", optional", inspect.Parameter.empty: ""}.get(default, f", default {default!r}")
    return f"{argument.name} : {kind}{behind}\n{_indented(meaning)}"


def _indented(text: str) -> str:
    return f"{textwrap.indent(textwrap.fill(text, WIDTH), ' ' * 4)}\n"


def _meaning(op: Op, arg: Arg) -> str:
    """Return what the contract says of an input, if only its shape and its dtype."""
    if arg.doc:
        return arg.doc
    if isinstance(arg.values, Indices):
        return f"Class indices, {_shape(op, arg.name)}, in any float or integer dtype."
    *others, last = op.types[arg.dtype]
    return f"{_shape(op, arg.name).capitalize()}; {', '.join(others)} or {last}."


def _shape(op: Op, tensor: str) -> str:
    """Return the shape of a tensor in words."""
    first, patterns = op.inputs[0].name, op.rules[-1].texts
    others = [term for term in patterns[first].split(", ") if "@" not in term]
    if patterns[tensor] != patterns[first] and patterns[tensor].split(", ") == others:
        return f"the shape of ``{first}`` without ``axis``"
    terms = ["..." if "..." in term else term for term in patterns[tensor].split(", ")]
    is_free = set(terms) == {"..."} or terms.count("...") > 1
    return "any shape" if is_free else f"({', '.join(terms)}{',' if len(terms) == 1 else ''})"


def _returned(op: Op) -> str:
    """Return the words for what an operator returns, from those of the contract for its outputs."""
    first, doc = op.inputs[0].name, op.outputs[0].doc
    if doc.endswith("per row"):
        doc = f"{doc}, {_shape(op, op.outputs[0].name)}"
    words = re.sub(rf"(the )?shape of {first}\b", f"the shape and dtype of ``{first}``", doc)
    whole = words if words != doc else f"{words}; the dtype of ``{first}``"
    text = f"{whole[0].upper()}{whole[1:]}."
    if op.returned == "1":
        return text
    _, attribute, _ = re.split(" if | else ", op.returned)
    added = op.outputs[1]
    return f"{text} With ``{attribute}`` a tuple of this and the {added.name}, without a gradient: {added.doc}."


class OperatorPage(Printed):
    """A block of one operator, whose docstring is completed with that of the operator's function.

    A subclass names the operator's function: ``class Mish(OpBlock, function=mish)``. ``_op`` is the operator's
    contract. ``_learned`` names the arguments of ``hybrid_forward`` that are parameters of the block.

    Attributes
    ----------
    own_page : str
        The page without what is the function's.
    """

    _op: Op
    _function: Callable
    _learned: tuple[str, ...] = ()
    _keywords: tuple[str, ...] = ()   # the attributes that a derived constructor takes by name only
    own_page = ""

    def __init_subclass__(cls, function: Callable | None = None, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls._own = sections(cls.__doc__ or "")
        if function:
            cls._function, cls._op = staticmethod(function), registry.get(function.__name__).op
            if "__init__" not in vars(cls) and issubclass(cls, (OpBlock, OpLoss)):
                cls.__init__ = _constructor(cls)
            renamed = _inputs(cls)
            cls.own_page = page(cls, renamed)
            cls.__doc__ = page(cls, renamed, sections(function.__doc__))

    def _take_attributes(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Set the operator's attributes, and return the arguments that every block has.

        Raise an OpError for an argument that is neither.
        """
        attributes = self._op.Attrs._fields
        for name in arguments:
            if name not in attributes and name not in BLOCK_ARGUMENTS:
                accepted = [*inspect.signature(type(self).__init__).parameters, *attributes]
                accepted = [*dict.fromkeys(one for one in accepted if one not in ("self", "kwargs"))]
                raise OpError(type(self).__name__, f"there is no argument {name!r}; expected {', '.join(accepted)}",
                              perhaps(name, accepted) or "Choose one of these")
        options = {name: value for name, value in arguments.items() if name in attributes}
        self._attrs = self._op.parse(options)
        self._options = {name: getattr(self._attrs, name) for name in options}
        return {name: value for name, value in arguments.items() if name not in options}


def page(cls: type[HybridBlock], renamed: Mapping[str, str] = {}, theirs: Mapping[str, str] = {}) -> str:
    """Return a block's page from its own docstring, from those of the classes it derives from, and from its function's.

    ``_own`` has the sections of each of these classes' docstring, and ``theirs`` those of the function. ``renamed`` is
    the result of :func:`_inputs`.
    """
    own = [vars(base)["_own"] for base in reversed(cls.__mro__) if "_own" in vars(base)]
    parts = [cls._own[""]]
    if theirs:
        parts.append(f"See :func:`gluonops.ops.{cls._op.name}`.")
    arguments = _merged(named_entries, [theirs, *own], "Parameters")
    names = (*inspect.signature(cls.__init__).parameters, "**options", "**kwargs")
    wanted = [name for name in names if name in arguments]
    parts += _section("Parameters\n----------", "".join(dict.fromkeys(arguments[name] for name in wanted)))
    meanings = {names: meaning for names, _, meaning in entries(theirs.get("Parameters", ""))}
    items = {name: meanings.get(old, "") for name, old in renamed.items()}
    items.update(_merged(lambda section: dict(ITEM.findall(section)), own, "Inputs"))
    parts += _section("Inputs:", "".join(_item(name, text) for name, text in items.items()))
    latest = {heading: text for page in own for heading, text in page.items()}
    _, _, returned = theirs.get("Returns", "").partition("\n")
    parts += _section("Outputs:", latest.get("Outputs", _item("out", returned)))
    parts += _section("Attributes\n----------", latest.get("Attributes", ""))
    parts += _section("Raises\n------", latest.get("Raises", theirs.get("Raises", "")))
    text = "\n\n".join(parts)
    for name, old in renamed.items():
        text = text.replace(f"``{old}``", f"``{name}``")
    return f"{text}\n"


def _inputs(cls: type[OperatorPage]) -> dict[str, str]:
    """Return the name of each input of a block, with the name that the operator's function has for it."""
    of_operator = [argument.name for argument in cls._op.inputs]
    _, _, *arguments = inspect.signature(cls.hybrid_forward).parameters
    if cls.hybrid_forward is OpBlock.hybrid_forward:
        return dict(zip(of_operator, of_operator))
    names = [name for name in arguments if name not in cls._learned]
    return dict(zip(names, of_operator))


def named_entries(section: str) -> dict[str, str]:
    """Return the text of the entry for each name in a section. Several names may share an entry."""
    return {name: f"{match[0].rstrip()}\n" for match in ENTRY.finditer(section) for name in match["names"].split(", ")}


def _merged(parse: Callable[[str], dict], pages: list[Mapping[str, str]], heading: str) -> dict[str, str]:
    """Return what the pages say under one heading. Later pages replace what earlier ones say."""
    return {name: text for page in pages for name, text in parse(page.get(heading, "")).items()}


def _section(heading: str, text: str) -> list[str]:
    return [f"{heading}\n{text.rstrip()}"] if text else []


def _item(name: str, text: str) -> str:
    item = f"- **{name}**: {' '.join(text.split())}"
    return text and textwrap.fill(item, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 6,
                                  break_long_words=False, break_on_hyphens=False) + "\n"


class OpBlock(OperatorPage, EitherModeBlock):
    """A layer that is one operator.

    Its arguments are the operator's attributes, in the order and with the defaults of the function, and ``prefix`` and
    ``params``, which every block has. A subclass with other arguments has a constructor of its own.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**self._take_attributes(kwargs))

    def hybrid_forward(self, F, *inputs: Array) -> Array:
        return self._function(*inputs, **self._options)


def _constructor(cls: type[OperatorPage]) -> Callable:
    """Return the constructor whose arguments are the operator's attributes, and those that the base class names."""
    arguments = inspect.signature(cls._function).parameters.values()
    attributes = [argument for argument in arguments if argument.name in cls._op.Attrs._fields]
    block, *others, kwargs = inspect.signature(cls.__init__).parameters.values()
    signature = inspect.Signature([
        block, *[argument for argument in attributes if argument.name not in cls._keywords], *others,
        *[argument.replace(kind=inspect.Parameter.KEYWORD_ONLY) for argument in attributes
          if argument.name in cls._keywords], kwargs])

    def __init__(self, *args: Any, **kwargs: Any):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        named = {name: value for name, value in bound.arguments.items() if name not in ("self", "kwargs")}
        super(cls, self).__init__(**named, **bound.arguments["kwargs"])

    __init__.__signature__ = signature
    return __init__


class OpLoss(OperatorPage, EitherModeBlock, Loss):
    """The mean over each sample of an operator's losses. Further arguments are those of :class:`OpBlock`.

    Parameters
    ----------
    weight : float, optional
        Factor of the loss.
    batch_axis : int, default 0
        Axis of the samples. The loss is averaged over all other axes.

    Inputs:
        - **sample_weight**: optional; it must broadcast against ``pred``.

    Outputs:
        - **loss**: (batch_size,), the dtype of ``pred``.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **self._take_attributes(kwargs))

    def hybrid_forward(self, F, pred: Array, label: Array, sample_weight: Array | None = None) -> Array:
        loss = _apply_weighting(F, self._losses(F, pred, label), self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)

    def _losses(self, F, pred: Array, label: Array) -> Array:
        """Return the losses, in a shape that ``sample_weight`` broadcasts against."""
        return self._function(pred, label, **self._options)
