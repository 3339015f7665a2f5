"""Write the tables in the pages anew, of operators, layers, results and support: ``tools/table.py [--check]``."""
from __future__ import annotations

import argparse
import pathlib
import runpy
import sys

import gluonops
from gluonops.commands import table
from gluonops.runtime import support

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is out of date")
    args = parser.parse_args()
    changed = {page: text for page, text in written().items() if text != (ROOT / page).read_text(encoding="utf-8")}
    if not changed:
        print("The tables are up to date.")
    elif args.check:
        sys.exit(f"A table is out of date in {', '.join(changed)}. Run: make table")
    else:
        for page, text in changed.items():
            (ROOT / page).write_text(text, encoding="utf-8")
        print(f"The tables are written: {', '.join(changed)}.")


def tables() -> dict[str, dict[str, str]]:
    """Return for each page its tables by the names of their markers."""
    made = runpy.run_path(str(ROOT / "docs" / "tables.py"))
    return {"README.md": {"table": table.catalogue(), "support": support.markdown()},
            "docs/ops.md": {"operators": table.families()}, "docs/zoo.md": {"zoo": made["zoo"]()},
            "docs/darknet.md": {"cfgs": made["cfgs"]()},
            "docs/converters.md": {"converters": made["converters"]()},
            "docs/install.md": {"support": support.markdown(), "extras": made["extras"]()},
            "docs/reliability.md": made["reliability"](), "docs/performance.md": {"avx2": made["avx2"]()}}


def written() -> dict[str, str]:
    """Return the pages with today's tables."""
    pages = {}
    for page, of_page in tables().items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, made in of_page.items():
            try:
                text = table.replace(text, name, made)
            except gluonops.OpError as error:
                sys.exit(f"{page}: {error}")
        pages[page] = text
    return pages


if __name__ == "__main__":
    main()
