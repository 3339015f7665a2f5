"""The README: its code runs as it stands there, its links lead somewhere, and its table names every layer and loss."""
import pathlib
import re
import runpy
import shlex

import fresh
import test_printed_commands
from gluonops.commands import cli
from gluonops.runtime import support

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The blocks of a language, each with the text block after it: what it prints."""
    return re.findall(rf"```{language}\n((?:(?!```).)*)```\n```text\n(.*?)```", README, re.S)


def test_an_old_script(tmp_path):
    """It imports MXNet alone: as after `gluonops install-mxnet`, MXNet has its view of NumPy."""
    (code, printed), _ = blocks("python")
    assert "gluonops" not in code
    done = fresh.python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found, shown = (re.fullmatch(r"accuracy: (0\.\d\d)\n", text)[1] for text in (done.stdout, printed))
    assert abs(float(found) - float(shown)) < 0.02


def test_a_net(tmp_path):
    _, (code, printed) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 11
    done = fresh.python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(0 <= float(difference) < 1e-5 for difference in (done.stdout, printed))
    assert (tmp_path / "digits-symbol.json").is_file() and (tmp_path / "digits-0000.params").is_file()


def test_files_of_another(tmp_path, monkeypatch, capfd):
    """The commands print what is shown, but for the last digits of differences."""
    monkeypatch.chdir(tmp_path)
    test_printed_commands.resnet("resnet")
    commands, printed = next(block for block in blocks("sh") if block[0].startswith("gluonops files check"))
    capfd.readouterr()
    for line in commands.splitlines():
        assert cli.main(shlex.split(line, comments=True)[1:]) == 0
    shown = capfd.readouterr().out
    assert re.sub(r"[\d.]+e-\d\d", "X", shown) == re.sub(r"[\d.]+e-\d\d", "X", printed)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)", README) + re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(links) > 20
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_table_of_what_is_supported():
    """It stands in the first door, and on the page about the installation."""
    assert README.index("\n## Keep it running") < README.index("support:begin") < README.index("\n## Build with it")
    for page in ("README.md", "docs/install.md"):
        assert support.markdown() in (ROOT / page).read_text(encoding="utf-8"), "run `make table`"


def test_only_tried_pairs_are_called_tried():
    """They are pairs that `make test-matrix` runs."""
    numpys = runpy.run_path(str(ROOT / "tools" / "python_matrix.py"))["NUMPYS"]
    assert {(python, numpy) for python, numpy in support.TRIED if python not in numpys.get(numpy, ())} == set()
    assert {row[3] for row in support.table()} >= {
        "No module named 'distutils'", "module 'numpy' has no attribute 'bool'", "libarmpl_lp64_mp.so"}
