"""Start an operator: ``make new-op NAME=x``.

Copies the smallest real operator, ``abs``, under the new name: its folder, its test and oracle, its line in the
catalogue and in the CHANGELOG. Formulas, kernel bodies, oracle and documentation are left out, so the new suite fails
until they are written. Either all files are changed or none.
"""
from __future__ import annotations

import argparse
import ast
import keyword
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATE = "abs"

PAGE = '''"""{name}: <fill in: what it does, in a line>.

<fill in: output = formula; the gradient; axes and ranges; what it refuses; its limits>. Source: <fill in: the paper,
or whose operator it follows>.
"""'''
FUNCTION = '''"""<fill in: what it does, in a line>.

    Parameters
    ----------
    data : NDArray or Symbol
        <fill in: shape and dtypes>.
    name : str, optional
        Name of the node in a graph.

    Returns
    -------
    NDArray or Symbol
        <fill in: shape, dtype and gradient>.

    Raises
    ------
    OpError
        <fill in: when>.
    """'''
BLOCK = '''"""<fill in: what it does, in a line>. See :func:`gluonops.ops.{name}`.

    Inputs:
        - **data**: <fill in: shape>.

    Outputs:
        - **out**: <fill in: shape>.
    """'''


UNSUPPORTED = 'unsupported={"kernel.cc": "not written yet"},'


