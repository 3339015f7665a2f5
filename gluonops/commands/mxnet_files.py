"""``gluonops files``: list, check and convert files of MXNet. MXNet itself is not needed."""
from __future__ import annotations

import argparse
import json
from typing import Any

from .. import files
from ..export.parameters import MOST_NAMES, listed
from ..files.read import NET, kind_of
from ..io.files import make_folder

# What files.describe says of a net for its export, in words.
NOTES = {"labels": "these inputs are labels:", "shapes_needed": "an export needs --data-shape for",
         "outputs_needed": "every output is a loss, so that ONNX and PyTorch need --output", "cut_at": "--output of an "
         "export may be"}
MOST_SHOWN = 3   # of the nodes in the last note; --json has all of them


def run(args: argparse.Namespace) -> int:
    """Run the action ``args.action``. The exit code is 1 if ``check`` finds a problem, and 0 otherwise."""
    problems = []
    if args.action == "convert":
        make_folder("files", args.target)
        written = files.convert(args.path, args.target, args.epoch)
        print(json.dumps({"written": written}) if args.json else written)
    elif args.action == "check":
        problems = files.check(args.path, args.epoch)
        outlook = _outlook(args)
        print(json.dumps({"problems": problems, **outlook}, indent=2) if args.json else "\n".join(
            [*(problems or ["nothing is wrong"]), *_notes(outlook)]))
    else:
        content = files.describe(args.path, args.epoch)
        print(json.dumps(content, indent=2) if args.json else "\n".join(_lines(content)))
    return 1 if problems else 0


def _outlook(args: argparse.Namespace) -> dict[str, list[str]]:
    """What an export needs to know about a net. It is empty for other files."""
    if kind_of(args.path) != NET:
        return {}
    content = files.describe(args.path, args.epoch)
    return {name: content[name] for name in NOTES if name in content}


def _notes(outlook: dict[str, list[str]]) -> list[str]:
    """What an export needs to know about a net, in words."""
    return [f"note: {NOTES[name]} {listed(names, MOST_SHOWN if name == 'cut_at' else MOST_NAMES)}"
            for name, names in outlook.items() if names]


def _lines(content: dict[str, Any]) -> list[str]:
    """The lines for a terminal: first a line for each fact, and then the arrays."""
    arrays = content.pop("arrays", [])
    lines = [f"{name:<16}{_text(value)}" for name, value in content.items() if value != []]
    if arrays:
        lines.append(f"{'arrays':<16}{len(arrays)}")
    width = max((len(array["name"]) for array in arrays), default=0)
    return lines + [f"  {array['name']:<{width}}  {array['type']:<8} {tuple(array['shape'])}" for array in arrays]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return listed(f"{name} {number}" for name, number in value.items())
    return listed(map(str, value)) if isinstance(value, list) else str(value)
