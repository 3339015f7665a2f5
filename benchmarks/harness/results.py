"""Results in files: JSON with a line for every case, in which the times are a table.

In memory a case is a dict whose ``times`` is a list of dicts, one per time. In a file these become
``{"columns": [...], "rows": [[...], ...]}``, so that no name is written twice. No figure is rounded.
"""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any

_TABLE = {"columns", "rows"}


def load(path: str | os.PathLike) -> dict:
    """Read what :func:`save` wrote."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"), object_hook=_expand)


def save(path: str | os.PathLike, results: dict) -> None:
    """Write results, under a temporary name first: a run that is broken off leaves no half of a file."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(dump(results) + "\n", encoding="utf-8")
    os.replace(part, path)


def add(path: str | os.PathLike, name: str, row: dict) -> None:
    """Put a row into a file of rows by name, in the place of its old one."""
    rows = load(path) if os.path.exists(path) else {}
    rows[name] = row
    save(path, dict(sorted(rows.items())))


def dump(results: dict) -> str:
    """The text of a file: a line for every entry of a list, however deep that list is in dicts."""
    return _lines(results, "")


def _lines(value: Any, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
        items = [f"{json.dumps(key)}: {_lines(item, deeper)}" for key, item in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        items = [json.dumps(_compact(item)) for item in value]
        opening, closing = "[", "]"
    else:
        return json.dumps(value)
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{closing}"


def _compact(value: Any) -> Any:
    """A value whose lists of like dicts are tables."""
    if isinstance(value, dict):
        return {key: _compact(item) for key, item in value.items()}
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return value
    columns = list(value[0])
    if any(list(item) != columns for item in value):
        return [_compact(item) for item in value]
    return {"columns": columns, "rows": [[_compact(item[column]) for column in columns] for item in value]}


def _expand(entry: dict) -> Any:
    return [dict(zip(entry["columns"], row)) for row in entry["rows"]] if set(entry) == _TABLE else entry
