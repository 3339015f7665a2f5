"""Start an operator: ``make new-op NAME=x``.

It writes the files of a typical operator, ``hard_swish``, under the new name and without its formulas: its folder, the
folder of its test and oracle, its line in the catalogue and in the CHANGELOG. What is written compiles, and the new
suite fails until it is filled in. Either all files are changed or none.
"""
from __future__ import annotations

import argparse
import ast
import keyword
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATE = "hard_swish"

PAGE = '''r"""{name}: <fill in: what it does, in a line>.

.. math::

    y = x \\qquad \\frac{{\\partial L}}{{\\partial x}} = g

<fill in: the formulas above, with the head gradient g; axes and ranges>.

Sources
-------
<fill in: the paper, or whose operator it follows>.

Notes
-----
<fill in: its limits; work, in bytes>.
"""'''
FUNCTION = '''"""<fill in: what it does, in a line>.

    Examples
    --------
    >>> <fill in: a use, and below it what it prints>
    """'''
CONTRACT = '''"""The contract of ``{name}``."""
from __future__ import annotations

from ...contract.errors import OpError
from ...contract.op import FLOATS, INTEGERS, Arg, Cuda, Launch, Op, Out, Shapes


def launch(args) -> Launch:
    """<fill in: what a thread or a block of a CUDA kernel takes>."""
    raise OpError("{name}", "launch is not written yet", "Write it in gluonops/ops/{name}/contract.py")


OP = Op(
    name="{name}",
    summary="<fill in: one line, for the support table>",
    family="activations",   # <fill in: one of contract.op.FAMILIES>
    inputs=(Arg("data", "T"),),
    outputs=(Out("output", "T", "shape of data"),),
    attrs=(),
    types={{"T": FLOATS + INTEGERS}},
    shapes=Shapes(data="...", output="..."),
    derived={{"size": "data.size"}},
    backward=("output_grad", "data"),
    cuda=Cuda(forward=launch, backward=launch),
)
'''
ORACLE = '''"""{name}: <fill in: what it computes, in a line>. Source: <fill in>."""


def forward(attrs, data):
    raise NotImplementedError("{name}: the oracle's forward is not written yet")


def backward(attrs, head, data):
    raise NotImplementedError("{name}: the oracle's backward is not written yet")
'''
SUITE = """from op_suite import Bad, Case, OpSuite, Row


class Test{block}(OpSuite):
    name = "{name}"
    cases = (Case("matrix", ((3, 4),)), Case("prime", ((7, 149),)), Case("one", ((1,),)))
    empty = Case("empty", ((0, 3),))
    table = (
        Row("fill_in", ([1.0],), {{}}, [float("nan")], [1.0], ([float("nan")],)),   # <fill in: worked out by hand>
    )
    errors = (
        Bad("attribute", ((2,),), {{"axis": 1}}, "'axis' is not an attribute; this operator takes none", spelled=False),
    )
    determined = (({{"output": (2, 3)}}, {{}}, {{"data": (2, 3), "output": (2, 3)}}),)
"""
REFERENCE = '''"""``{name}`` and its gradient, computed with MXNet's own operators."""
from __future__ import annotations

from ...backends.emitter import Array
from ...contract.errors import OpError


def forward(F, attrs, data: Array) -> Array:
    raise OpError("{name}", "forward is not written yet", "Write it in gluonops/ops/{name}/reference.py")


def backward(nd, attrs, shapes, output_grad, data) -> dict:
    raise OpError("{name}", "backward is not written yet", "Write it in gluonops/ops/{name}/reference.py")
'''
KERNEL_CU = """// {name}: <fill in: what a thread does, and the bytes that forward and backward move>.

template <typename T>
__device__ void forward(const {block}Args<T> &args)
{{
    for (int64_t i = first_item(); i < args.size; i += item_step())
        store(args.output, i, load(args.data, i), args.output_request);   // <fill in>
}}

template <typename T>
__device__ void backward(const {block}Args<T> &args)
{{
    for (int64_t i = first_item(); i < args.size; i += item_step())
        store(args.data_grad, i, load(args.output_grad, i), args.data_grad_request);   // <fill in>
}}
"""
KERNEL_CC = """// {name} on the CPU: <fill in: the bytes that forward and backward move>.
#include "generated/{name}.h"
#include "../../native/kernel.h"
#include "../../native/mxnet/refusal.h"

namespace gluonops::GLUONOPS_ISA {{
namespace {{

template <typename T>
void forward(const {block}Args<T> &args)
{{
    refuse("{name}", "kernel.cc is not written yet",
           "Write it in gluonops/ops/{name}/kernel.cc, and remove this line");
    const T *data = args.data;
    T *output = args.output;
    parallel_for(args.size, 2 * sizeof(T), [=](int64_t begin, int64_t end) {{
        for (int64_t i = begin; i < end; ++i)
            output[i] = data[i];   // <fill in>
    }});
}}

template <typename T>
void backward(const {block}Args<T> &args)
{{
    refuse("{name}", "kernel.cc is not written yet",
           "Write it in gluonops/ops/{name}/kernel.cc, and remove this line");
    const T *output_grad = args.output_grad;
    T *data_grad = args.data_grad;
    parallel_for(args.size, 2 * sizeof(T), [=](int64_t begin, int64_t end) {{
        for (int64_t i = begin; i < end; ++i)
            data_grad[i] = output_grad[i];   // <fill in>
    }});
}}

}}  // namespace
}}  // namespace gluonops::GLUONOPS_ISA
"""


