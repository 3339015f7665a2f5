"""The expressions of net.py are trees: places are filled, numbers are found, and what is long becomes shorter."""
import ast

import pytest
from gluonops.export.torch.expressions import Expression, filled, outline, parsed, shortened, spliced, text_of
from gluonops.export.torch.statements import WIDTH, broken


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
