"""What the commands of the benchmarks share: options, saving after each case, judging, and writing a page."""
from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import sys
from collections.abc import Iterable, Sequence

from . import machine, report, results
from .declaration import Target


class Benchmark:
    """A command. Derive from it, and exit with what :meth:`main` returns.

    ``module``: as ``python -m`` has it. ``about`` is what it does. ``page`` has the lines ``<!-- section:begin -->``
    and ``<!-- section:end -->``. ``columns`` are the parts that a peer has times of, and what the rows of each have,
    such as ``{"forward": {"pass": "forward"}}``. A command also has ``records(args)``, which measures;
    ``title(record)``, the name of a case; ``ours(record)``, the peer that others are compared with; and
    ``table(measured)``, for the page.
    """
    page = report.README

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Options of this command alone."""

    def machine(self) -> dict:
        """What the figures depend on."""
        return machine.describe()

    def targets(self, record: dict) -> Iterable[Target]:
        """The targets that speak of a record."""
        return ()

    def speed(self, record: dict, target: Target) -> float | None:
        """How many times as long as ours the peer of a target takes."""
        return report.speedup(record, self.ours(record), target.than, **self.columns[target.part])

    def made_on(self, measured: dict) -> str:
        """The machine and the command, in a line."""
        return machine.sentence(measured)

    def summary(self, measured: dict) -> str:
        """All that stands on the page."""
        passed = [verdict["passed"] for verdict in self.verdicts(measured["cases"]) if verdict["passed"] is not None]
        return "\n\n".join([self.table(measured), f"{sum(passed)} of {len(passed)} targets are met.",
                            self.made_on(measured)])

    def verdicts(self, records: Iterable[dict]) -> list[dict]:
        """Each target, judged."""
        return [report.compared(f"{self.title(record)}, {target.part}", target.at_least, target.than,
                                self.speed(record, target))
                for record in records for target in self.targets(record)]

    def text(self, record: dict) -> str:
        """What is printed of a record."""
        return report.text(self.title(record), record, self.ours(record), self.columns)

    def parser(self) -> argparse.ArgumentParser:
        """The options that all commands have, and this one's."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.about,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--quick", action="store_true", help="small sizes, to show that it runs: no time means "
                            "anything")
        parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results, which replace those "
                            "of the same cases in the file (with --readme: read)")
        parser.add_argument("--readme", action="store_true", help="measure nothing; write the results of --json into "
                            f"{self.page.relative_to(report.ROOT)}")
        self.add_options(parser)
        return parser

    def main(self, arguments: Sequence[str]) -> int:
        """Measure, or write the page; returns the exit status."""
        parser = self.parser()
        args = parser.parse_args(arguments)
        if not args.readme:
            return self.run(args, arguments)
        if not args.json:
            parser.error("--readme needs --json FILE, the results to write")
        try:
            self.write_page(args.json, self.page)
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        return 0

    def write_page(self, path: str | os.PathLike, page: str | os.PathLike) -> None:
        """Put a summary of results on a page. A ValueError is raised if the run was quick, or a result wrong."""
        measured = results.load(path)
        if measured["quick"]:
            raise ValueError(f"{path} has the results of a --quick run, whose times mean nothing; run without it")
        if any(record["mismatches"] for record in measured["cases"]):
            raise ValueError(f"{path} has a result that did not match: there are no figures to show")
        report.put(page, self.section, self.summary(measured))

    def run(self, args: argparse.Namespace, arguments: Sequence[str]) -> int:
        """Print, save and judge records as they come; returns the exit status, 1 if a result was wrong."""
        measured = {"date": datetime.date.today().isoformat(), "command": machine.command(self.module, arguments),
                    "quick": args.quick, "machine": self.machine(), "cases": []}
        if args.json and args.json.exists():
            measured["cases"] = results.load(args.json)["cases"]
        cases = {self.title(record): record for record in measured["cases"]}
        records = []
        for record in self.records(args):
            print(self.text(record), end="\n\n", flush=True)
            records.append(record)
            cases[self.title(record)] = record
            if args.json:   # A run that is stopped keeps what it has measured.
                results.save(args.json, {**measured, "cases": list(cases.values())})
        words = {True: "passed", False: "MISSED", None: "-"}
        verdicts = [[v["case"], v["target"], v["measured"], words[v["passed"]]] for v in self.verdicts(records)]
        print("\n".join(report.aligned(verdicts) if verdicts else ["no target speaks of these cases"]))
        wrong = [f"{self.title(record)}: {peer}: {what}" for record in records
                 for peer, what in record["mismatches"].items()]
        if wrong:
            print("\nMISMATCH, no figures for:\n" + "\n".join(wrong), file=sys.stderr)
        return 1 if wrong else 0
