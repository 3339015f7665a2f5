"""What ``import gluonops`` does to MXNet's import, in processes that begin with it."""
import sys

import fresh
import pytest
from gluonops import _compat

pytest.importorskip("sklearn")


def test_mxnet_does_not_import_scikit_learn():
    """It is found afterwards all the same."""
    code = "import gluonops, sys; assert 'sklearn' not in sys.modules; import sklearn.base"
    done = fresh.python("-c", code)
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_imported_is_not_hidden():
    with _compat._hidden("sys"):
        assert sys.modules["sys"] is sys


def test_a_hidden_package_is_not_installed():
    with _compat._hidden("a_package"), pytest.raises(ModuleNotFoundError):
        import a_package  # noqa: F401
    assert "a_package" not in sys.modules
