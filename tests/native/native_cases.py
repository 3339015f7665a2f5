"""What the tests of the C++ library share: the operators' suites, and the library, loaded."""
import importlib
import pathlib
import sys

import pytest
from gluonops.core import native, registry
from gluonops.native import build

TESTS = pathlib.Path(__file__).parents[1]
sys.path.append(str(TESTS / "ops"))


def require_library():
    """Load the library. If it is missing though there is a compiler, the test fails."""
    if native.load():
        return
    try:
        build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    pytest.fail(f"the native library is not loaded: {native.reason()}", pytrace=False)


def suites():
    """The suite of every operator, by name."""
    classes = {}
    for name in registry.entries():
        module = importlib.import_module(f"test_{name}")
        classes[name] = next(value for value in vars(module).values() if getattr(value, "name", None) == name)
    return classes


SUITES = suites()
CASES = [pytest.param(name, case, id=f"{name}-{case.id}") for name, suite in SUITES.items() for case in suite.cases]
ERRORS = [pytest.param(name, error, id=f"{name}-{error.id}") for name, suite in SUITES.items()
          for error in suite.errors]