class Refused(Exception):
    """The operator cannot be started; says why and what to do."""


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
    print(f"""To fill:      grep -rnE 'fill in|not written' gluonops/ops/{name} tests/o*/*{name}.py CHANGELOG.md
The suite:    make test PYTEST=tests/ops/test_{name}.py
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
    if (catalogue / "ops" / name).exists() or (ROOT / "tests" / "ops" / f"test_{name}.py").exists():
        raise Refused(f"there is an operator {name!r} already, or what is left of one: gluonops/ops/{name}, "
                      f"tests/ops/test_{name}.py. Choose another name, or remove them")
    for room in ("nn", "loss"):
        if camel(name) in exported((catalogue / room / "__init__.py").read_text(encoding="utf-8")):
            raise Refused(f"there is a gluonops.{room}.{camel(name)} already. Choose another name")


def camel(name: str) -> str:
    """``center_crop`` -> ``CenterCrop``."""
    return "".join(word.capitalize() for word in name.split("_"))


def rename(text: str, name: str) -> str:
    """The template's text under another name: ``abs``, ``abs_forward``, ``test_abs``, ``Abs``, ``TestAbs``."""
    text = re.sub(rf"(?<![A-Za-z0-9]){TEMPLATE}(?![A-Za-z0-9])", name, text)
    return re.sub(rf"(?<![A-Za-z0-9])(Test)?{camel(TEMPLATE)}(?![A-Za-z0-9])", rf"\g<1>{camel(name)}", text)


def scaffold(name: str) -> list[pathlib.Path]:
    """Write everything; returns the files to fill, in the order in which they are best filled."""
    folder, tests, oracles = ROOT / "gluonops" / "ops", ROOT / "tests" / "ops", ROOT / "tests" / "oracles"

    def template(file: str) -> str:
        return rename((folder / TEMPLATE / file).read_text(encoding="utf-8"), name)

    test = rename((tests / f"test_{TEMPLATE}.py").read_text(encoding="utf-8"), name)
    filled = {
        folder / name / "__init__.py": page(template("__init__.py"), name),
        folder / name / "contract.py": contract(template("contract.py"), name),
        tests / f"test_{name}.py": suite(test, name),
        oracles / f"{name}.py": oracle((oracles / f"{TEMPLATE}.py").read_text(encoding="utf-8"), name),
        folder / name / "reference.py": reference(template("reference.py"), name),
        folder / name / "kernel.cu": kernels(template("kernel.cu"), name),
        folder / name / "block.py": block(template("block.py"), name),
    }
    catalogue, changes = ROOT / "gluonops" / "nn" / "__init__.py", ROOT / "CHANGELOG.md"
    edited = {
        catalogue: with_block(catalogue.read_text(encoding="utf-8"), name),
        changes: with_change(changes.read_text(encoding="utf-8"), name),
    }
    (folder / name).mkdir()
    for path, text in {**filled, **edited}.items():
        path.write_text(text, encoding="utf-8")
    return [*filled, changes]


# -- what each file keeps of the template ----------------------------------------------------------------------------
def page(text: str, name: str) -> str:
    text = with_docstring(text, PAGE.format(name=name))
    text = with_docstring(text, FUNCTION, name)
    return re.sub(r" *# pylint:.*", "", text)


def contract(text: str, name: str) -> str:
    text = blank(text, name, "contract.py", "scalars", "elements")
    text = substitute(r"(?m)^(from \.\.\.core\.contract import .*\n)", r"\1from ...core.errors import OpError\n",
                      text, "contract.py")
    text = substitute('summary=".*"', 'summary="<fill in: one line, for the support table>"', text, "contract.py")
    # C++ comes last: until kernel.cc is written and `make native` has run, the operator says that it has none.
    return substitute(r"(?m)^(    cuda=.*\n)", rf"\1    {UNSUPPORTED}\n", text, "contract.py")


def reference(text: str, name: str) -> str:
    lines = blank(text, name, "reference.py", "forward", "backward").splitlines(keepends=True)
    lines.insert(definition(text).body[0].end_lineno, "from ...core.errors import OpError\n")
    return "".join(lines)


def kernels(text: str, name: str) -> str:
    """The two kernels' signatures; the rest of the source is the template's own."""
    signatures = re.findall(r"template <typename T>\n__global__ [^{]*\n\{\n", text)
    if len(signatures) != 2:
        raise Refused(f"kernel.cu of {TEMPLATE} does not look as expected. Adapt tools/new_op.py")
    body = """    for (int64_t i = first_item(); i < size; i += item_step()) {
        // <fill in>
    }
}
"""
    head = (f"// {name}: <fill in: what a thread does, and the bytes that forward and backward move>.\n\n"
            f'#error "gluonops.{name}: kernel.cu is not written yet"\n\n')
    return head + "\n".join(aligned(signature) + body for signature in signatures)


def aligned(signature: str) -> str:
    """The parameters on later lines below those on the first one."""
    template, first, *rest, brace = signature.splitlines()
    indent = " " * (first.index("(") + 1)
    return "\n".join([template, first, *(indent + line.strip() for line in rest), brace, ""])


def block(text: str, name: str) -> str:
    return with_docstring(text, BLOCK.format(name=name), camel(name))


def suite(text: str, name: str) -> str:
    return substitute(r"(?m)^( +)Row\(.*\),$",
                      r'\1Row("fill in", ([1.0],), {}, [float("nan")], [1.0], ([float("nan")],)),', text,
                      f"test_{TEMPLATE}.py")


def oracle(text: str, name: str) -> str:
    text = with_docstring(text, f'"""{name}: <fill in: what it computes, in a line>."""')
    for function in ("forward", "backward"):
        text = substitute(rf"(def {function}\(.*\):\n)    return .*\n",
                          rf'\1    raise AssertionError("{name}: the oracle\'s {function} is not written yet")\n', text,
                          f"tests/oracles/{TEMPLATE}.py")
    return text


# -- editing text ----------------------------------------------------------------------------------------------------
def substitute(pattern: str, replacement: str, text: str, file: str) -> str:
    text, count = re.subn(pattern, replacement, text)
    if not count:
        raise Refused(f"{file} of {TEMPLATE} does not look as expected (no {pattern!r}). Adapt tools/new_op.py")
    return text


def definition(text: str, name: str | None = None) -> ast.Module | ast.FunctionDef | ast.ClassDef:
    """The syntax tree of a module, or of its function or class ``name``."""
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


def blank(text: str, name: str, file: str, *functions: str) -> str:
    """The functions' bodies, each replaced by an error that says where to write it."""
    for function in functions:
        body = definition(text, function).body
        lines = text.splitlines(keepends=True)
        lines[body[0].lineno - 1:body[-1].end_lineno] = [
            f'    raise OpError("{name}", "{function} is not written yet", "Write it in gluonops/ops/{name}/{file}")\n']
        text = "".join(lines)
    return text


def exported(text: str) -> list[str]:
    """The names in ``__all__``."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    raise Refused("a catalogue has no __all__. Restore it first")


def with_block(text: str, name: str) -> str:
    """The catalogue with one more line and name, both in order."""
    imports = re.findall(r"(?m)^from \.\.ops\.\w+\.block import \w+\n", text)
    start = text.index(imports[0])
    if text[start:start + len("".join(imports))] != "".join(imports):
        raise Refused("gluonops/nn/__init__.py: its imports are not one paragraph. Mend that first")
    lines = sorted([*imports, f"from ..ops.{name}.block import {camel(name)}\n"], key=lambda line: line.split()[1])
    text = text.replace("".join(imports), "".join(lines))
    names, all_lines = sorted([*exported(text), camel(name)]), ["__all__ = ["]
    for i, item in enumerate(names):
        piece = f'"{item}"' + ("]" if i == len(names) - 1 else ", ")
        if len(all_lines[-1] + piece.rstrip()) > 120:
            all_lines.append(" " * len("__all__ = ["))
        all_lines[-1] += piece
    return re.sub(r"__all__ = \[[^\]]*\]", "\n".join(line.rstrip() for line in all_lines), text)


def with_change(text: str, name: str) -> str:
    """The CHANGELOG with a line under Unreleased."""
    match = re.search(r"(?m)^## .*Unreleased.*\n+", text)
    if not match:
        raise Refused('CHANGELOG.md has no heading "## Unreleased". Add it first')
    return f"{text[:match.end()]}- Operator `{name}`: <fill in: what it is for>.\n{text[match.end():]}"


if __name__ == "__main__":
    main()
