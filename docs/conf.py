"""The settings of Sphinx. `make docs` builds the pages into docs/_build/html, and operators' pages from docstrings."""
from __future__ import annotations

import pathlib
import sys

import gluonops
from gluonops import loss, nn, ops, table

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "gluonops"
copyright = "the gluonops developers, Apache-2.0"
version = release = gluonops.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "gluonops"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
napoleon_google_docstring = False
autodoc_default_options = {"members": True}
nitpicky = False

OP_PAGE = """\
.. conf.py generates this page. Its text is the docstring of gluonops/ops/{name}/__init__.py.

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


def write_pages(_) -> None:
    """Write a page per operator, the support table, and the pictures into docs/ops."""
    import pictures
    folder = HERE / "ops"
    folder.mkdir(exist_ok=True)
    descriptions = pictures.draw(folder)
    for name in ops.list():
        picture = PICTURE.format(name=name, words=descriptions[name]) if name in descriptions else ""
        page = OP_PAGE.format(name=name, line="=" * len(name), picture=picture, blocks="\n".join(_blocks(name)))
        (folder / f"{name}.rst").write_text(page)
    (folder / "table.txt").write_text(table.sections("ops"))


def _blocks(name):
    """The reStructuredText for each block of an operator."""
    texts = []
    for module in (nn, loss):
        for block in module.__all__:
            if getattr(module, block).__module__ == f"gluonops.ops.{name}.block":
                texts.append(f".. autoclass:: {module.__name__}.{block}\n   :no-members:\n")
    return texts


def setup(app) -> None:
    """Sphinx calls this function before it builds the pages."""
    app.connect("builder-inited", write_pages)
