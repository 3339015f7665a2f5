"""``gluonops ops`` prints the support table of the operators, as text or as JSON. The pages have it in Markdown.

Everything in it comes from the contracts.
"""
from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import textwrap
import types

from .. import loss, nn, ops
from ..contract import registry
from ..contract.errors import OpError
from ..contract.expressions import expression
from ..contract.op import FAMILIES, Arg, Op
from ..export.formats import formats_of
from ..runtime.near import perhaps

MADE_OF_OTHERS = "made of other operators"
# What a terminal shows of an operator in lines of their own -> the first word of the line.
HEADINGS = {"function": "Function", "layer": "Layer", "backends": "Backends", "dtypes": "Types",
            "gradient": "Gradient", "export": "Export"}


def run(args: argparse.Namespace) -> None:
    """Print all operators, or the one that ``args.name`` names: itself, or its layer or loss."""
    width = shutil.get_terminal_size().columns
    name = _meant(args.name) if args.name else None
    if name is None or name in registry.entries():
        names = [name] if name else None
        print(json.dumps(rows(names), indent=2) if args.json else terminal(width, names))
    else:
        block = described(name)
        print(json.dumps([block], indent=2) if args.json else _paragraph(name, block, {"layer": "Layer"}, width))


def _blocks() -> dict[str, type]:
    """All layers and losses by their full names, such as ``loss.FocalLoss``."""
    return {f"{room}.{name}": getattr(catalogue, name) for catalogue, room in ((nn, "nn"), (loss, "loss"))
            for name in catalogue.__all__ if isinstance(getattr(catalogue, name), type)}


def _meant(name: str) -> str:
    """The operator that a name means, or the layer or loss that does not belong to an operator.

    A layer or loss may be named with or without ``nn.`` or ``loss.``, and in snake_case: FocalLoss or focal_loss. An
    OpError is raised if there is none of this name.
    """
    operators, blocks = registry.entries(), _blocks()
    if name in operators:
        return name
    for full, block in blocks.items():
        if _plain(name) in (_plain(full), _plain(full.partition(".")[2])):
            operator = block.__module__.split(".")[-2]
            return operator if operator in operators else full
    raise OpError("ops", f"there is no operator, layer or loss {name!r}",
                  _similar(name, [*operators, *blocks]) or "gluonops ops lists all of them")


def _similar(name: str, names: list[str]) -> str:
    """A sentence with the names that have this one as a part, or with the one that is most like it, or ""."""
    parts = [full for full in names if _plain(name) in _plain(full)]
    if parts:
        return f"These have it in their names: {', '.join(parts)}"
    spellings = {}
    for full in reversed(names):   # The first of two with one spelling counts.
        spellings.update({_plain(full): full, _plain(full.rpartition(".")[2]): full})
    meant = perhaps(_plain(name), spellings)
    return re.sub("'(.*)'", lambda match: repr(spellings[match[1]]), meant)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def described(name: str) -> dict:
    """What is shown of a layer or a loss that does not belong to an operator."""
    block = _blocks()[name]
    summary, _, _ = inspect.getdoc(block).partition("\n\n")
    return {"layer": f"{name}{_signature(block)}", "summary": " ".join(summary.split())}


def _signature(function: object) -> str:
    """The arguments of a function or a class with their defaults, without their types."""
    signature = inspect.signature(function)
    arguments = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=arguments, return_annotation=inspect.Signature.empty))


def rows(names: list[str] | None = None) -> list[dict]:
    """One dict, with plain data as values, for each of the operators that are named, or for all operators."""
    return [_row(registered) for name, registered in registry.entries().items() if names is None or name in names]


def _row(registered: registry.RegisteredOp) -> dict:
    op = registered.op
    return {
        "op": op.name,
        "function": f"ops.{op.name}{_signature(getattr(ops, op.name))}",
        "layer": _layer(registered),
        "arguments": _arguments(registered),
        "summary": op.summary,
        "backends": _backends(op),
        "dtypes": _dtypes(op),
        "attributes": {a.name: a.default for a in op.attrs},
        "gradient": _gradient(op),
        "export": formats_of(op),
    }


def _layer(registered: registry.RegisteredOp) -> str:
    """Return the class in ``gluonops.nn`` or ``gluonops.loss`` that an operator's block.py defines, as ``nn.Reorg``."""
    for name, block in _blocks().items():
        if block.__module__ == f"gluonops.ops.{registered.op.name}.block":
            return name
    return f"none: {registered.op.unsupported.get('block.py', 'not in a catalogue')}"


