"""Exports operators that jump, and compares ONNX Runtime and torch with MXNet at numbers where they do."""
import pathlib
import sys
import tempfile

import gluonops as gops
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "export"))
import jump_cases  # noqa: E402  (from tests/export, which is on the path by now)
from jump_cases import Jump, all_of, named, scalar  # noqa: E402

SHAPE = (3, 40)
SPECIALS = (np.inf, -np.inf, np.nan, 1e9, -1e9, 8388609)
# What an export refuses because MXNet's result depends on the processor, or because an integer has no such function.
REFUSALS = ("does not fit into", "divides integers by 0", "which ONNX does not have", "where MXNet's numbers are not",
            "is not installed")


def _of_a_number(word):
    """An operator beside a number, and the same with the number in front, if it has that form."""
    words = [word, f"r{word}"] if word == "mod" else [word]
    return lambda number: all_of(*[scalar(each, number) for each in words])


def _of_two(name):
    return lambda number: lambda F, x, y: getattr(F, f"broadcast_{name}")(x, y)


def _of_one(*names, **options):
    return lambda number: named(*names, **options)


# Operator -> a number of the case -> the function, and how many inputs it has.
OPERATORS = {
    "rounding": (_of_one("floor", "ceil", "fix", "trunc", "round", "rint", "sign"), 1),
    "activation": (_of_one("relu", "abs", "logical_not"), 1),
    "clip": (lambda number: lambda F, x: F.clip(x, -abs(number), abs(number) + 1), 1),
    "order": (lambda number: lambda F, x: [F.sort(x), F.max(x, axis=0), F.argmax(x, axis=1), F.argmin(x, axis=0)], 1),
    "where": (lambda number: lambda F, x, y: F.where(x, y, x + y), 2),
    **{f"{word}_number": (_of_a_number(word), 1) for word in ("mod", "maximum", "minimum", *jump_cases.WORDS)},
    **{f"{word}_two": (_of_two(word), 2) for word in ("mod", "maximum", "minimum", *jump_cases.WORDS)},
}


def check(case):
    """What is wrong, a list of (where, how, details); None where the export refuses the case."""
    make, count = OPERATORS[case.op]
    arrays = [_drawn(case, place) for place in range(count)]
    jump = Jump(make(case.number), lambda kind: arrays, (case.kind,), False)
    run = jump_cases.in_onnxruntime if case.target == "onnx" else jump_cases.in_torch
    fed = jump_cases.fed(jump, case.kind)
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        try:
            found = run(jump, case.kind, fed, pathlib.Path(folder))
        except gops.OpError as error:
            if any(text in str(error) for text in REFUSALS):
                return None
            return [(case.target, "refuses", str(error)[:500])]
        except ImportError:   # of torch, which is not there for every Python
            return None
        except Exception as error:
            return [(case.target, f"raises {type(error).__name__}", str(error)[:500])]
    wanted = jump_cases.expected(jump, case.kind, fed)[0]
    try:
        jump_cases.check(found if case.target == "onnx" else jump_cases.of_types(found[0], wanted), wanted)
    except AssertionError as error:
        return [(case.target, "differs from MXNet", str(error)[:1500])]
    return []


def _drawn(case, place):
    """Numbers at jumps, times a scale. Infinities, NaN and large numbers are among them, unless they have no order."""
    rng = np.random.RandomState([case.seed, place])
    found = jump_cases.numbers_at_jumps(rng, SHAPE, case.kind)
    if found.dtype.kind != "f":
        return found
    found *= np.array(case.scale, found.dtype)
    if case.op != "order":
        found[rng.randint(0, SHAPE[0], len(SPECIALS)), rng.randint(0, SHAPE[1], len(SPECIALS))] = SPECIALS
    return found
