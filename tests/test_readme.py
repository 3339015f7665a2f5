"""The README: its code runs as it stands there, its links lead somewhere, and its table names every layer and loss."""
import pathlib
import re

import fresh
from gluonops.commands import table

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
    assert table.replace(README, table.catalogue()) == README, "run `make table`"
