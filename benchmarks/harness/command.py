"""What the commands of the benchmarks share: options, saving after each case, and writing a page from results."""
from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence

from . import machine, report, results


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A command.

    Attributes
    ----------
    module : str
        As ``python -m`` has it.
    about : str
        What the command does.
    page : pathlib.Path
        With lines ``<!-- section:begin -->`` and ``<!-- section:end -->``.
    section : str
    title : callable
        Of a record: the name of its case.
    text : callable
        Of a record: what is printed.
    verdicts : callable
        Of records: the targets, judged.
    summary : callable
        Of results: what stands on the page.
    """
    module: str
    about: str
    page: pathlib.Path
    section: str
    title: Callable[[dict], str]
    text: Callable[[dict], str]
    verdicts: Callable[[Sequence[dict]], list[dict]]
    summary: Callable[[dict], str]

    def parser(self) -> argparse.ArgumentParser:
        """The options that all commands have."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.about,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--quick", action="store_true", help="small sizes, to show that it runs: no time means "
                            "anything")
        parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results, which replace those "
                            "of the same cases in the file (with --readme: read)")
        parser.add_argument("--readme", action="store_true", help="measure nothing; write the results of --json into "
                            f"{self.page.relative_to(report.ROOT)}")
        return parser

    def write_page(self, path: str | os.PathLike, page: str | os.PathLike) -> None:
        """Put a summary of results between the markers of a page.

        Raises
        ------
        ValueError
            There are no markers, the run was quick, or a result was wrong.
        """
        measured = results.load(path)
        if measured["quick"]:
            raise ValueError(f"{path} has the results of a --quick run, whose times mean nothing; run without it")
        if any(record["mismatches"] for record in measured["cases"]):
            raise ValueError(f"{path} has a result that did not match: there are no figures to show")
        report.put(page, self.section, self.summary(measured))

    def run(self, args: argparse.Namespace, arguments: Sequence[str], measured_on: dict,
            records: Iterable[dict]) -> int:
        """Print, save and judge records as they come; returns the exit status, 1 if a result was wrong."""
        measured = {"date": datetime.date.today().isoformat(), "command": machine.command(self.module, arguments),
                    "quick": args.quick, "machine": measured_on, "cases": []}
        if args.json and args.json.exists():
            measured["cases"] = results.load(args.json)["cases"]
        found = []
        for record in records:
            print(self.text(record), end="\n\n", flush=True)
            found.append(record)
            measured["cases"] = self.merged(measured["cases"], record)
            if args.json:   # after each case: a run that is stopped keeps what it has measured
                results.save(args.json, measured)
        print(report.targets_text(self.verdicts(found)))
        wrong = [f"{self.title(record)}: {peer}: {what}" for record in found
                 for peer, what in record["mismatches"].items()]
        if wrong:
            print("\nMISMATCH, no figures for:\n" + "\n".join(wrong), file=sys.stderr)
        return 1 if wrong else 0

    def merged(self, records: Sequence[dict], new: dict) -> list[dict]:
        """The records with a new one, in the place of that of the same case."""
        titles = [self.title(record) for record in records]
        if self.title(new) not in titles:
            return [*records, new]
        return [new if title == self.title(new) else record for title, record in zip(titles, records)]

    def write_readme(self, parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
        """What ``--readme`` does; returns the exit status."""
        if not args.json:
            parser.error("--readme needs --json FILE, the results to write")
        try:
            self.write_page(args.json, self.page)
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        return 0
