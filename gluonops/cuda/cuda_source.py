"""The CUDA source of an operator: the prelude, its family's files, its record, and ``kernel.cu``.

A kernel includes files of its family (``#include "../_softmax/softmax.cuh"``) and its own ``record.inl`` alone; C++
shares those named ``.inl``.
"""
from __future__ import annotations

import pathlib
import re

from ..contract import registry
from ..contract.arguments import constants
from ..contract.op import THREADS, WARP, Op
from . import record

PRELUDE = pathlib.Path(__file__).with_name("prelude.cuh")
INCLUDE = re.compile(r'(?m)^#include "([^"\n]+)"$')


def sources(op: Op) -> dict[str, str]:
    """The CUDA source of an operator as file -> text: the prelude, the included files, and ``kernel.cu``.

    In front of the family's files are the ``constants``, in front of ``kernel.cu`` the ``record`` of the arguments, and
    behind it the ``kernels`` that fill the record.

    NVRTC cannot include files, so each ``#include`` is resolved here. A file comes once, in front of the files that
    include it. Its name is its path from ``gluonops/ops``. The line of an include stays as an empty line, so that line
    numbers do not change.
    """
    kernel = registry.get(op.name).folder / "kernel.cu"
    numbers = {"THREADS": THREADS, "WARP": WARP, "WARPS": THREADS // WARP, **op.constants}
    files = {**prelude(), "constants": constants(numbers.items()), **_included(kernel)}
    return {**files, "record": record.declaration(op), kernel.name: _without_includes(kernel),
            "kernels": record.kernels(op)}


def prelude() -> dict[str, str]:
    """The prelude and the files that it includes."""
    return {**_included(PRELUDE), PRELUDE.name: _without_includes(PRELUDE)}


def _included(path: pathlib.Path) -> dict[str, str]:
    return {f"{header.parent.name}/{header.name}": _without_includes(header) for header in _headers(path)}


def _headers(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that a CUDA file includes, directly or not. Each comes after the files that it includes."""
    found = []
    for name in INCLUDE.findall(path.read_text()):
        header = (path.parent / name).resolve()
        found += [*_headers(header), header]
    return list(dict.fromkeys(found))


def _without_includes(path: pathlib.Path) -> str:
    return INCLUDE.sub("", path.read_text())


def source(op: Op) -> str:
    """The complete CUDA source of an operator. The compiler's messages have the original files and lines."""
    return joined(sources(op))


def joined(files: dict[str, str]) -> str:
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in files.items())


def excerpts(files: dict[str, str], message: str, around: int = 2) -> str:
    """The lines of the source that a compiler's message names, with their numbers and the lines around them."""
    shown = []
    for file, text in files.items():
        named = {int(number) for number in re.findall(rf"{re.escape(file)}\((\d+)\)", message)}
        near = {other for number in named for other in range(number - around, number + around + 1)}
        lines = [f"{'>' if number in named else ' '}{number:5d}  {line}"
                 for number, line in enumerate(text.splitlines(), 1) if number in near]
        if lines:
            shown += [f"{file}:", *lines]
    return "\n".join([*shown, ""])
