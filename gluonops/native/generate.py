"""Writes the C++ that follows from the contracts: ``<op>.h`` and ``<op>.cc`` of each operator, and what is compiled.

From ``ops/<op>/contract.py`` follow, in ``<op>.h``, the struct of the attributes and the record of a kernel's
arguments; in ``<op>.cc``, the dispatch over dtypes and instruction sets, and the kernels where the contract names
them; and in ``operators.cc``, the one file that includes lib_api.h, parsing, types, shapes, error conditions, checks of
values and registration. A file ``kernels<i>.cc`` has the constants of several operators, and includes their ``.cc``,
because the compiler needs as long for the headers as for a small operator. A ``kernel.cc`` has the kernels::

    namespace GLUONOPS_ISA { template <typename T> void forward(const XArgs<T> &args); }   // and backward

and, if a derived number is not an expression, outside of that namespace ::

    template <typename T> void derive(const XAttrs &attrs, Arrays inputs, XArgs<T> &args);

Beside it, ``record.inl`` has the structs, if any, that the contract names as types of memory or of derived numbers.

Contracts are read without importing gluonops, which needs MXNet. They only need Python. ``setup.py`` and ``python -m
gluonops.native.build`` run this file. The modules in the folder ``writing`` write one operator.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["generate"]

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
ROOT = "_gluonops_contracts"   # the name under which the package is imported here


def generate(folder: str | os.PathLike, package: pathlib.Path = PACKAGE,
             names: Iterable[str] | None = None) -> list[pathlib.Path]:
    """Write the C++ of every operator that has a ``kernel.cc``, or whose contract names its ``kernels``.

    Parameters
    ----------
    folder : str or Path
        Folder of the files. A file that would not change is not written. Files of other operators are removed.
    package : Path
        Folder of the package with the operators.
    names : iterable of str, optional
        The operators. The default is all of them.

    Returns
    -------
    list of Path
        The ``kernels<i>.cc``. ``operators.cc`` is beside them.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    operators, writing = read(package)
    folders = {op.name: package / "ops" / op.name for op in operators}
    operators = [op for op in operators if (op.kernels or (folders[op.name] / "kernel.cc").is_file())
                 and (names is None or op.name in names)]
    texts = {"operators.cc": registrations({op.name: writing.OperatorTable(op).lines() for op in operators})}
    for op in operators:
        made = writing.Kernels(op, has_structs=(folders[op.name] / "record.inl").is_file())
        texts.update({f"{op.name}.h": made.header(), f"{op.name}.cc": made.source()})
    units = {f"kernels{i}.cc": writing.unit([op for op in operators if op.name in family])
             for i, family in enumerate(families({op.name: family_of(op, folders[op.name]) for op in operators}))}
    texts.update(units)
    for name, text in texts.items():
        _write(folder / name, text)
    for path in folder.iterdir():
        if path.suffix in (".h", ".cc") and path.name not in texts:
            path.unlink()
    return [folder / name for name in units]


def family_of(op: Any, folder: pathlib.Path) -> str | None:
    """Return the folder of the family whose functions an operator's kernels call."""
    if op.kernels:
        return op.kernels.family
    included = re.search(r'#include "\.\./(_\w+)/(?!labels)', (folder / "kernel.cc").read_text(encoding="utf-8"))
    return included and included.group(1)


def families(operators: dict[str, str | None]) -> list[list[str]]:
    """Return the operators of each unit: families as a whole, as many of them as the largest one has operators.

    Operators of a family share a folder of kernels, which the compiler then reads only once. For every unit it reads
    what all kernels include, which takes it a second.
    """
    groups = {}
    for name, family in operators.items():
        groups.setdefault(family, []).append(name)
    units = []
    for group in sorted(groups.values(), key=len, reverse=True):   # the longest compilation first
        room = next((unit for unit in units if len(unit) + len(group) <= len(units[0])), None)
        if room is None:
            units.append(group)
        else:
            room += group
    return units


def registrations(operators: dict[str, list[str]]) -> str:
    """Return the text of ``operators.cc``, from the lines of each operator."""
    return "\n".join([
        "// Written from the contracts by gluonops/native/generate.py: edit those.",
        '#include "native/mxnet/operator.cc"',
        *[f'#include "generated/{name}.h"' for name in operators], "",
        "namespace gluonops {", "",
        *[line for lines in operators.values() for line in [*lines, ""]],
        "}  // namespace gluonops", ""])


def read(package: pathlib.Path = PACKAGE) -> tuple[list[Any], types.ModuleType]:
    """Return the contracts of all operators below ``package``, sorted by name, and the module that writes their C++."""
    with _bare_packages(package):
        names = sorted(path.parent.name for path in (package / "ops").glob("[!_]*/contract.py"))
        operators = [importlib.import_module(f"{ROOT}.ops.{name}.contract").OP for name in names]
        return operators, importlib.import_module(f"{ROOT}.native.writing")


@contextlib.contextmanager
def _bare_packages(package: pathlib.Path) -> Iterator[None]:
    """Make the package importable as ``ROOT`` inside the ``with`` block, without running any ``__init__.py``."""
    folders = {"": package, ".contract": package / "contract", ".ops": package / "ops", ".native": HERE}
    folders.update((f".ops.{path.name}", path) for path in (package / "ops").iterdir() if path.is_dir())
    try:
        for name, folder in folders.items():
            module = types.ModuleType(ROOT + name)
            module.__path__ = [str(folder)]
            sys.modules[module.__name__] = module
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == ROOT]:
            del sys.modules[name]


def _write(path: pathlib.Path, text: str) -> None:
    """Write a file in one step, so that another process never reads half of it. An equal file is left alone."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":   # generate.py FOLDER [OPERATOR ...]
    generate(sys.argv[1], names=sys.argv[2:] or None)
