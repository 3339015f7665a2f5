"""The README: its code runs as it stands there, its links lead somewhere, and its table names every layer and loss."""
import pathlib
import re
import runpy
import shlex

import fresh
import mxnet as mx
from gluonops.commands import cli, table
from gluonops.runtime import support
from mxnet.gluon.model_zoo import vision

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The blocks of a language, each with the text block after it: what it prints."""
    return re.findall(rf"```{language}\n(.*?)```\n```text\n(.*?)```", README, re.S)


def test_a_net(tmp_path):
    (code, printed), = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 11
    done = fresh.python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(0 <= float(difference) < 1e-5 for difference in (done.stdout, printed))
    assert (tmp_path / "digits-symbol.json").is_file() and (tmp_path / "digits-0000.params").is_file()


def test_files_of_another(tmp_path, monkeypatch, capfd):
    """The commands print what is shown, but for the last digits of differences."""
    monkeypatch.chdir(tmp_path)
    net = vision.resnet18_v1(prefix="resnetv10_")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.ones((1, 3, 224, 224)))
    net.export("resnet")
    (commands, printed), = blocks("sh")
    capfd.readouterr()
    for line in commands.splitlines():
        assert cli.main(shlex.split(line, comments=True)[1:]) == 0
    shown = capfd.readouterr().out
    assert re.sub(r"[\d.]+e-\d\d", "X", shown) == re.sub(r"[\d.]+e-\d\d", "X", printed)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)", README) + re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(links) > 20
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_table_has_every_layer_and_loss():
    assert table.replace(README, "table", table.catalogue()) == README, "run `make table`"


def test_the_table_of_what_is_supported():
    """The README, the install page and the questions show the doctor's table, above everything else."""
    assert table.replace(README, "support", support.markdown()) == README, "run `make table`"
    assert README.index("support:begin") < README.index("\n## Build with it") < README.index("\n## Take it with you")
    for page in ("install", "faq"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        before, included = text.split("```{include} ../README.md\n:start-after: \"<!-- support:begin -->\"\n")
        assert included.startswith(":end-before: \"<!-- support:end -->\"\n```") and len(before.split()) < 5


def test_only_tried_pairs_are_called_tried():
    """They are pairs that `make test-matrix` runs."""
    numpys = runpy.run_path(str(ROOT / "tools" / "python_matrix.py"))["NUMPYS"]
    assert {(python, numpy) for python, numpy in support.TRIED if python not in numpys.get(numpy, ())} == set()
    assert {row[3] for row in support.table()} >= {
        "No module named 'distutils'", "module 'numpy' has no attribute 'bool'", "libarmpl_lp64_mp.so"}
