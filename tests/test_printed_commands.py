"""Each command that a page prints can be typed: its program, script or target is there, and takes these options."""
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import types

import fresh
import gluonops as gops
import pytest
from gluonops.commands import cli, scripts

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "examples/deploy/README.md",
         *(path.relative_to(ROOT).as_posix() for part in ("*.md", "tutorials/*.md")
           for path in sorted((ROOT / "docs").glob(part)))]
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def commands(page):
    """The command lines of a page: those of its shell blocks that run gluonops or an example."""
    found = []
    for block in SHELL.findall(TEXTS[page]):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.split(" > ")[0], comments=True)
            if words[:1] == ["git"] or words[:1] == ["pip"]:
                continue
            starts = [i for i, word in enumerate(words) if word == "gluonops" or word.startswith("examples/")]
            found += [tuple(words[start:]) for start in starts]   # one may start another: both are complete
    return found


class Taken(BaseException):
    """A script has parsed its arguments."""


def take(words, monkeypatch):
    """Parse a command as it would be typed, and stop there. SystemExit: it cannot be typed so."""
    def parse(options):
        options.parser.parse_args(sys.argv[1:])
        raise Taken

    monkeypatch.setattr(gops.train.Options, "parse", parse)
    monkeypatch.setattr(sys, "argv", [*words])
    try:
        if words[0] != "gluonops":
            runpy.run_path(str(ROOT / words[0]))["arguments"]()
        elif words[1] in ("train", "val"):
            cli.main([*words[1:]])
        else:
            args, rest = cli._parser().parse_known_args(words[1:])
            if rest:
                args.parser.error(f"unrecognized arguments: {rest[0]}")
    except Taken:
        pass


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_parser_takes_it(page, monkeypatch, capsys):
    for words in commands(page):
        errors = []
        for task in ("detection", "classification"):   # a folder of the page's user
            monkeypatch.setattr(scripts.data, "recognize", lambda *_, task=task: types.SimpleNamespace(task=task))
            try:
                take(words, monkeypatch)
            except SystemExit:
                errors.append(capsys.readouterr().err)
        assert len(errors) < 2, f"{' '.join(words)}\n{errors[0]}"


def test_most_pages_print_commands():
    """The test above sees them."""
    found = [words for page in PAGES for words in commands(page)]
    assert len(found) > 60 and {"gluonops", "examples/make_shapes.py"} <= {words[0] for words in found}
    assert ("gluonops", "train", "--kvstore", "dist_sync") in found   # behind another program


@pytest.mark.parametrize("words", ["gluonops trian", "gluonops export net --onx net.onnx", "gluonops train --modle mlp",
                                   "examples/make_shapes.py --cuont 1 2"])
def test_it_sees_a_mistake(words, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        take(words.split(), monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make(page):
    """`make x`, and VARIABLE=value behind it."""
    named = set(re.findall(r"`make ([a-z-]+)", TEXTS[page]))
    assert named <= TARGETS, named - TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_extras_of_pip(page):
    named = set(re.findall(r"pip install '(?:\.|gluonops)\[(\w+)\]'", TEXTS[page]))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'    "{extra}": [' in setup for extra in named)


def test_in_the_activated_environment(tmp_path):
    """What the README says to do after `make demo` is enough for commands and scripts."""
    assert "`source .venv/bin/activate`" in TEXTS["README.md"]
    activate = pathlib.Path(sys.prefix) / "bin" / "activate"
    if not activate.exists():
        pytest.skip("this Python runs in no virtual environment")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = """
set -e
. "$ACTIVATE"
gluonops files --help
python examples/make_shapes.py --count 1 1 --size 64
gluonops anchors out/shapes/detection -k 1
"""
    environment = {"ACTIVATE": str(activate), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "1 pictures to train on" in done.stdout


@pytest.mark.slow
def test_your_own_pictures(tmp_path):
    """The first commands of the page about fine-tuning, as they stand there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    block = SHELL.findall(TEXTS["docs/fine_tuning.md"])[0]
    for line in block.splitlines():
        program, *words = shlex.split(line, comments=True)
        words = words if program == "python" else ["-m", "gluonops", *words]
        done = fresh.python(*words, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "2"})
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/finetune_detector/detector-symbol.json").exists()
    assert (tmp_path / "out/finetune_classifier/classifier-symbol.json").exists()
