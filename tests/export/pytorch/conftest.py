"""What the tests of gops.export.torch share."""
import importlib
import importlib.util

import pytest


@pytest.fixture(autouse=True)
def few_steps_of_training(monkeypatch, pytestconfig):
    """An export compares 8 steps of SGD, and all 20 in ``make test-all``.

    8 find what test_training_that_differs_is_found plants; 4 miss a wrong momentum.
    """
    if importlib.util.find_spec("torch") and not pytestconfig.getoption("every_mode"):
        monkeypatch.setattr(importlib.import_module("gluonops.export.torch.verify"), "STEPS", 8)
