"""``gluonops ops``: the support table of the operators, as text for a terminal and as data; in Markdown for the pages.

Everything in it comes from the contracts.
"""
from __future__ import annotations

import argparse
import json
import re
import shutil
import textwrap

from .. import loss, nn
from ..contract import registry
from ..contract.errors import OpError
from ..contract.expressions import expression
from ..contract.op import FAMILIES, Arg, Op
from ..export.formats import formats_of

# What a terminal shows of an operator in lines of their own -> the first word of the line.
HEADINGS = {"layer": "Layer", "backends": "Backends", "dtypes": "Types", "attributes": "Attributes",
            "gradient": "Gradient", "export": "Export"}


def run(args: argparse.Namespace) -> None:
    """Print all operators, or the one that ``args.name`` names."""
    names = [registry.get(args.name).op.name] if args.name else None
    print(json.dumps(rows(names), indent=2) if args.json else terminal(shutil.get_terminal_size().columns, names))


def rows(names: list[str] | None = None) -> list[dict]:
    """One dict, with plain data as values, for each of the operators that are named, or for all operators."""
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
    for catalogue, package in ((nn, "nn"), (loss, "loss")):
        for name in catalogue.__all__:
            if getattr(catalogue, name).__module__ == module:
                return f"{package}.{name}"
    return f"none: {entry.op.unsupported.get('block.py', 'not in a catalogue')}"


def _backends(op: Op) -> str:
    """``custom with CUDA, native, builtin``, and the reason if a kernel is missing."""
    custom = "custom" if "kernel.cu" in op.unsupported else "custom with CUDA"
    native = [] if "kernel.cc" in op.unsupported else ["native"]
    reasons = [f"no {kind} kernel: {op.unsupported[file]}"
               for file, kind in (("kernel.cu", "CUDA"), ("kernel.cc", "native")) if file in op.unsupported]
    return "; ".join([", ".join([custom, *native, "builtin"]), *reasons])


def _dtypes(op: Op) -> str:
    """``data: float16/32/64; label: ...``: the dtypes of the inputs. Inputs with one type variable are together."""
    type_vars = op.type_vars(op.parse({}))
    inputs = {variable: ", ".join(arg.name for arg in op.inputs if type_vars[arg.name] == variable)
              for variable in op.types}
    return "; ".join(f"{names}: {short(op.types[variable])}" for variable, names in inputs.items() if names)


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
    """`` with sparse_label=False``: the switch that gives the input a gradient. Empty if it has one by default."""
    defaults = op.parse({})
    if isinstance(arg.gradient, bool) or arg.has_gradient(defaults):
        return ""
    switch, = expression(arg.gradient).names
    return f" with {switch}={not getattr(defaults, switch)}"


def catalogue() -> str:
    """The names of all layers and losses, in Markdown, for the README."""
    lines = ["| | |", "| --- | --- |"]
    for words, room in (("Layers", nn), ("Losses", loss)):
        names = ", ".join(f"`{name}`" for name in sorted(room.__all__) if isinstance(getattr(room, name), type))
        lines.append(f"| {words} in `{room.__name__}` | {names} |")
    return "\n".join(lines)


def families(folder: str) -> str:
    """The operators in Markdown: a table for each family, whose rows link to the operators' pages in a folder."""
    tables = []
    for family in FAMILIES:
        lines = [f"## {family.capitalize()}", "| Operator | Layer or loss | What it does |", "| --- | --- | --- |"]
        for row in rows():
            if registry.get(row["op"]).op.family == family:
                layer = row["layer"] if " " in row["layer"] else f"`{row['layer']}`"
                lines.append(f"| [`{row['op']}`]({folder}/{row['op']}.rst) | {layer} | {row['summary']} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def terminal(width: int, names: list[str] | None) -> str:
    """:func:`rows` as text with a paragraph for each, for a terminal of ``width`` columns, at least 40."""
    paragraphs = []
    for row in rows(names):
        lines = [f"{row['op']}: {row['summary']}"]
        attributes = ", ".join(f"{name}={value!r}" for name, value in row["attributes"].items()) or "none"
        cells = {**row, "attributes": attributes}
        for key, heading in HEADINGS.items():
            lines += textwrap.wrap(cells[key], max(40, width), initial_indent=f"  {heading:<12}",
                                   subsequent_indent=" " * 14)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def replace(text: str, name: str, table: str) -> str:
    """Markdown with a table between its two markers, ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    An OpError if the text does not contain each marker once, in the right order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise OpError("table", f"the text lacks the two lines {begin} and {end}, once and in this order", "Add them")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"
