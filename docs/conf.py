"""Sphinx: `make docs` builds the pages into docs/_build/html. The operators' pages are their docstrings."""
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
.. This page is made by conf.py; the words are in gluonops/ops/{name}/__init__.py.

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


def write_pages(_):
    """A page per operator, what each supports, and the pictures, from the code as it is."""
    import pictures
    folder = HERE / "ops"
    folder.mkdir(exist_ok=True)
    drawn = pictures.draw(folder)
    for name in ops.list():
        blocks = [f".. autoclass:: {space.__name__}.{block}\n   :no-members:\n" for space in (nn, loss)
                  for block in space.__all__ if getattr(space, block).__module__ == f"gluonops.ops.{name}.block"]
        picture = PICTURE.format(name=name, words=drawn[name]) if name in drawn else ""
        (folder / f"{name}.rst").write_text(OP_PAGE.format(
            name=name, line="=" * len(name), picture=picture, blocks="\n".join(blocks)))
    (folder / "table.txt").write_text(table.sections("ops"))


def setup(app):
    app.connect("builder-inited", write_pages)
