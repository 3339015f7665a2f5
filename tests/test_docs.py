"""The pages' examples run, as they stand there, page by page, and print what the page says."""
import ast
import collections
import doctest
import functools
import inspect
import json
import os
import pathlib
import re
import runpy
import shlex
from typing import NamedTuple

import fresh
import gluonops as gops
import pytest
import test_printed_commands
from docutils import nodes
from gluonops.backends.block import OpBlock, entries, sections
from gluonops.commands import cli
from gluonops.ops._boxes.contract import FORMAT
from gluonops.ops._labels.contract import IGNORE

DOCS = pathlib.Path(__file__).parents[1] / "docs"
PAGES = {page.relative_to(DOCS).with_suffix("").as_posix(): page.read_text(encoding="utf-8")
         for page in [*sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("tutorials/*.md"))]}
FENCE = re.compile(r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?::caption: (?P<file>\S+)\n\n?)?"
                   r"(?P<text>.*?)^```$(?:\n+```text\n(?P<printed>.*?)^```$)?", re.M | re.S)
END_OF_BLOCK = "----- end of block -----"


class Block(NamedTuple):
    """A block of code; a ``text`` block right after it is what it prints, a caption is the name of its file."""
    language: str
    file: str
    text: str
    printed: str


def blocks(page, language=None):
    """The blocks of a page, in their order."""
    found = [Block(**{key: value or "" for key, value in match.groupdict().items()})
             for match in FENCE.finditer(PAGES[page])]
    return [block for block in found if language in (None, block.language)]


def code(page):
    """A page's Python, which tells where a block ends."""
    return "".join(f"{block.text}print({END_OF_BLOCK!r})\n" for block in blocks(page, "python"))


# What a training exports is compared in Module alone, as in typed.py. A page runs behind these lines.
IN_MODULE = """
from gluonops.train import exporting
exporting._fresh_process = exporting._module
"""


def run(page, folder):
    """Run a page's code in this folder, where its files are. It may train a port, which takes torch."""
    if re.search(r"^import torch$", code(page), re.M):
        pytest.importorskip("torch")
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
    emulator, compiler = pathlib.Path(__file__).parent / "cuda", folder / "compiler"
    # A page that compiles C++ takes the compiler of CXX. Here it does not optimize, which takes most of its time.
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "g++")} "$@" -O0\n')
    compiler.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(emulator), "CXX": str(compiler)}
    before = IN_MODULE if "export_and_check" in code(page) else ""
    return fresh.python("-c", before + code(page), cwd=folder, env=environment)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A function that returns the folder that a page ran in. A page runs once for all tests."""
    @functools.cache
    def folder_and_end(page):
        folder = tmp_path_factory.mktemp("page")
        return folder, run(page, folder)
    return folder_and_end


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_examples(page, ran):
    _, done = ran(page)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{END_OF_BLOCK}\n")
    for block, output in zip(blocks(page, "python"), printed):
        if block.printed:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert doctest.OutputChecker().check_output(block.printed, output, flags), (
                f"{block.text}\nprints\n\n{output}\nand the page says\n\n{block.printed}")


DRAWS = {   # what draws random numbers, and what makes them the same in every run
    r"shuffle=True|np\.random\.(?:rand|randn|randint)\b": r"np\.random\.seed\(|set_seeds\(",
    r"\.initialize\(|\.init_params\(": r"mx\.random\.seed\(|set_seeds\("}


def prints_an_accuracy(page):
    return any("accuracy" in block.printed for block in blocks(page, "python"))


@pytest.mark.parametrize("page", [page for page in PAGES if prints_an_accuracy(page)])
def test_an_accuracy_is_the_same_in_every_run(page):
    """MXNet and NumPy draw apart: Gluon draws parameters with the one, and its DataLoader shuffles with the other."""
    for draw, seed in DRAWS.items():
        assert not re.search(draw, code(page)) or re.search(seed, code(page)), f"{draw} without {seed}"


def without_numbers(text):
    """A text without what depends on the processor: numbers, and which gradient differs most."""
    return re.sub(r"\d[\d.e-]*", "X", re.sub(r"the gradient of [\w.]+", "the gradient of Y", text))


@pytest.mark.parametrize("page", ["exporting", "there_and_back"])
def test_what_commands_print(page, ran, tmp_path, monkeypatch, capfd):
    """It is what the page shows behind them, but for the numbers."""
    if page == "exporting":
        folder = tmp_path
        test_printed_commands.resnet(folder / "resnet")
    else:
        folder, done = ran(page)
        assert done.returncode == 0, done.stderr
    monkeypatch.chdir(folder)
    shown = [block for block in blocks(page, "sh") if block.printed]
    assert shown
    for block in shown:
        capfd.readouterr()
        for line in block.text.splitlines():
            assert cli.main(shlex.split(line, comments=True)[1:]) == 0
        assert without_numbers(capfd.readouterr().out) == without_numbers(block.printed)


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"], indirect=True)
@pytest.mark.parametrize("name", gops.ops.list())
def test_the_example_of_an_operator(name, backend):
    """It prints in every backend what the operator's page says."""
    text = inspect.getdoc(getattr(gops.ops, name)).split("\nExamples\n--------\n")[1]
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    statements = [line for one in example.examples for line in one.source.splitlines()]
    assert 5 <= len(statements) <= 10 and example.examples[-1].want, "five to ten lines, and what they print"
    report = []
    with gops.backend(backend):
        assert doctest.DocTestRunner(verbose=False).run(example, out=report.append).failed == 0, "".join(report)


