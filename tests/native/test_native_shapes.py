"""Shape inference of the C++ library where little is known, where much is wrong, and where sizes are absurd.

By way of lib_api.h such questions end the process, so every group of them has a process of its own.
"""
import pathlib
import re

import fresh
import pytest
from gluonops.backends import native
from native_cases import SUITES, require_library

FIRST_CASES = {name: (suite.cases[0].attrs, suite.cases[0].shapes) for name, suite in SUITES.items()}


@pytest.fixture(autouse=True)
def library():
    require_library()


def python(*arguments):
    done = fresh.python(*arguments)
    assert done.returncode == 0, f"exit status {done.returncode} after {done.stdout!r}\n{done.stderr[-3000:]}"
    return done.stdout   # MXNet prints there, too


@pytest.mark.parametrize("questions", [("a_hundred_times", "from_an_output", "without_dimensions"),
                                       ("of_a_custom_op", "mistyped_names", "absurd_sizes", "strange_graphs"),
                                       ("counts_of_inputs",)],
                         ids=" ".join)
def test_shapes(questions):
    script = pathlib.Path(__file__).with_name("shape_questions.py")
    printed = python(str(script), repr(FIRST_CASES), *questions)
    assert re.findall("answered: (.*)", printed) == list(questions)


def test_without_gluonops_and_loaded_twice():
    """A process that loads the library by itself has the same inference."""
    code = (f"{fresh.WITHOUT_GLUONOPS}import warnings\nwarnings.simplefilter('ignore')\n"
            f"import mxnet as mx\npath = {native.library_path()!r}\nmx.library.load(path, False)\n"
            "def ask():\n"
            "    head = mx.sym.gluonops_softmax_cross_entropy(mx.sym.var('x'), mx.sym.var('l'))\n"
            "    return [head.infer_shape_partial(l=(4,)) for _ in range(100)][0][0]\n"
            "print(ask())\nmx.library.load(path, False)\nprint(ask())")
    assert python("-c", code) == "[(4, 0), (4,)]\n" * 2