def _arguments(registered: registry.RegisteredOp) -> str:
    """The arguments of the operator's layer, and which of them has another name in the function."""
    block = _blocks().get(_layer(registered))
    if block is None:
        return ""
    names = inspect.signature(block).parameters
    others = [(name, attr.name) for attr in registered.op.attrs for name in names
              if attr.name not in names and name.startswith(attr.name)]
    return _signature(block) + "".join(f"; {ours} is the function's {theirs}" for ours, theirs in others)


def _backends(op: Op) -> str:
    """The backends, such as ``custom with CUDA, native, builtin``, and the reason if a kernel is missing."""
    custom = "custom" if "kernel.cu" in op.unsupported else "custom with CUDA"
    native = [] if "kernel.cc" in op.unsupported else ["native"]
    reasons = [f"no {kind} kernel: {op.unsupported[file]}"
               for file, kind in (("kernel.cu", "CUDA"), ("kernel.cc", "native")) if file in op.unsupported]
    return "; ".join([", ".join([custom, *native, "builtin"]), *reasons])


def _dtypes(op: Op) -> str:
    """The dtypes of the inputs, such as ``data: float16/32/64; label: ...``. Inputs of the same type are together."""
    type_vars = op.type_vars(op.parse({}))
    inputs = {variable: ", ".join(arg.name for arg in op.inputs if type_vars[arg.name] == variable)
              for variable in op.types}
    return "; ".join(f"{names}: {short(op.types[variable])}" for variable, names in inputs.items() if names)


def short(dtypes: tuple) -> str:
    """Dtypes in short: ``("float16", "float32", "uint8")`` becomes ``float16/32, uint8``."""
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
    """The switch that gives an input a gradient, such as `` with sparse_label=False``. It is empty if the input has a
    gradient by default."""
    defaults = op.parse({})
    if isinstance(arg.gradient, bool) or arg.has_gradient(defaults):
        return ""
    switch, = expression(arg.gradient).names
    return f" with {switch}={not getattr(defaults, switch)}"


def catalogue() -> str:
    """The names of all layers and losses by what they are for, in Markdown, for the README."""
    lines = ["| | layers in `gluonops.nn` | losses in `gluonops.loss` |", "| --- | --- | --- |"]
    for family in (*FAMILIES, MADE_OF_OTHERS):
        cells = [", ".join(f"`{name}`" for name in _classes(room) if _family(getattr(room, name)) == family)
                 for room in (nn, loss)]
        if any(cells):
            lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _classes(room: types.ModuleType) -> list[str]:
    return sorted(name for name in room.__all__ if isinstance(getattr(room, name), type))


def _family(block: type) -> str:
    """The family of a block's operator."""
    op = getattr(block, "_op", None)
    return op.family if op else MADE_OF_OTHERS


def families() -> str:
    """The operators in Markdown: a table for each family. A row links to the docstring that the page is made of.

    ``docs/conf.py`` turns these links into links to the pages.
    """
    tables = []
    for family in FAMILIES:
        lines = [f"## {family.capitalize()}", "| Operator | Layer or loss | What it does |", "| --- | --- | --- |"]
        for row in rows():
            if registry.get(row["op"]).op.family == family:
                layer = row["layer"] if " " in row["layer"] else f"`{row['layer']}`"
                link = f"[`{row['op']}`](../gluonops/ops/{row['op']}/__init__.py)"
                lines.append(f"| {link} | {layer} | {row['summary']} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def terminal(width: int, names: list[str] | None) -> str:
    """The result of :func:`rows` as text, a paragraph for each row, for a terminal of at least 40 columns."""
    return "\n\n".join(_paragraph(row["op"], {**row, "layer": row["layer"] + row["arguments"]}, HEADINGS, width)
                       for row in rows(names))


def _paragraph(name: str, cells: dict, headings: dict[str, str], width: int) -> str:
    """A name with its summary, and a line for each heading."""
    lines = [f"{name}: {cells['summary']}"]
    for key, heading in headings.items():
        lines += textwrap.wrap(cells[key], max(40, width), initial_indent=f"  {heading:<12}",
                               subsequent_indent=" " * 14)
    return "\n".join(lines)


def replace(text: str, name: str, table: str) -> str:
    """Put a table into Markdown, between its two markers ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    An OpError is raised if the text does not contain each marker once, in the right order.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise OpError("table", f"the text lacks the two lines {begin} and {end}, each once and in this order",
                      "Add these lines to the text")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"