class Refused(Exception):
    """The operator cannot be started. The text says why, and what to do."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="new_op.py", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="in snake_case, as in gluonops.ops.<name>")
    name = parser.parse_args().name
    try:
        check(name)
        written = scaffold(name)
    except Refused as error:
        sys.exit(f"new-op: {error}")
    print(f"Started {name}. Its tests fail until these are filled, best in this order (CONTRIBUTING.md says how):")
    for path in written:
        print(f"  {path.relative_to(ROOT)}")
    print(f"""To fill:      grep -rnE 'fill in|not written' gluonops/ops/{name} tests/ops/{name} CHANGELOG.md
The suite:    make native test PYTEST=tests/ops/{name}
Then:         make table test lint""")


def check(name: str) -> None:
    """Refuse a name that cannot be an operator's."""
    example = "Choose one in snake_case, for instance: make new-op NAME=center_crop"
    if not name:
        raise Refused(f"the name is missing. {example}")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise Refused(f"{name!r} is not in snake_case (small letters, digits, single underscores). {example}")
    if keyword.iskeyword(name) or name == "list":
        raise Refused(f"{name!r} is taken by {'Python' if keyword.iskeyword(name) else 'gluonops.ops.list'}. {example}")
    catalogue = ROOT / "gluonops"
    if (catalogue / "ops" / name).exists() or (ROOT / "tests" / "ops" / name).exists():
        raise Refused(f"there is an operator {name!r} already, or what is left of one: gluonops/ops/{name}, "
                      f"tests/ops/{name}. Choose another name, or remove them")
    for room in ("nn", "loss"):
        if camel(name) in exported((catalogue / room / "__init__.py").read_text(encoding="utf-8")):
            raise Refused(f"there is a gluonops.{room}.{camel(name)} already. Choose another name")


def camel(name: str) -> str:
    """Return a name in camel case: ``CenterCrop`` for ``center_crop``."""
    return "".join(word.capitalize() for word in name.split("_"))


def rename(text: str, name: str) -> str:
    """Return a text of the template under another name: ``test_hard_swish``, ``HardSwishArgs``, ``TestHardSwish``."""
    text = re.sub(rf"(?<![A-Za-z0-9]){TEMPLATE}(?![A-Za-z0-9])", name, text)
    return re.sub(rf"(?<![A-Za-z0-9])(Test)?{camel(TEMPLATE)}(?![a-z0-9])", rf"\g<1>{camel(name)}", text)


