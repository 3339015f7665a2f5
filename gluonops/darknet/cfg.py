"""Reads a Darknet ``.cfg``: sections of options, each with the line it stands in.

A cfg is a text file: ``[kind]`` opens a section, ``key=value`` is an option, blanks mean nothing, and a line that
starts with ``#`` or ``;`` is a comment. The builder reads the options of a section by name and type. An option that
it does not read is refused: a layer that ignores an option computes something else than Darknet does.
"""
from __future__ import annotations

import os

from ..core.attributes import Float, Int
from ..core.errors import OpError

__all__ = ["Section", "read_cfg"]

WHERE = "darknet.load"
# Options of any layer that concern training only.
TRAINING = ("learning_rate", "onlyforward", "smooth", "stopbackward", "truth")
# Options of any layer that change what a weights file holds.
FILE_LAYOUT = ("dontload", "dontsave", "dontloadscales", "numload")


class Section:
    """One section: its kind, the line of its header, and typed access to its options.

    Parameters
    ----------
    file : str
        Name of the cfg, for messages.
    kind : str
        The word in brackets.
    line : int
        The header's line, counted from 1.
    """

    def __init__(self, file, kind, line):
        self.file, self.kind, self.line = file, kind, line
        self._options, self._repeated = {}, {}
        self._read, self._skipped = set(), set()

    def add(self, key, value, line):
        """Add an option. Of one that is given twice the first counts, as in Darknet; see ``close``."""
        if key in self._options:
            self._repeated.setdefault(key, line)
        self._options.setdefault(key, (value, line))

    def error(self, what, remedy, line=None):
        """An OpError that names the file, the line and the section."""
        return OpError(WHERE, f"{self.file}, line {line or self.line}: [{self.kind}]: {what}", remedy)

    def line_of(self, key):
        """The line of an option, or of the header where it is not given."""
        return self._options.get(key, (None, self.line))[1]

    def __contains__(self, key):
        return key in self._options

    def text(self, key, default=None, choices=None):
        """The option as a word, perhaps one of a few."""
        value = self._take(key, default)
        if choices is not None and value not in choices:
            raise self._bad(key, value, f"one of {', '.join(choices)}")
        return value

    def integer(self, key, default=None, low=None):
        """The option as an integer of at least ``low``."""
        return self._parsed(key, self._take(key, default), Int(low))

    def number(self, key, default=None):
        """The option as a finite number."""
        return self._parsed(key, self._take(key, default), Float())

    def integers(self, key, default=None):
        """The option as a list of integers, separated by commas."""
        return [self._parsed(key, item, Int()) for item in self._items(key, default)]

    def numbers(self, key):
        """The option as a list of numbers, separated by commas."""
        return [self._parsed(key, item, Float()) for item in self._items(key, None)]

    def skip(self, *keys):
        """Mark options as known and without effect on inference."""
        self._skipped.update(keys)

    def refuse(self, key, why, neutral=0):
        """Refuse an option by name, unless it has its neutral value."""
        if key in self and (neutral is None or self.number(key) != neutral):
            raise self.error(f"{key}={self._options[key][0]} is not supported ({why})",
                             f"Remove the option{'' if neutral is None else f', or set it to {neutral}'}, if the "
                             "network computes the same without it", self.line_of(key))

    def close(self):
        """Refuse options that were not read, and options that were read and are given twice."""
        known = ", ".join(sorted(self._read | self._skipped))
        self.skip(*TRAINING)
        for key in FILE_LAYOUT:
            self.refuse(key, "it changes what the weights file holds")
        for key, (_, line) in self._options.items():
            if key not in self._read | self._skipped:
                raise self.error(f"the option {key!r} is not understood; expected {known or 'no option'}",
                                 "Remove it, if the network computes the same without it", line)
            if key in self._read and key in self._repeated:
                raise self.error(f"the option {key!r} is given twice, first in line {line}", "Remove one of them",
                                 self._repeated[key])

    def _take(self, key, default):
        self._read.add(key)
        if key not in self._options and default is None:
            raise self.error(f"the option {key!r} is missing", f"Add a line {key}=...")
        return self._options.get(key, (default, None))[0]

    def _items(self, key, default):
        items = self._take(key, default)
        return items.split(",") if items else []

    def _parsed(self, key, value, kind):
        try:
            return kind.parse(value)
        except (ValueError, TypeError):
            raise self._bad(key, value, kind.expected) from None

    def _bad(self, key, value, expected):
        return self.error(f"{key} is {value!r}; expected {expected}", f"Correct {key}", self.line_of(key))


def read_cfg(path: str | os.PathLike) -> list[Section]:
    """Read a cfg.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    list of Section
        The first is ``[net]``, the others are the layers in order.

    Raises
    ------
    OpError
        The file is missing or not text, a line is neither a section nor an option, or the first section is not
        ``[net]``; the message has the line.
    """
    name, sections = os.path.basename(os.fspath(path)), []
    for number, line in enumerate(_lines(path), 1):
        line = "".join(line.split("#")[0].split())
        if not line or line[0] == ";":
            continue
        if line[0] == "[":
            if line[-1] != "]":
                raise OpError(WHERE, f"{name}, line {number}: {line!r} opens a section without closing the bracket",
                              "Write [kind]")
            sections.append(Section(name, line[1:-1], number))
            continue
        key, equals, value = line.partition("=")
        if not (key and equals and value) or not sections:
            raise OpError(WHERE, f"{name}, line {number}: {line!r}; expected [section], or key=value inside a section",
                          "Correct the line")
        sections[-1].add(key, value, number)
    if not sections or sections[0].kind not in ("net", "network"):
        raise OpError(WHERE, f"{name}: the first section is {f'[{sections[0].kind}]' if sections else 'missing'}; "
                      "expected [net]", "Pass a Darknet cfg")
    if len(sections) == 1:
        raise OpError(WHERE, f"{name}: [net] is not followed by any layer", "Add the layers")
    return sections


def _lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise OpError(WHERE, f"cannot read the cfg {os.fspath(path)}: {reason}", "Pass the path of a cfg") from error
