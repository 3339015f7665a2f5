"""Update the support table of a Markdown file, between its markers: ``tools/table.py README.md [--check]``."""
from __future__ import annotations

import argparse
import pathlib
import sys

import gluonops  # noqa: F401  (registers the operators)
from gluonops import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the table is out of date")
    args = parser.parse_args()
    old = args.file.read_text(encoding="utf-8")
    try:
        new = table.replace(old)
    except gluonops.OpError as error:
        sys.exit(f"{args.file}: {error}")
    if old == new:
        print(f"{args.file}: the table is up to date")
    elif args.check:
        sys.exit(f"{args.file}: the table is out of date. Run: make table")
    else:
        args.file.write_text(new, encoding="utf-8")
        print(f"{args.file}: the table is written anew")


if __name__ == "__main__":
    main()