@pytest.fixture
def docs(monkeypatch):
    """Lets a test import the modules that make the pages."""
    monkeypatch.syspath_prepend(str(DOCS))


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_pictures(docs, tmp_path, monkeypatch, step):
    """Pictures have no background, and ink that fits the theme. Some are enough for every day."""
    import guide_pictures
    import pictures
    monkeypatch.setattr(pictures, "INK", {"dark": "#abcdef"})
    monkeypatch.setattr(guide_pictures, "EPOCHS", 1)
    assert set(pictures.PICTURES) <= set(gops.ops.list())
    drawn = {**pictures.PICTURES, **guide_pictures.PICTURES}
    words = pictures.draw(tmp_path, dict(list(drawn.items())[::step]))
    assert all(len(text) > 60 for text in words.values())
    for name in words:
        picture = (tmp_path / f"{name}-dark.svg").read_text(encoding="utf-8")
        background = picture.split('id="patch_1"')[1].split("</g>")[0]
        assert "#abcdef" in picture and "fill: none" in background


def test_pictures_of_a_net_before_and_after_folding(docs, tmp_path):
    import guide_pictures
    guide_pictures.draw_folding(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net-folded.svg", "net.svg"]
    before, after = ((tmp_path / name).read_text(encoding="utf-8") for name in ("net.svg", "net-folded.svg"))
    assert before.count("BatchNorm") == 2 and "BatchNorm" not in after
    assert before.count("Convolution") == after.count("Convolution") == 2


def test_pictures_of_a_net_before_and_after_replacing(docs, tmp_path):
    import guide_pictures
    guide_pictures.draw_replacing(tmp_path)
    before, after = ((tmp_path / name).read_text(encoding="utf-8").lower() for name in ("net-relu.svg", "net-mish.svg"))
    assert "relu" in before and "mish" not in before
    assert "relu" not in after and after.count("mish") >= 2
    assert before.count("convolution") == after.count("convolution") == 2


def test_the_reference_has_every_public_name(docs, tmp_path):
    """Its entry is on its module's page; or for an operator's function and block, on the operator's page."""
    import operator_pages
    import reference
    reference.write(tmp_path)
    entries = "".join(page.read_text(encoding="utf-8") for page in tmp_path.glob("*.rst"))
    entries += "".join(operator_pages.page(name, "") for name in gops.ops.list())
    found = set(re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", entries, re.M))
    for module in (gops, gops.models, gops.data, gops.export, gops.export.passes, gops.darknet, gops.files, gops.legacy,
                   gops.loss, gops.nn, gops.ops, gops.train):
        missing = {f"{module.__name__}.{name}" for name in module.__all__} - found
        assert not {name for name in missing if not (tmp_path / f"{name}.rst").exists()}


@pytest.mark.parametrize("block", [getattr(room, name) for room in (gops.nn, gops.loss) for name in room.__all__
                                   if "own_page" in vars(getattr(room, name))])
def test_help_of_a_block_has_what_the_function_says(block):
    """It has each argument of the constructor with its default, each input, the output and the errors."""
    page = sections(block.__doc__)
    found = entries(page.get("Parameters", ""))
    documented = {name: kind for names, kind, _ in found for name in names.split(", ")}
    for name, parameter in inspect.signature(block).parameters.items():
        if name not in ("kwargs", "options", "prefix", "params"):
            expected = {None: "optional", inspect.Parameter.empty: ""}.get(parameter.default, "default")
            assert expected in documented[name]
            if expected == "default":
                assert ast.literal_eval(documented[name].split("default ")[1]) == parameter.default
    assert all(page["Inputs"].count(f"- **{name}**: ") == 1 for name in block_inputs(block))
    assert page["Outputs"] and page["Raises"] and f":func:`gluonops.ops.{block._op.name}`" in page[""]


def block_inputs(block):
    if block.hybrid_forward is OpBlock.hybrid_forward:
        return [argument.name for argument in block._op.inputs]
    _, _, *names = inspect.signature(block.hybrid_forward).parameters
    return [name for name in names if name not in block._learned]


def test_a_block_says_only_what_the_function_does_not(docs):
    import operator_pages
    lines = inspect.getdoc(gops.loss.OHEM).splitlines()
    operator_pages.say_once(None, "class", "gluonops.loss.OHEM", gops.loss.OHEM, None, lines)
    text = "\n".join(lines)
    assert re.findall(r"^(\w+) : ", text, re.M) == ["loss"] and "Raises" not in text and "See :func:" not in text
    assert "Inputs:" in text and "those of ``loss``" in text


def test_the_contract_says_how_float16_is_computed(docs):
    import operator_pages
    assert "- It is computed in float32." in operator_pages.page("mish", "")
    assert "computed in float32" not in operator_pages.page("abs", "")


def test_the_contract_describes_inputs_and_output():
    page = sections(gops.ops.dice_loss.__doc__)
    described = {names: (kind, meaning) for names, kind, meaning in entries(page["Parameters"])}
    assert described["label"] == ("NDArray or Symbol", "Class indices, (batch, ...), in any float or integer dtype.")
    assert list(described) == ["data", "label", "ignore_label", "smooth", "squared", "name"]
    assert "Loss per sample and class, (batch, classes); the dtype of ``data``." in page["Returns"]
    assert described["ignore_label"] == ("int, optional", IGNORE.doc)
    page = sections(gops.ops.iou_loss.__doc__)
    assert ("format", "{'corner', 'center'}, default 'corner'", FORMAT.doc) in entries(page["Parameters"])
    page = sections(gops.ops.abs.__doc__)
    assert "Any shape; float16, float32, float64, uint8, int8, int32 or int64." in page["Parameters"]
    assert "The shape and dtype of ``data``." in page["Returns"]
    page = sections(gops.ops.softmax_cross_entropy.__doc__)
    assert "Loss per row, the shape of ``data`` without ``axis``; the dtype of ``data``." in page["Returns"]


def test_an_operator_s_page_says_what_backward_reads(docs):
    import operator_pages
    assert "* - Kept for backward\n     - ``data``\n" in operator_pages.page("mish", "")
    assert "* - Kept for backward\n     - nothing\n" in operator_pages.page("reorg", "")


def test_the_reference_has_no_notes_for_maintainers(docs):
    import reference
    for module in reference.MODULES:
        assert "A line here" not in reference.page(module)
        assert "A line here" not in inspect.getdoc(module)


def test_the_reference_groups_the_names_of_a_module(docs):
    """Each name of ``gluonops.train`` is listed once, under the part that defines it."""
    import reference
    text = reference.page(gops.train)
    listed = re.findall(r"^   (\w+)$", text, re.M)
    assert sorted(listed) == [name for name in reference.names(gops.train)
                              if not reference.is_constant(getattr(gops.train, name))]
    group = text.split("\ntrain.fitting\n")[1].split("\ntrain.image_sets\n")[0]
    assert re.findall(r"^   (\w+)$", group, re.M) == ["fit_classifier", "predict_logits", "split_batches"]


def test_the_parts_of_a_module_are_links(docs):
    """They lead from its docstring to the groups of its page. ``make docs`` fails where a link leads nowhere."""
    import reference
    lines = inspect.getdoc(gops.train).splitlines()
    reference.link_parts(None, "module", "gluonops.train", gops.train, None, lines)
    linked = re.findall(r":ref:`\w+ <(\S+)>`", "\n".join(lines))
    assert len(linked) > 12 and ":mod:" not in "\n".join(lines)
    assert set(linked) <= set(re.findall(r"^\.\. _(\S+):$", reference.page(gops.train), re.M))


def test_a_class_is_on_one_page_and_shares_its_name_with_none(docs):
    """Sphinx cannot tell two of one name apart, and `make docs` fails."""
    import reference
    classes = [getattr(module, name) for module in reference.MODULES for name in reference.names(module)
               if inspect.isclass(getattr(module, name))]
    counts = collections.Counter(entry.__name__ for entry in classes)
    assert {name for name, count in counts.items() if count > 1} == set()


def test_the_gallery_shows_every_example():
    scripts = {path.stem for path in (DOCS.parent / "examples").glob("[!_]*.py")}
    assert {name for name in scripts if f"`{name}.py`" not in PAGES["gallery"]} == set()
    pictures = set(re.findall(r"\]\((gallery/\S+\.png)\)", PAGES["gallery"]))
    assert pictures == {f"gallery/{path.name}" for path in DOCS.glob("gallery/*.png")}
    assert all((DOCS / picture).stat().st_size < 300_000 for picture in pictures)


def test_python_fits_its_column():
    """90 characters are as wide as the text of a page. A shell's lines may be longer: they wrap."""
    wide = [line for page in PAGES for block in blocks(page, "python") for line in block.text.splitlines()
            if len(line) > 90]
    assert not wide
    css = (DOCS / "static" / "gluonops.css").read_text(encoding="utf-8")
    assert re.search(r"pre[^{]*\{[^}]*white-space: pre-wrap", css)


def test_short_code_stays_in_one_line(docs):
    """Sphinx's theme lets code break anywhere, and a browser breaks it behind a hyphen."""
    settings = runpy.run_path(str(DOCS / "conf.py"))
    names = ["finetune_detector.py", "--dataset", "gops.models.tiny_yolov2(width=0.5, ...)"]
    page = nodes.paragraph("", "", *(nodes.literal("", name) for name in names))
    settings["keep_names_whole"](None, page, "")
    assert ["whole" in code["classes"] for code in page] == [True, True, False]
    css = (DOCS / "static" / "gluonops.css").read_text(encoding="utf-8")
    assert re.search(r"article code\.whole {\s*white-space: nowrap", css)


@pytest.mark.filterwarnings("ignore:The 'wheel' package:FutureWarning")   # setuptools before 70.1 gives it.
@pytest.mark.parametrize("address", ["", "https://github.com/OWNER/gluonops"])
def test_the_repository_is_one_setting(address, monkeypatch):
    """The pages and the metadata derive their links from it, and have none while it is empty."""
    monkeypatch.setattr("gluonops.version.REPOSITORY", address)
    settings = runpy.run_path(str(DOCS / "conf.py"))
    page = [PAGES["install"]]
    settings["name_repository"](None, "install", page)
    assert f"git clone {address or '<this repository>'} gluonops" in page[0]
    assert settings["html_theme_options"].get("source_repository", "") == address
    run_path, options = runpy.run_path, {}
    monkeypatch.setattr(runpy, "run_path", lambda path: {
        **run_path(path), **({"REPOSITORY": address} if path.endswith("version.py") else {})})
    monkeypatch.setattr("setuptools.setup", lambda **given: options.update(given))
    monkeypatch.chdir(DOCS.parent)
    run_path("setup.py")
    assert list(options["project_urls"].values()) == [address] * bool(address)
    assert options["version"] == gops.__version__


def test_the_tables_of_pages_are_up_to_date():
    """A reader on a code host sees them: they stand in the pages."""
    pages = runpy.run_path(str(DOCS.parent / "tools" / "table.py"))["written"]()
    named = ("ops", "zoo", "converters", "darknet", "install", "reliability", "performance")
    assert {"README.md", *(f"docs/{name}.md" for name in named)} <= set(pages)
    old = [page for page, text in pages.items() if text != (DOCS.parent / page).read_text(encoding="utf-8")]
    assert not old, "run `make table`"


def test_the_tables_of_reliability(docs):
    """Their commands exist, and every figure has its place in a sentence."""
    import tables
    results = json.loads((DOCS / "reliability.json").read_text(encoding="utf-8"))
    targets = re.findall(r"^([a-z-]+):", (DOCS.parent / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {row["command"].split()[-1] for row in results["checks"] if row["command"].startswith("make ")} <= {*targets}
    for row in results["checks"]:
        assert set(re.findall(r"{(\w+)", row["found"])) - {"pairs"} == set(row["figures"])
    lines = tables.checks(results["checks"], results["date"]).splitlines()
    assert len(lines) == 2 + len(results["checks"]) and all(line.count(" | ") == 2 for line in lines)
    assert "3.9 with 1.21" in "".join(lines) and f"{results['checks'][0]['figures']['tests']:,} tests pass" in lines[2]
    assert len(tables.memory(results["memory"]).splitlines()) == 2 + len(results["memory"])


def test_every_page_is_in_the_table_of_contents():
    trees = [tree for text in PAGES.values() for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.M | re.S)]
    listed = re.findall(r"^(?:[\w ]+ <)?([a-z0-9_/]+)>?$", "\n".join(trees), re.M)
    assert sorted([*listed, "index"]) == sorted([*PAGES, "api/index"])
