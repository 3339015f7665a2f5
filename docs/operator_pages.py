"""The operators' pages: docstring of the module, picture, function and block."""
from __future__ import annotations

import pathlib

from gluonops import loss, nn, ops

PAGE = """\
.. docs/operator_pages.py generates this page. Its text is the docstring of gluonops/ops/{name}/__init__.py.

{name}
{line}

.. automodule:: gluonops.ops.{name}
   :no-index:
   :no-members:
{picture}
.. autofunction:: gluonops.ops.{name}

{blocks}
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
    return PAGE.format(name=name, line="=" * len(name), picture=picture, blocks="\n".join(blocks(name)))


def blocks(name: str) -> list[str]:
    """The reStructuredText for each block of an operator."""
    texts = []
    for module in (nn, loss):
        for block in module.__all__:
            if getattr(module, block).__module__ == f"gluonops.ops.{name}.block":
                texts.append(f".. autoclass:: {module.__name__}.{block}\n   :no-members:\n")
    return texts
