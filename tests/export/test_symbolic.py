"""gluonops.export.symbolic: sizes that are free, against the numbers that they stand for."""
import itertools
import random

import pytest
from gluonops.export.symbolic import LEAST, MOST, FreeSize, Undecided, free, names_in, scaled, value_of, written

VALUES = [{"batch": one, "height": other} for one, other in itertools.product(range(LEAST, MOST + 1), repeat=2)]
BATCH, HEIGHT = free("batch"), free("height")
OPERATIONS = {
    "+": lambda one, other: one + other, "-": lambda one, other: one - other, "*": lambda one, other: one * other,
    "//": lambda one, other: one // other, "%": lambda one, other: one % other,
    "divmod": lambda one, other: divmod(one, other)[0], "ceiling": lambda one, other: -(-one // other)}
QUESTIONS = {
    "==": lambda one, other: one == other, "!=": lambda one, other: one != other, "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other, ">": lambda one, other: one > other, ">=": lambda one, other: one >= other}


def drawn(draws, depth):
    """A formula of free sizes and numbers, and the function of values that computes it."""
    if depth == 0:
        leaf = draws.choice([BATCH, HEIGHT, draws.randint(1, 12), 2 * HEIGHT - 1])
        return leaf, lambda values: value_of(leaf, values)
    name = draws.choice(list(OPERATIONS))
    one, value_of_one = drawn(draws, depth - 1)
    other, value_of_other = drawn(draws, draws.randrange(depth))
    if name in ("//", "%", "divmod", "ceiling"):
        least = min(value_of_other(values) for values in VALUES)
        if least < 1:
            return one, value_of_one
    return OPERATIONS[name](one, other), lambda values: OPERATIONS[name](value_of_one(values), value_of_other(values))


SEEDS = pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 400), marks=pytest.mark.slow)], ids=str)


@SEEDS
def test_formulas_are_those_of_numbers(seeds):
    for seed in seeds:
        size, value = drawn(random.Random(seed), 3)
        assert [value_of(size, values) for values in VALUES] == [value(values) for values in VALUES], seed
        assert isinstance(size, (int, FreeSize))


def answered(question, one, other):
    """The answer of sizes; None if they do not have one."""
    try:
        return question(one, other)
    except Undecided as error:
        assert error.names == names_in([one, other])
        return None


@SEEDS
def test_an_answer_holds_for_all_values(seeds):
    for seed in seeds:
        draws = random.Random(seed)
        (one, value_of_one), (other, value_of_other) = drawn(draws, 2), drawn(draws, 1)
        pairs = [(value_of_one(values), value_of_other(values)) for values in VALUES]
        for name, question in QUESTIONS.items():
            answer = answered(question, one, other)
            assert answer is None or {question(*pair) for pair in pairs} == {answer}, (seed, name)


@pytest.mark.parametrize("question, answer", [
    (lambda: BATCH > 1, True), (lambda: BATCH == 1, False), (lambda: BATCH != 0, True), (lambda: bool(BATCH), True),
    (lambda: BATCH > 2, None), (lambda: BATCH == 5, None), (lambda: 2 * BATCH == 5, False),
    (lambda: BATCH > 256, False),
    (lambda: BATCH * HEIGHT >= HEIGHT, True), (lambda: (HEIGHT + 1) // 2 >= 1, True), (lambda: HEIGHT // 3 > 0, None),
    (lambda: 2 * ((HEIGHT + 1) // 2) >= HEIGHT, True), (lambda: HEIGHT // 2 <= HEIGHT, True),
    (lambda: (64 * HEIGHT - 1) // 32 == 2 * HEIGHT - 1, True), (lambda: BATCH == HEIGHT, None),
    (lambda: max(BATCH - 2, 0) == BATCH - 2, True), (lambda: 6 * BATCH * HEIGHT // (2 * HEIGHT) == 3 * BATCH, True),
    (lambda: ((HEIGHT + 1) // 2 + 1) // 2 == (HEIGHT + 3) // 4, True), (lambda: 0 // BATCH == 0, True),
    (lambda: (1,) in ((BATCH,), (1,)), True), (lambda: scaled(8 * HEIGHT, 1.5) == 12 * HEIGHT, True),
    (lambda: HEIGHT % 2 < 2, True), (lambda: HEIGHT % 2 == 0, None)])
def test_questions(question, answer):
    if answer is None:
        with pytest.raises(Undecided):
            question()
    else:
        assert question() is answer


def test_an_undecided_question_says_what_it_depends_on():
    with pytest.raises(Undecided, match="whether batch is 4 depends on batch"):
        _ = BATCH == 4
    with pytest.raises(Undecided, match="the number batch\\+1 depends on batch"):
        range(BATCH + 1)
    with pytest.raises(Undecided, match="depends on batch and height"):
        _ = BATCH * 3 > HEIGHT


def test_scaled_sizes_are_those_of_float32():
    for scale in (1.3, 0.7, 2.0, 1.5, 0.25):
        size = scaled(HEIGHT, scale)
        assert [value_of(size, values) for values in VALUES] == [scaled(values["height"], scale) for values in VALUES]
        assert all(size > -1 for size in [size])
    assert scaled(100, 1.3) == 130   # 129.999995 in float64


def test_written_sizes_are_equal_if_they_are_so_for_all_values():
    batch, = written((BATCH,))
    assert batch == BATCH and batch != 4 and 4 != batch and batch + 1 != batch
    assert len({batch, written((BATCH,))[0], 4}) == 2
    assert written((BATCH * 2, 3)) == (batch + batch, 3)


def test_texts():
    texts = {BATCH: "batch", 3 * BATCH: "3*batch", 2 * BATCH + 1: "2*batch+1", BATCH - 1: "batch-1",
             (HEIGHT + 1) // 2: "(height+1)//2", 3 * (HEIGHT // 2): "3*(height//2)", BATCH * HEIGHT: "batch*height",
             scaled(HEIGHT, 1.3): "int(1.3*height)", 5 // BATCH: "5//batch"}
    assert list(map(str, texts)) == list(texts.values())
