"""The settings of Sphinx. `make docs` generates pages, and builds all into docs/_build."""
from __future__ import annotations

import logging
import pathlib
import re
import sys

import gluonops
import latex2mathml.converter
from docutils import nodes
from gluonops.version import REPOSITORY
from sphinx.application import Sphinx

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "gluonops"
copyright = "the gluonops developers, Apache-2.0"
version = release = gluonops.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton",
              "sphinx_design"]
html_theme = "furo"
html_title = f"gluonops {release}"
html_logo = html_favicon = "static/logo.svg"
html_theme_options = {}
if REPOSITORY:
    html_theme_options = {
        "source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/",
        "footer_icons": [{"name": "Repository", "url": REPOSITORY, "html": "Repository", "class": ""}],
    }
html_static_path = ["static"]
html_css_files = ["gluonops.css"]
html_copy_source = False
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
napoleon_google_docstring = False
napoleon_use_ivar = True   # else an attribute has two entries: this one, and its own
autodoc_default_options = {"members": True, "exclude-members": "hybrid_forward"}   # MXNet alone calls it
autosummary_generate = False   # reference.py writes the pages
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"   # a signature has the defaults; the docstring says the types
html_math_renderer = "mathml"   # see typeset_line: browsers show it without a script, and without a network
LONGEST_WORD = 30   # characters of code that stay in one line, also on a phone
GENERATED = ("ops/", "api/")   # pages without a source to edit
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
nitpicky = False


def write_pages(app: Sphinx) -> None:
    """Write a page for each operator and its pictures into docs/ops, pictures of other pages into docs/drawn, and the
    reference into docs/api."""
    import guide_pictures
    import operator_pages
    import pictures
    import reference
    logging.getLogger().setLevel(logging.WARNING)   # a package of the theme prints what MXNet logs
    reference.write(HERE / "api")
    pictures.draw(HERE / "drawn", guide_pictures.PICTURES)
    guide_pictures.draw_folding(HERE / "drawn")
    guide_pictures.draw_replacing(HERE / "drawn")
    operator_pages.write(HERE / "ops", pictures.draw(HERE / "ops", pictures.PICTURES))


def skip_field(app: object, kind: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Skip the fields of named tuples: the class's docstring describes them. None leaves the rest to autodoc."""
    is_field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return True if is_field else None


def name_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the repository's address into the commands that clone it."""
    if REPOSITORY:
        source[0] = source[0].replace("<this repository>", REPOSITORY)


def link_to_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Let the table of operators link to their pages; on a code host it links to the docstrings."""
    source[0] = re.sub(r"\(\.\./gluonops/ops/(\w+)/__init__\.py\)", r"(ops/\1.rst)", source[0])


def link_to_source(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Leave the link for editing away where a page has no source; the theme shows it for a page with a suffix."""
    if page.startswith(GENERATED):
        context["page_source_suffix"] = ""


def keep_names_whole(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Mark short code, which the style sheet keeps in one line: a browser would break it behind a hyphen."""
    for code in doctree.findall(nodes.literal):
        if len(code.astext()) <= LONGEST_WORD:
            code["classes"].append("whole")


def typeset_inline(page: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write a formula of a sentence as MathML."""
    page.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def typeset_line(page: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """Write formulas on lines of their own as MathML; a blank line is between two."""
    for formula in node.astext().split("\n\n"):
        page.body.append(f'<div class="formula">{latex2mathml.converter.convert(formula, display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Sphinx calls this function before it builds the pages."""
    import operator_pages
    import reference
    app.connect("builder-inited", write_pages)
    app.connect("source-read", name_repository)
    app.connect("source-read", link_to_pages)
    app.connect("doctree-resolved", keep_names_whole)
    app.connect("html-page-context", link_to_source)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("autodoc-process-docstring", operator_pages.say_once, priority=400)   # It runs before napoleon.
    app.connect("autodoc-process-docstring", reference.link_parts)
    app.add_html_math_renderer("mathml", (typeset_inline, None), (typeset_line, None))
