"""Write the README's table of layers and losses anew: ``tools/table.py [--check]``."""
from __future__ import annotations

import argparse
import pathlib
import sys

import gluonops
from gluonops.commands import table

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is out of date")
    args = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    try:
        new = table.replace(old, table.catalogue())
    except gluonops.OpError as error:
        sys.exit(f"README.md: {error}")
    if old == new:
        print("the table is up to date")
    elif args.check:
        sys.exit("the table is out of date. Run: make table")
    else:
        README.write_text(new, encoding="utf-8")
        print("the table is written anew")


if __name__ == "__main__":
    main()
