"""The README: its code runs as it stands there, its links lead somewhere, and its table names every layer and loss."""
import pathlib
import re
import runpy

import fresh
from gluonops.commands import table
from gluonops.runtime import support

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ten_lines(tmp_path):
    code, = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    fresh.python("-c", code, cwd=tmp_path).check_returncode()
    assert (tmp_path / "digits-symbol.json").is_file() and (tmp_path / "digits-0000.params").is_file()


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
