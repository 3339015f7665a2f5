"""Write the README's tables of layers, losses and what is supported anew: ``tools/table.py [--check]``."""
from __future__ import annotations

import argparse
import pathlib
import sys

import gluonops
from gluonops.commands import table
from gluonops.runtime import support

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is out of date")
    args = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    try:
        new = table.replace(table.replace(old, "table", table.catalogue()), "support", support.markdown())
    except gluonops.OpError as error:
        sys.exit(f"README.md: {error}")
    if old == new:
        print("The tables are up to date.")
    elif args.check:
        sys.exit("A table is out of date. Run: make table")
    else:
        README.write_text(new, encoding="utf-8")
        print("The tables are written.")


if __name__ == "__main__":
    main()