def scaffold(name: str) -> list[pathlib.Path]:
    """Write everything, and return the files to fill, in the order in which they are best filled."""
    folder = ROOT / "gluonops" / "ops" / name
    tests = ROOT / "tests" / "ops" / name
    texts = {
        tests / "oracle.py": ORACLE,
        tests / f"test_{name}.py": SUITE,
        folder / "contract.py": CONTRACT,
        folder / "__init__.py": page(name),
        folder / "reference.py": REFERENCE,
        folder / "kernel.cu": KERNEL_CU,
        folder / "kernel.cc": KERNEL_CC,
        folder / "block.py": block(name),
    }
    started = {path: text.format(name=name, block=camel(name)) for path, text in texts.items()}
    catalogue, changes = ROOT / "gluonops" / "nn" / "__init__.py", ROOT / "CHANGELOG.md"
    edited = {
        catalogue: with_block(catalogue.read_text(encoding="utf-8"), name),
        changes: with_change(changes.read_text(encoding="utf-8"), name),
    }
    folder.mkdir()
    tests.mkdir()
    for path, text in {**started, **edited}.items():
        path.write_text(text, encoding="utf-8")
    return [*started, changes]


# -- what is copied --------------------------------------------------------------------------------------------------
def page(name: str) -> str:
    """Return the text of ``__init__.py``, with a form for each docstring."""
    return with_docstring(with_docstring(template("__init__.py", name), PAGE), FUNCTION, name)


def block(name: str) -> str:
    return with_docstring(template("block.py", name), '"""<fill in: what it does, in a line>."""', camel(name))


def template(file: str, name: str) -> str:
    """Return a file of the template under the new name."""
    return rename((ROOT / "gluonops" / "ops" / TEMPLATE / file).read_text(encoding="utf-8"), name)


# -- editing text ----------------------------------------------------------------------------------------------------
def definition(text: str, name: str | None = None) -> ast.AST:
    """Return the syntax tree of a module, or of its function or class ``name``."""
    tree = ast.parse(text)
    if name is None:
        return tree
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    raise Refused(f"{TEMPLATE} defines no {name}. Adapt tools/new_op.py")


def with_docstring(text: str, docstring: str, name: str | None = None) -> str:
    old = definition(text, name).body[0]
    lines = text.splitlines(keepends=True)
    lines[old.lineno - 1:old.end_lineno] = [" " * old.col_offset + docstring + "\n"]
    return "".join(lines)


def exported(text: str) -> list[str]:
    """Return the names that a catalogue exports: ``import X as X``."""
    return re.findall(r"(?m)^from \S+ import (\w+) as \1$", text)


def with_block(text: str, name: str) -> str:
    """Return the catalogue with a line for the block, in order."""
    imports = re.findall(r"(?m)^from \.\.ops\.\S+ import \w+ as \w+\n", text)
    if not imports or "".join(imports) not in text:
        raise Refused("gluonops/nn/__init__.py: its imports are not one paragraph. Mend that first")
    lines = sorted([*imports, f"from ..ops.{name}.block import {camel(name)} as {camel(name)}\n"])
    return text.replace("".join(imports), "".join(lines))


def with_change(text: str, name: str) -> str:
    """Return the CHANGELOG with a line under Unreleased, a heading that the first change after a release begins."""
    newest = re.search(r"(?m)^## .*\n", text)
    if not newest:
        raise Refused('CHANGELOG.md has no heading "## Unreleased". Add it first')
    change = f"- Operator `{name}`: <fill in: what it is for>.\n"
    if "Unreleased" in newest.group():
        return f"{text[:newest.end()]}{change}{text[newest.end():]}"
    return f"{text[:newest.start()]}## Unreleased\n{change}\n{text[newest.start():]}"


if __name__ == "__main__":
    main()
