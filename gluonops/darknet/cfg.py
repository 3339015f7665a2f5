"""Reads a Darknet ``.cfg``: sections of options, with their line numbers.

A cfg is a text file. ``[kind]`` opens a section, and ``key=value`` is an option of the section. Blanks have no meaning.
``#`` begins a comment, and so does ``;`` at the beginning of a line. The builder asks a section for its options by name
and type. An option that the builder does not ask for is an error, because a layer that ignores an option computes
something else than Darknet does.
"""
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ..contract.attributes import Float, Int, Kind
from ..contract.errors import OpError
from ..io.files import read_lines

WHERE = "darknet.load"
FINITE = Float()
MAX_INT = 2**31 - 1   # Darknet counts options, weights and outputs in 32 bits
# Options of any layer for training only.
TRAINING = ("burnin_update", "clip", "dont_update", "learning_rate", "onlyforward", "smooth", "stopbackward",
            "train_only_bn", "truth")
# Options of any layer that change what a weights file holds.
FILE_LAYOUT = ("dontload", "dontsave", "dontloadscales", "numload")


class Section:
    """One section: its kind, the line of its header, and typed access to its options."""

    def __init__(self, file: str, kind: str, line: int):
        self.file = file         # name of the cfg, for messages
        self.kind = kind         # the word in brackets
        self.line = line         # the header's number, from 1
        self._options = {}       # key -> (value, line)
        self._repeated = {}      # key -> line of the second value
        self._read = set()
        self._skipped = set()

    def add(self, key: str, value: str, line: int) -> None:
        """Add an option. If an option is given twice, its first value counts, as in Darknet. See also :meth:`close`."""
        if key in self._options:
            self._repeated.setdefault(key, line)
        self._options.setdefault(key, (value, line))

    def error(self, what: str, remedy: str, key: str | None = None, line: int | None = None) -> OpError:
        """An OpError that names the file, the section and a line: the line of the option ``key``, or of the header."""
        line = line or self.line_of(key)
        return OpError(WHERE, f"{self.file}, line {line}: [{self.kind}]: {what}", remedy)

    def check_count(self, count: int, what: str, remedy: str) -> None:
        """Raise an OpError if a layer would have more of something than Darknet can count."""
        if count > MAX_INT:
            raise self.error(f"it would have {count} {what}; expected at most {MAX_INT}, as in Darknet", remedy)

    def line_of(self, key: str | None) -> int:
        """The line of an option, or of the header if the option is not given."""
        _, line = self._options.get(key, (None, self.line))
        return line

    def __contains__(self, key: str) -> bool:
        return key in self._options

    def peek(self, key: str) -> str:
        """The option as it is written, or an empty text. The option does not count as read."""
        value, _ = self._options.get(key, ("", self.line))
        return value

    def flag(self, key: str) -> bool:
        """Whether the option is given and not 0."""
        return bool(self.integer(key, 0))

    def text(self, key: str, default: str | None = None, choices: Sequence[str] | None = None) -> str:
        """The option as a word, one of ``choices`` if they are given."""
        value = self._take(key, default)
        if choices is not None and value not in choices:
            raise self._bad(key, value, f"one of {', '.join(choices)}")
        return value

    def integer(self, key: str, default: int | None = None, low: int | None = None) -> int:
        """The option as an integer of at least ``low``."""
        return self._whole(key, self._take(key, default), low)

    def number(self, key: str, default: float | None = None, kind: Float = FINITE) -> float:
        """The option as a finite number, in the bounds of ``kind``."""
        return self._parsed(key, self._take(key, default), kind)

    def values(self, **defaults: float | bool) -> dict[str, float | bool]:
        """Options with their defaults. One with the default False is a flag, and any other is a number."""
        return {key: self.flag(key) if default is False else self.number(key, default)
                for key, default in defaults.items()}

    def integers(self, key: str, default: str | None = None) -> list[int]:
        """The option as a list of integers, separated by commas."""
        return [self._whole(key, item) for item in self._items(key, default)]

    def numbers(self, key: str) -> list[float]:
        """The option as a list of finite numbers, separated by commas."""
        return [self._parsed(key, item, FINITE) for item in self._items(key, None)]

    def skip(self, *keys: str) -> None:
        """Accept options that have no effect on inference."""
        self._skipped.update(keys)

    def refuse(self, key: str, why: str, neutral: float | None = 0) -> None:
        """Raise an OpError if the option is given and has another value than ``neutral``.

        If ``neutral`` is None, every value is an error.
        """
        if key not in self:
            return
        remedy = "Remove the option, if the network computes the same without it"
        if neutral is not None:
            if self.number(key) == neutral:
                return
            remedy = f"Remove the option, or set it to {neutral}, if the network computes the same without it"
        raise self.error(f"{key}={self.peek(key)} is not supported: {why}", remedy, key)

    def close(self) -> None:
        """Raise an OpError for an option that was not read, and for one that was read but is given twice."""
        options = ", ".join(sorted(self._read | self._skipped))
        self.skip(*TRAINING)
        for key in FILE_LAYOUT:
            self.refuse(key, "it changes what the weights file holds")
        for key, (_, line) in self._options.items():
            if key not in self._read | self._skipped:
                raise self.error(f"the option {key!r} is not understood; expected {options or 'no option'}",
                                 "Remove the option, if the network computes the same without it", key)
            if key in self._read and key in self._repeated:
                raise self.error(f"the option {key!r} is there twice, first in line {line}", "Remove one of them",
                                 line=self._repeated[key])

    def _take(self, key: str, default: str | float | None) -> str | float:
        """The value of an option, marked as read."""
        self._read.add(key)
        if key in self._options:
            value, _ = self._options[key]
            return value
        if default is None:
            raise self.error(f"the option {key!r} is missing", f"Add a line {key}=...")
        return default

    def _items(self, key: str, default: str | None) -> list[str]:
        items = self._take(key, default)
        return items.split(",") if items else []

    def _whole(self, key: str, value: str | int, low: int | None = None) -> int:
        number = self._parsed(key, value, Int(low))
        if abs(number) > MAX_INT:
            raise self._bad(key, value, f"an integer of at most {MAX_INT}, as in Darknet")
        return number

    def _parsed(self, key: str, value: str | float, kind: Kind) -> int | float:
        try:
            return kind.parse(value)
        except (ValueError, TypeError):
            raise self._bad(key, value, kind.expected) from None

    def _bad(self, key: str, value: str | float, expected: str) -> OpError:
        return self.error(f"{key} is {value!r}; expected {expected}", f"Correct {key}", key)


