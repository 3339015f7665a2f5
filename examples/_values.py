"""argparse's types: check the range of an option before training starts. Copy it along with the scripts."""
import argparse
import math


def _checked(kind, low, high, expected):
    def parse(text):
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:   # nor is nan
            raise argparse.ArgumentTypeError(f"got {text}; expected {expected}")
        return number

    return parse


positive = _checked(int, 1, 2**31 - 1, "at least 1")
whole = _checked(int, 0, 2**31 - 1, "a whole number from 0")
freeze = _checked(int, -1, 2**31 - 1, "a whole number from 0, or -1")
seed = _checked(int, 0, 2**32 - 1, "a whole number from 0 to 4294967295")
weight = _checked(float, 0, 1e38, "a number from 0")   # float32 holds it
share = _checked(float, 0, 1, "a number from 0 to 1")
