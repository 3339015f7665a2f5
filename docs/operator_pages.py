"""The operators' pages, from the docstrings of ``gluonops/ops/<operator>`` and the contract.

The module's docstring has the formulas, and the sections ``Sources`` and ``Notes``. The function's has the sentence on
top, the arguments and the example.
"""
from __future__ import annotations

import pathlib
import re
import sys

from gluonops import loss, nn, ops
from gluonops.backends.block import entries, sections
from gluonops.commands import table
from gluonops.contract import registry
from gluonops.contract.op import Indices, Op

PAGE = """\
.. docs/operator_pages.py generates this page from gluonops/ops/{name}/__init__.py and contract.py.

{name}
{line}

.. autofunction:: gluonops.ops.{name}

{formulas}

Example
-------

{example}
{picture}
Arguments
---------

{arguments}

- **Returns** {returns}
- **Raises OpError** {raises}

Rules
-----

{rules}

{blocks}
Sources
-------

{sources}

{notes}
"""
PICTURE = """
.. image:: {name}-light.svg
   :class: only-light
   :alt: {name}, as the next paragraph describes it

.. image:: {name}-dark.svg
   :class: only-dark
   :alt: {name}, as the next paragraph describes it

*{words}*

"""
BLOCK = """\
{title}
{line}

.. autoclass:: {path}
   :no-members:

"""


def write(folder: pathlib.Path, descriptions: dict[str, str]) -> None:
    """Write ``<operator>.rst`` for each operator.

    Parameters
    ----------
    folder : pathlib.Path
    descriptions : dict of str to str
        Operator -> what its picture shows, in words.
    """
    for name in ops.list():
        picture = PICTURE.format(name=name, words=descriptions[name]) if name in descriptions else ""
        (folder / f"{name}.rst").write_text(page(name, picture), encoding="utf-8")


def page(name: str, picture: str) -> str:
    """The reStructuredText of an operator's page."""
    text = sections(sys.modules[f"gluonops.ops.{name}"].__doc__)
    arguments = sections(getattr(ops, name).__doc__)
    _, _, formulas = text[""].partition("\n\n")   # behind the summary, which is the function's as well
    notes = f"Notes\n-----\n\n{text['Notes']}" if "Notes" in text else ""
    raises = content(arguments["Raises"])
    rows = [(f"``{names}``", kind, meaning) for names, kind, meaning in entries(arguments["Parameters"])]
    return PAGE.format(
        name=name, line="=" * len(name), formulas=formulas, example=arguments["Examples"], picture=picture,
        arguments=list_table(("argument", "type", "meaning"), rows),
        returns=content(arguments["Returns"]), raises=f"if {raises[0].lower()}{raises[1:]}",
        rules=list_table(("", ""), rules(registry.get(name).op)), blocks="".join(blocks(name)),
        sources=text["Sources"], notes=notes)


def content(section: str) -> str:
    """The text of a section's only entry."""
    _, _, text = section.partition("\n")
    return " ".join(text.split())


def rules(op: Op) -> list[tuple[str, str]]:
    """What the contract says of gradients, labels, types and backends."""
    row, = table.rows([op.name])
    kept = [f"``{name}``" for name in op.backward if name != "output_grad"]
    found = [("Gradient of", row["gradient"].split(";")[0]),
             ("Head gradient", "honoured" if op.reads_head_gradient else "ignored"),
             ("Kept for backward", ", ".join(kept) or "nothing")]
    if any(attr.name == "ignore_label" for attr in op.attrs):
        found.append(("Ignored labels", "A place with the label ``ignore_label`` has no loss and no gradient."))
    labels = [arg.name for arg in op.inputs if isinstance(arg.values, Indices)]
    if labels:
        found.append(("Invalid labels",
                      f"``{labels[0]}`` holds whole numbers from 0 to the number of classes, less 1. Another label "
                      "makes each loss and gradient that depends on it NaN. A block raises an OpError that names its "
                      "position in its first calls. With ``GLUONOPS_CHECK_LABELS=1`` every call with arrays and "
                      "graphs of the custom and native backends do."))
    if op.accumulate_fp32:
        found.append(("float16", "It is computed in float32. Only a builtin graph of variables with unknown types, and "
                                 "no parameter among them, computes in float16."))
    return [*found, *((table.HEADINGS[key], row[key]) for key in ("dtypes", "backends", "export"))]


def list_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in reStructuredText. Empty headings are left out."""
    has_headings = any(headings)
    lines = [".. list-table::", *(["   :header-rows: 1"] if has_headings else []), ""]
    for row in [headings, *rows] if has_headings else rows:
        lines += [f"   {'  -' if i else '* -'} {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines)


def blocks(name: str) -> list[str]:
    """The reStructuredText for each block of an operator."""
    texts = []
    for module in (nn, loss):
        for block in module.__all__:
            if operator_of(getattr(module, block)) == name:
                title = f"{module.__name__.removeprefix('gluonops.')}.{block}"
                texts.append(BLOCK.format(title=title, line="-" * len(title), path=f"{module.__name__}.{block}"))
    return texts


def operator_of(block: type) -> str | None:
    """The operator whose block this is."""
    match = re.fullmatch(r"gluonops\.ops\.(\w+)\.block", block.__module__)
    return match and match[1]


def say_once(app: object, kind: str, path: str, value: object, options: object, lines: list[str]) -> None:
    """Leave out of a docstring what the operator's page has elsewhere; for Sphinx's ``autodoc-process-docstring``.

    Of a function only the sentence on top stays. Of a block, what is the function's goes.
    """
    if kind == "function" and path.startswith("gluonops.ops.") and value.__name__ in ops.list():
        del lines[lines.index(""):]
    if kind == "class" and operator_of(value):
        lines[:] = value.own_page.splitlines()