def read_cfg(path: str | os.PathLike) -> list[Section]:
    """Read a cfg.

    The first section is ``[net]``, and the others are the layers in order. An OpError is raised if the file is missing
    or is not text, if a line is neither a section nor an option, or if the first section is not ``[net]``. The message
    has the number of the line.
    """
    name = os.path.basename(os.fspath(path))
    sections = []
    for number, line in _lines(path):
        if line[0] == "[":
            if line[-1] != "]":
                raise OpError(WHERE, f"{name}, line {number}: {line!r} opens a section without closing the bracket",
                              "Write the section as [kind]")
            sections.append(Section(name, line[1:-1], number))
            continue
        key, equals, value = line.partition("=")
        if not (key and equals and value) or not sections:
            raise OpError(WHERE, f"{name}, line {number}: {line!r}; expected [section], or key=value inside a section",
                          "Correct the line")
        sections[-1].add(key, value, number)
    if not sections or sections[0].kind not in ("net", "network"):
        first = f"[{sections[0].kind}]" if sections else "missing"
        raise OpError(WHERE, f"{name}: the first section is {first}; expected [net]", "Pass a Darknet cfg")
    if len(sections) == 1:
        raise OpError(WHERE, f"{name}: [net] is not followed by any layer", "Add the layers")
    return sections


def _lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """(number, line) of the lines that are not empty, without blanks and comments."""
    for number, line in enumerate(read_lines(WHERE, path, "Pass the path of a cfg", "the cfg"), 1):
        line = "".join(line.split("#")[0].split())
        if line and line[0] != ";":
            yield number, line
