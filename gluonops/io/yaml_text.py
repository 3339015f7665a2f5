"""YAML, read with PyYAML, which is optional."""
from __future__ import annotations

from typing import Any

from .optional import require

MOST_BYTES = 1 << 20   # PyYAML's parser in Python is slow, and the one in C dies of deep nesting


def parse(text: str, where: str, plain: bool = False) -> Any:
    """Return the values of a YAML text.

    With ``plain`` every value stays the text that is written, so that the name ``no`` does not become False, and 0
    stays "0". Aliases are an error, because a few lines of them can mean gigabytes of values. The errors of PyYAML, and
    a RecursionError, reach the caller.
    """
    yaml = require("yaml", where)

    class Loader(yaml.BaseLoader if plain else yaml.SafeLoader):
        def compose_node(self, parent, index):
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"it has the alias *{self.peek_event().anchor}; expected values only")
            return super().compose_node(parent, index)

    return yaml.load(text, Loader)
