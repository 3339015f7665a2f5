"""The README's example runs, as it stands there."""
import pathlib
import re

import fresh
from gluonops import table

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_twenty_lines(tmp_path):
    code, = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 27
    fresh.python("-c", code, cwd=tmp_path).check_returncode()
    assert (tmp_path / "digits-symbol.json").is_file() and (tmp_path / "digits-0000.params").is_file()


def test_the_table_is_the_contracts():
    shown = README.split("<!-- table:begin -->")[1].split("<!-- table:end -->")[0].strip()
    assert shown == table.markdown().strip(), "run `make table`"
