"""Packages that are imported on first use, and errors that name the cause."""
import pathlib
import re
import sys

import gluonops as gops
import pytest
from gluonops.io import optional

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a package whose import runs some code."""
    def make(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return make


def refusal(name):
    with pytest.raises(gops.OpError) as caught:
        optional.require(name, "tests")
    assert name not in sys.modules
    return str(caught.value)


def test_a_package_that_is_absent():
    assert refusal("no_such_package") == ("gluonops.tests: no_such_package cannot be imported (No module named "
                                          "'no_such_package'). Run: pip install 'gluonops[detection]'.")


def test_a_package_that_fails(package):
    """Installing it again would not help: the message says what it complains of."""
    name = package("complaining", "raise RuntimeError('this machine has no sound')")
    text = refusal(name)
    assert "(RuntimeError: this machine has no sound). complaining is installed, but raises this error itself" in text


def test_a_package_that_lacks_another(package, monkeypatch):
    """gluoncv does, and then says that MXNet and torch are missing."""
    name = package("lacking", "raise ImportError('Unable to import modules due to missing `mxnet` & `torch`')")
    monkeypatch.setattr(optional, "requirements", lambda name: [
        "numpy>=1.0", "no-such-distribution (>=2)", "sphinx-thing; extra == 'docs'"])
    assert "(it needs no-such-distribution, which is not installed). Run: pip install" in refusal(name)


def test_gluoncv_is_imported_in_one_place():
    """Else its absence is no clear error."""
    direct = re.compile(r"^\s*(import|from)\s+gluoncv\b", re.M)
    folders = ("gluonops", "models", "examples", "benchmarks", "tests", "tools")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert files and [str(path) for path in files if direct.search(path.read_text(encoding="utf-8"))] == []
