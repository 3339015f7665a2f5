"""The expressions and statements of net.py are trees: places are filled, numbers are found, and all is printed."""
import ast

import pytest
from gluonops.export.torch.expressions import Expression, filled, outline, parsed, shortened, spliced, text_of
from gluonops.export.torch.statements import (
    IMPORTS,
    WIDTH,
    assigned,
    broken,
    called,
    class_of,
    method,
    module_text,
    repeated,
)


@pytest.mark.parametrize("text, values, result", [
    ("{0} * {1}", {"0": "x + 1", "1": "y"}, "(x + 1) * y"),
    ("{scalar} ** {0}", {"scalar": "-2"}, "(-2) ** {0}"),
    ("{0} - {1}", {"0": "x - y", "1": "x - z"}, "x - y - (x - z)"),
    ("{0}.sum()", {"0": "a @ b"}, "(a @ b).sum()"),
    ("{self}({0})", {"self": "self.conv"}, "self.conv({0})"),
    ("f({0}, {0})", {"0": "g(x)"}, "f(g(x), g(x))"),
])
def test_places_are_filled_with_the_parentheses_that_are_needed(text, values, result):
    tree = parsed(text)
    assert text_of(filled(tree, {name: parsed(value) for name, value in values.items()})) == result
    assert text_of(tree) == text   # A tree is shared: nothing changes it.


def test_all_inputs_stand_in_one_place():
    expression = Expression.of("{self}(torch.cat([*{inputs}], 1), *{inputs})", 3)
    assert expression == Expression.of("{self}(torch.cat([{0}, {1}, {2}], 1), {0}, {1}, {2})")
    assert expression.reads == [0, 1, 2, 0, 1, 2] and expression.calls_module


@pytest.mark.parametrize("text, numbers", [
    ("{0}.reshape(8, 16, -16)", [16, 16]),   # What a call begins with is an axis or a count.
    ("{0}.unflatten(1, (4, 8))", [8]),
    ("{0}[:, 4:8, 0] * 0.5", [4, 8, 0.5]),
    ("F.pad({0}, (7 * {1}, 2, True))", []),
    ("f({0}, size=4, eps=1e-05, mode='4')", [4, 1e-05]),
])
def test_numbers_in_which_blocks_may_differ(text, numbers):
    assert [constant.value for constant in Expression.of(text).constants] == numbers


def test_an_outline_lacks_numbers():
    first, second = Expression.of("{0}[:, 4:8]"), Expression.of("{0}[:, 5:9]")
    assert first != second and first.outline == second.outline != Expression.of("{0}[:, 4:3]").outline
    assert outline(parsed("x + 1"), []) == "x + 1"


@pytest.mark.parametrize("text, shorter", [
    ("torch.where((x > f(y)).to(x.dtype) != 0, x, y)", "torch.where(x > f(y), x, y)"),
    ("torch.where((x + y).to(x.dtype) != 0, x, y)", None),   # torch takes conditions of truth values only
    ("torch.ones_like(x) * -2.5 + y", "torch.full_like(x, -2.5) + y"),
    ("torch.ones_like(x) * y", None),
    ("torch.ones_like(x)[0] * 2", None),
    ("x.reshape(n, -1).reshape(2, -1)", "x.reshape(2, -1)"),
    ("x.reshape(2, -1).reshape(n, 3)", None),
])
def test_shorter_expressions_that_compute_the_same(text, shorter):
    assert text_of(shortened(parsed(text))) == (shorter or text)


def test_parts_of_a_program_are_replaced_and_its_comments_stay():
    program = "def f(x):  # of ä WIDTH\n    return (x +\n            WIDTH) * WIDTH\n"
    nodes = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Name) and node.id == "WIDTH"]
    assert spliced(program, dict.fromkeys(nodes, "12")) == program.replace(" WIDTH)", " 12)").replace("* WIDTH", "* 12")


def test_a_string_is_not_broken_at_its_commas():
    line = text_of(parsed(f"torch.einsum('{'abc, ' * 10}(->d', {', '.join('x' * 9 + str(i) for i in range(6))})"))
    assert len(line) > WIDTH
    wrapped = broken(line, 0)
    assert wrapped[1].startswith('    "abc, abc')
    assert ast.dump(ast.parse("\n".join(wrapped))) == ast.dump(ast.parse(line))


MODULE = '''"""A net "of" Gluon's."""

import json
import math
from pathlib import Path
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


FROZEN = ["a", "b"]
WIDTH = 100


def kept(x):
    return (x +
            1)  # as it was written


class Net(nn.Module):
    def __init__(self, channels, mode="same", size=(1, 2)):
        super().__init__()
        self.fc.weight = self.embedding.weight

    def forward(self, x, y):
        x, y = self.fc(x), y
        for _ in range(3):
            x = F.pad(
                x, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
            )
        return x, y
'''


def test_a_module_is_printed_with_blank_lines_and_long_lines_are_broken():
    pad = parsed(f"F.pad(x, {'a' * 39}, {'b' * 39})")
    constructor = method("__init__", {"channels": None, "mode": parsed("'same'"), "size": parsed("(1, 2)")}, [
        called("super().__init__"), assigned("self.fc.weight", parsed("self.embedding.weight"))])
    forward = method("forward", {"x": None, "y": None}, [
        assigned("x, y", parsed("(self.fc(x), y)")), repeated(assigned("x", pad), 3), ast.Return(parsed("(x, y)"))])
    text = module_text('A net "of" Gluon\'s.', IMPORTS, [
        assigned("FROZEN", parsed("['a', 'b']")), assigned("WIDTH", parsed("100")),
        "def kept(x):\n    return (x +\n            1)  # as it was written",
        class_of("Net", parsed("nn.Module"), [constructor, forward])])
    assert text == MODULE


@pytest.mark.parametrize("docstring", ['of the files a"""b', "of the files a\\b", "of\nlines", "a\\", 'a"'])
def test_a_docstring_may_have_any_characters(docstring):
    """A file's name stands in it."""
    text = module_text(docstring, [], [assigned("x", parsed("1"))])
    assert ast.get_docstring(ast.parse(text), clean=False) == docstring
