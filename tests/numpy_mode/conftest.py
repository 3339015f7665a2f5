"""NumPy mode for one test, which ends in the legacy mode whatever happens."""
import pytest
from mxnet import npx


@pytest.fixture
def numpy_mode():
    npx.set_np()
    yield
    npx.reset_np()
