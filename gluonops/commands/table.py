"""The support table of the operators: in Markdown for the README and the pages, as text for a terminal, and as data.

Everything in it comes from the contracts.
"""
from __future__ import annotations

import re
import textwrap

from .. import loss, nn
from ..core import registry
from ..core.contract import FAMILIES, Arg, Attr, Bool, Choice, Op
from ..core.errors import OpError
from ..export.formats import formats_of

HEADINGS = {
    "op": "Operator",
    "layer": "Layer or loss",
    "summary": "What it does",
    "backends": "Backends",
    "dtypes": "Types",
    "attributes": "Attributes",
    "gradient": "Gradient",
    "export": "Export",
}
INDEX = ("op", "layer", "summary")   # columns of the index
DETAILS = ("backends", "dtypes", "attributes", "gradient", "export")   # columns behind layer and summary


def rows(names: list[str] | None = None) -> list[dict]:
    """One dict per operator, with the keys of ``HEADINGS`` and plain data as values.

    ``names``: names of operators. The default is all operators.
    """
    return [_row(entry) for name, entry in registry.entries().items() if names is None or name in names]


def _row(entry: registry.Entry) -> dict:
    op = entry.op
    return {
        "op": op.name,
        "layer": _layer(entry),
        "summary": op.summary,
        "backends": _backends(op),
        "dtypes": _dtypes(op),
        "attributes": {a.name: a.default for a in op.attrs},
        "gradient": _gradient(op),
        "export": formats_of(op),
    }


def _layer(entry: registry.Entry) -> str:
    """``nn.Reorg``: the class in ``gluonops.nn`` or ``gluonops.loss`` that the operator's block.py defines."""
    module = f"gluonops.ops.{entry.op.name}.block"
    for catalogue, place in ((nn, "nn"), (loss, "loss")):
        for name in catalogue.__all__:
            if getattr(catalogue, name).__module__ == module:
                return f"{place}.{name}"
    return f"none: {entry.op.unsupported.get('block.py', 'not in a catalogue')}"


def _backends(op: Op) -> str:
    """``custom with CUDA, native, builtin``, and the reason if a kernel is missing."""
    names = ["custom with CUDA", "native", "builtin"]
    reasons = []
    if "kernel.cu" in op.unsupported:
        names[0] = "custom"
        reasons.append(f"no CUDA kernel: {op.unsupported['kernel.cu']}")
    if "kernel.cc" in op.unsupported:
        names.remove("native")
        reasons.append(f"no native kernel: {op.unsupported['kernel.cc']}")
    return "; ".join([", ".join(names), *reasons])


def _dtypes(op: Op) -> str:
    """``data: float16/32/64; label: ...``: the dtypes of the inputs. Inputs with one type variable are together."""
    type_vars = op.type_vars(op.parse({}))
    texts = []
    for variable, dtypes in op.types.items():
        inputs = [arg.name for arg in op.inputs if type_vars[arg.name] == variable]
        if inputs:
            texts.append(f"{', '.join(inputs)}: {short(dtypes)}")
    return "; ".join(texts)


def short(dtypes: tuple) -> str:
    """``("float16", "float32", "uint8")`` -> ``float16/32, uint8``."""
    groups = {}
    for dtype in dtypes:
        word, bits = re.fullmatch(r"([a-z]+)(\d*)", dtype).groups()
        groups.setdefault(word, []).append(bits)
    return ", ".join(word + "/".join(bits) for word, bits in groups.items())


def _gradient(op: Op) -> str:
    """The inputs that have a gradient, and whether the operator ignores the head gradient."""
    inputs = [arg.name + _condition(op, arg) for arg in op.inputs if arg.gradient]
    text = ", ".join(inputs) or "none"
    if not op.reads_head_gradient:
        text += "; ignores the head gradient"
    return text


def _condition(op: Op, arg: Arg) -> str:
    """`` with sparse_label=False``: the attribute that gives the input a gradient. Empty if it always has one."""
    if isinstance(arg.gradient, bool) or arg.has_gradient(op.parse({})):
        return ""
    for attr in op.attrs:
        for value in _choices(attr):
            try:
                if arg.has_gradient(op.parse({attr.name: value})):
                    return f" with {attr.name}={value!r}"
            except OpError:   # the contract does not allow this value with the other defaults
                continue
    return " with some attributes"


def _choices(attr: Attr) -> tuple:
    """All values of an attribute, if they can be listed."""
    if isinstance(attr.kind, Bool):
        return True, False
    if isinstance(attr.kind, Choice):
        return attr.kind.words
    return ()


def catalogue() -> str:
    """The names of all layers and losses, in Markdown, for the README."""
    lines = ["| | |", "| --- | --- |"]
    for words, room in (("Layers", nn), ("Losses", loss)):
        names = ", ".join(f"`{name}`" for name in sorted(room.__all__) if isinstance(getattr(room, name), type))
        lines.append(f"| {words} in `{room.__name__}` | {names} |")
    return "\n".join(lines)


def families(folder: str) -> str:
    """The operators in Markdown: a table for each family.

    ``folder``: folder with the operators' pages, which the rows link to.
    """
    headings = f"| {' | '.join(HEADINGS[key] for key in INDEX)} |"
    tables = []
    for family in FAMILIES:
        lines = [f"## {family.capitalize()}", headings, "| --- | --- | --- |"]
        for row in rows():
            if registry.get(row["op"]).op.family == family:
                layer = row["layer"] if " " in row["layer"] else f"`{row['layer']}`"
                lines.append(f"| [`{row['op']}`]({folder}/{row['op']}.rst) | {layer} | {row['summary']} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def terminal(width: int = 100, names: list[str] | None = None) -> str:
    """The table as text, with one paragraph per operator.

    - ``width``: columns of the terminal. Lines are at least 40 long.
    - ``names``: names of operators. The default is all operators.
    """
    paragraphs = []
    for row in rows(names):
        lines = [f"{row['op']}: {row['summary']}"]
        attributes = ", ".join(f"{name}={value!r}" for name, value in row["attributes"].items()) or "none"
        cells = {**row, "attributes": attributes}
        for key in ("layer", *DETAILS):
            heading = HEADINGS[key].split()[0]
            lines += textwrap.wrap(cells[key], max(40, width), initial_indent=f"  {heading:<12}",
                                   subsequent_indent=" " * 14)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def replace(text: str, name: str, table: str) -> str:
    """``text`` with a table between its two markers, ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    - ``text``: Markdown.
    - ``name``: the name in the markers.
    - ``table``: what goes between the markers.

    An OpError if the text does not contain each marker once, in the right order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise OpError("table", f"the text lacks the two lines {begin} and {end}, once and in this order", "Add them")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"
