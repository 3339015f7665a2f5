"""Write the operators' tables anew, from the contracts: ``tools/table.py [--check]``."""
from __future__ import annotations

import argparse
import pathlib
import sys

import gluonops
from gluonops import table

ROOT = pathlib.Path(__file__).resolve().parents[1]


def tables() -> dict[str, str]:
    """The files with a table between its markers, and what it has to be."""
    return {"README.md": table.catalogue(), "docs/ops.md": table.sections("ops")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is out of date")
    args = parser.parse_args()
    for name, text in tables().items():
        update(name, text, args.check)


def update(name: str, text: str, check: bool) -> None:
    """Write a file's table, or only compare it."""
    path = ROOT / name
    old = path.read_text(encoding="utf-8")
    try:
        new = table.replace(old, text)
    except gluonops.OpError as error:
        sys.exit(f"{name}: {error}")
    if old == new:
        print(f"{name}: the table is up to date")
    elif check:
        sys.exit(f"{name}: the table is out of date. Run: make table")
    else:
        path.write_text(new, encoding="utf-8")
        print(f"{name}: the table is written anew")


if __name__ == "__main__":
    main()
