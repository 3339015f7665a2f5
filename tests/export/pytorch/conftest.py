"""What the tests of gops.export.torch share."""
import importlib
import importlib.util
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def few_steps_of_training(monkeypatch, pytestconfig):
    """The tests compare 8 steps of SGD, and all 20 in ``make test-all``.

    8 find what test_training_that_differs_is_found plants; 4 miss a wrong momentum.
    """
    if importlib.util.find_spec("torch") and not pytestconfig.getoption("every_mode"):
        monkeypatch.setattr(importlib.import_module("steps"), "STEPS", 8)
