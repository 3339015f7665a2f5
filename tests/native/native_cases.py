"""What the tests of the C++ library share: the operators' suites, and the library, loaded."""
import pytest
from gluonops.backends import native
from gluonops.contract import registry
from gluonops.native import build
from op_suite import suite_of


def require_library():
    """Load the library. If it is missing though there is a compiler, the test fails."""
    if native.loaded():
        return
    try:
        build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    pytest.fail(f"the native library is not loaded: {native.reason()}", pytrace=False)


SUITES = {name: suite_of(name) for name in registry.entries()}
CASES = [pytest.param(name, case, id=f"{name}-{case.id}") for name, suite in SUITES.items() for case in suite.cases]
ERRORS = [pytest.param(name, error, id=f"{name}-{error.id}") for name, suite in SUITES.items()
          for error in suite.errors]
