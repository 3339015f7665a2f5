"""The CUDA source of an operator: the prelude, its family's files, its record, and ``kernel.cu`` if it has one.

A kernel includes only files of its family, such as ``#include "../_softmax/softmax.cuh"``, and its own ``record.inl``.
C++ reads the files named ``.inl`` as well.
"""
from __future__ import annotations

import pathlib
import re

from ..contract import registry
from ..contract.arguments import constants
from ..contract.op import THREADS, WARP, Kernels, Op
from . import record

PRELUDE = pathlib.Path(__file__).with_name("prelude.cuh")
INCLUDE = re.compile(r'(?m)^#include "([^"\n]+)"$')


def sources(op: Op) -> dict[str, str]:
    """Return the text of every file in the CUDA source of an operator, in order.

    These are the prelude, the ``constants``, the family's files, the ``record`` of the arguments, ``kernel.cu`` if the
    operator has one, and the ``kernels`` that fill the record.

    NVRTC cannot include files, so each ``#include`` is resolved here. A file comes once, in front of the files that
    include it. Its name is its path from ``gluonops/ops``. The line of an include stays as an empty line, so that line
    numbers do not change.
    """
    kernel = registry.get(op.name).folder / "kernel.cu"
    numbers = {"THREADS": THREADS, "WARP": WARP, "WARPS": THREADS // WARP, **op.constants}
    family = _of_family(op.kernels, kernel.parents[1]) if op.kernels else _headers(kernel)
    own = {} if op.kernels else {kernel.name: _without_includes(kernel)}
    return {**prelude(), "constants": constants(numbers.items()), **_texts(family), "record": record.declaration(op),
            **own, "kernels": record.kernels(op)}


def _of_family(kernels: Kernels, operators: pathlib.Path) -> list[pathlib.Path]:
    """Return the files with the functions that a contract names, each behind those that it includes."""
    named = [f"{kernels.file}.cuh", *([kernels.shared] if kernels.shared else [])]
    files = [(operators / name).resolve() for name in named]
    return list(dict.fromkeys(header for file in files for header in (*_headers(file), file)))


def prelude() -> dict[str, str]:
    """Return the prelude and the files that it includes."""
    return {**_texts(_headers(PRELUDE)), PRELUDE.name: _without_includes(PRELUDE)}


def _texts(headers: list[pathlib.Path]) -> dict[str, str]:
    return {f"{header.parent.name}/{header.name}": _without_includes(header) for header in headers}


def _headers(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the files that a CUDA file includes, directly or not. Each comes after the files that it includes."""
    headers = []
    for name in INCLUDE.findall(path.read_text()):
        header = (path.parent / name).resolve()
        headers += [*_headers(header), header]
    return list(dict.fromkeys(headers))


def _without_includes(path: pathlib.Path) -> str:
    return INCLUDE.sub("", path.read_text())


def source(op: Op) -> str:
    """Return the complete CUDA source of an operator. The compiler's messages name the original files and lines."""
    return joined(sources(op))


def joined(files: dict[str, str]) -> str:
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in files.items())


def excerpts(files: dict[str, str], message: str, around: int = 2) -> str:
    """Return the lines of the source that a compiler's message names, with their numbers and the lines around them."""
    shown = []
    for file, text in files.items():
        named = {int(number) for number in re.findall(rf"{re.escape(file)}\((\d+)\)", message)}
        near = {other for number in named for other in range(number - around, number + around + 1)}
        lines = [f"{'>' if number in named else ' '}{number:5d}  {line}"
                 for number, line in enumerate(text.splitlines(), 1) if number in near]
        if lines:
            shown += [f"{file}:", *lines]
    return "\n".join([*shown, ""])
