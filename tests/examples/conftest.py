"""The tiny data sets of tests/data are for the scripts, too; and the scripts run in the test's process."""
import pathlib
import sys

import pytest
from typed import Typed

sys.path.append(str(pathlib.Path(__file__).parents[1] / "data"))


@pytest.fixture
def typed(monkeypatch, capsys, tmp_path):
    """Runs commands and scripts in the test's folder."""
    return Typed(monkeypatch, capsys, tmp_path)
