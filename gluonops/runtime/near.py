"""What all command lines have: kinds of values, and the name that a mistyped one is like.

This file uses nothing of gluonops, like everything that the command imports at its start.
"""
from __future__ import annotations

import argparse
import difflib
import re
import typing
from collections.abc import Callable, Iterable


def perhaps(name: str, candidates: Iterable[str]) -> str:
    """Return ``Perhaps you mean 'x'`` for the candidate x that is most like ``name``, or "" if none is like it."""
    for meant in difflib.get_close_matches(name, list(candidates), 1):
        return f"Perhaps you mean {meant!r}"
    return ""


def kind(parse: Callable[[str], typing.Any], is_right: Callable[[typing.Any], bool],
         expected: str) -> Callable[[str], typing.Any]:
    """Return a type for argparse, which refuses what cannot be parsed, or is not right."""
    def parsed(text):
        try:
            value = parse(text)
            if is_right(value):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"got {text!r}; expected {expected}")

    parsed.__doc__ = f"A type for argparse: {expected}."
    return parsed


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the command or the option that a mistyped one is like."""

    def error(self, message: str) -> typing.NoReturn:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        option = re.search(r"unrecognized arguments: (-\S*)", message)
        meant = ""
        if choice:
            meant = perhaps(choice[1], re.findall(r"[\w-]+", choice[2]))
        elif option:
            meant = perhaps(option[1], self._option_string_actions)
        super().error(f"{message}. {meant}" if meant else message)
