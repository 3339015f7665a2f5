"""The pages of the API reference: a page for each public module, with every public name, from the docstrings.

``make docs`` writes them into ``docs/api``. A name that a module adds to its ``__all__`` needs no work here.
"""
from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
import types

import gluonops

MODULES = [gluonops, gluonops.export.passes,
           *(getattr(gluonops, name) for name in gluonops.__all__ if inspect.ismodule(getattr(gluonops, name)))]
MODULES.sort(key=lambda module: module.__name__)

INDEX = """\
.. docs/reference.py generates this page.

API reference
=============

These pages have every public name. Their text is that of the docstrings, as ``help(gluonops.nn.Reorg)`` prints it.

{rows}

.. toctree::
   :hidden:

{pages}
"""
PAGE = """\
.. docs/reference.py generates this page.

{title}

.. automodule:: {name}
   :no-members:
{operators}
{groups}
"""
LIST = """
.. autosummary::
   :nosignatures:

{rows}
"""
GROUP = """
.. _{source}:

{title}

{summary}.
{listed}
{entries}
"""


def write(folder: pathlib.Path) -> None:
    """Write ``<module>.rst`` for each public module, and ``index.rst``."""
    folder.mkdir(exist_ok=True)
    for module in MODULES:
        (folder / f"{module.__name__}.rst").write_text(page(module), encoding="utf-8")
    rows = [f"- :doc:`{module.__name__}`: {summary(module)}." for module in MODULES]
    pages = [f"   {module.__name__}" for module in MODULES]
    (folder / "index.rst").write_text(INDEX.format(rows="\n".join(rows), pages="\n".join(pages)), encoding="utf-8")


def page(module: types.ModuleType) -> str:
    """The reStructuredText of a module's page."""
    of_operators, groups = [], []
    for source, members in sources(module).items():
        if is_operator(source):
            of_operators += members
        else:
            groups.append(group(module, source, members))
    return PAGE.format(name=module.__name__, title=underlined(module.__name__, "="),
                       operators=listed(module, sorted(of_operators)), groups="\n".join(groups))


def listed(module: types.ModuleType, members: list[str]) -> str:
    """A table of names, which are links, with the first sentences about them."""
    rows = [f"   {name}" for name in members if not is_constant(getattr(module, name))]
    return LIST.format(rows="\n".join(rows)) if rows else ""


def names(module: types.ModuleType) -> list[str]:
    """The public names of a module, without the modules among them, which have pages of their own."""
    return sorted(name for name in module.__all__ if not inspect.ismodule(getattr(module, name)))


def sources(module: types.ModuleType) -> dict[str, list[str]]:
    """The public names of a module, by the name of the module that defines them."""
    found = {}
    for name in names(module):
        found.setdefault(source(module, name), []).append(name)
    return dict(sorted(found.items()))


def source(module: types.ModuleType, name: str) -> str:
    """The name of the module that defines a public name."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__module__
    for other in sorted(sys.modules):   # a constant does not know where it is from
        if other.startswith(f"{module.__name__}.") and name in getattr(sys.modules[other], "__all__", ()):
            return other
    return module.__name__


def is_operator(source: str) -> bool:
    """Whether a module is an operator's, whose page has the entry."""
    return re.match(r"gluonops\.ops\.[a-z]", source) is not None


def group(module: types.ModuleType, source: str, members: list[str]) -> str:
    """The entries of the names from one module."""
    return GROUP.format(listed=listed(module, members), source=source,
                        title=underlined(source.removeprefix("gluonops."), "-"),
                        summary=summary(importlib.import_module(source)),
                        entries="\n".join(entry(module, name) for name in members))


def entry(module: types.ModuleType, name: str) -> str:
    """The directive that turns a name's docstring into its entry."""
    value = getattr(module, name)
    if is_constant(value):
        return f".. py:data:: {module.__name__}.{name}\n\n   {constant(value)}\n"
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, Exception) else "autoclass"
    else:
        kind = "autofunction"
    return f".. {kind}:: {module.__name__}.{name}\n"


def is_constant(value: object) -> bool:
    """Whether a value has no docstring of its own, only that of its type."""
    return not (inspect.isclass(value) or inspect.isroutine(value))


def constant(value: object) -> str:
    """A sentence about a constant."""
    if isinstance(value, dict):
        return f"A dict with the keys {', '.join(f'``{key!r}``' for key in value)}."
    if type(value) in (str, tuple):
        return f"``{value!r}``"
    return f"A :class:`{type(value).__name__}`."


def summary(module: types.ModuleType) -> str:
    """What a module is for: the first sentence of its docstring."""
    first = re.split(r"\.(?:\s|$)", inspect.getdoc(module))[0]
    return " ".join(first.split())


def link_parts(app: object, kind: str, path: str, value: object, options: object, lines: list[str]) -> None:
    """Let a module's docstring link to the groups of its page; for Sphinx's ``autodoc-process-docstring``."""
    if kind == "module":
        lines[:] = [re.sub(rf":mod:`~({re.escape(path)}\.(\w+))`", r":ref:`\2 <\1>`", line) for line in lines]


def underlined(title: str, line: str) -> str:
    """A heading."""
    return f"{title}\n{line * len(title)}"
