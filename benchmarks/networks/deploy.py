"""Time exported networks on the CPU: run by MXNet in several ways, and beside onnxruntime and torch.

Every peer has a process of its own, and they are called in turn. A peer's output is compared with the net's first;
where it differs there are no figures for it, and the exit status is 1.
"""
from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..harness import machine, report
from ..harness.command import Benchmark
from . import exported
from .peers import AS_IT_STARTS, COMPILED, EAGER, EAGER_TUNED, NET, ORT, OURS, UNSPLIT

PEERS = (NET, *OURS, UNSPLIT, AS_IT_STARTS, ORT, EAGER, EAGER_TUNED, COMPILED)
NETS = ("yolov2", "tiny_yolov2", "darknet19")
BATCHES = (1, 8)     # images in a call
TOLERANCE = 1e-5     # a share of the largest value of the output
TARGETS = ((ORT, 1), (EAGER, 2), (EAGER_TUNED, 2))   # peer, share of its speed


def differs(got: np.ndarray | None, expected: np.ndarray) -> str | None:
    """What is wrong with an output, or None."""
    if got is None or expected is None:
        return "it failed"
    if got.size != expected.size:
        return f"output has shape {got.shape}; expected {expected.shape}"
    difference = abs(got.reshape(expected.shape) - expected).max() / abs(expected).max()
    return None if difference <= TOLERANCE else f"output is off by {difference:.1e} of the largest value"


def best(record: dict) -> str | None:
    """The fastest of ours."""
    return min((peer for peer in OURS if report.of(record, peer)), key=lambda peer: report.of(record, peer),
               default=None)


def title(record: dict) -> str:
    return f"{record['net']} {record['size']}, batch {record['batch']}"


def text(record: dict) -> str:
    """One record as lines of text."""
    return report.text(f"{title(record)}: for each image", record, best(record))


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each record."""
    return [report.compared(title(record), at_least, peer, report.speedup(record, best(record), peer))
            for record in records for peer, at_least in TARGETS]


def summary(results: dict) -> str:
    """The fastest of ours and three peers."""
    lines = []
    for record in results["cases"]:
        times = [report.of(record, peer) for peer in (best(record), ORT, EAGER, COMPILED)]
        lines.append([title(record), *report.cells(times)])
    return "\n\n".join([
        report.markdown(["milliseconds for each image", "gluonops", ORT, EAGER, "torch.compile"], lines),
        report.targets_met(verdicts(results["cases"])),
        machine.sentence(results)])


BENCHMARK = Benchmark("benchmarks.networks.deploy", __doc__, report.README, "deploy", title, text, verdicts, summary)


def main(arguments: Sequence[str]) -> int:
    parser = BENCHMARK.parser()
    exported.add_options(parser, NETS)
    args = parser.parse_args(arguments)
    if args.readme:
        return BENCHMARK.write_readme(parser, args)

    threads = exported.processors()

    def records() -> Iterator[dict]:
        for net in [exported.SMALL] if args.quick else args.net or NETS:
            for batch in BATCHES:
                record = exported.measure(net, batch, threads, PEERS, "float", differs, args)
                del record["outputs"]
                yield {**record, "batch": batch}

    return BENCHMARK.run(args, arguments, {**machine.describe(), "threads": threads}, records())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
