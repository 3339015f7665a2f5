"""Time 8-bit networks on the CPU: MXNet and onnxruntime, each in float32 and in int8.

    python -m benchmarks.networks.int8 --json benchmarks/networks/int8.json   # with 1 and with 2 threads
    python -m benchmarks.networks.int8 --readme --json benchmarks/networks/int8.json

The networks have random weights. Every peer has a process of its own, and they are called in turn. Outputs are
compared with MXNet's in float32 first: where one differs too much there are no figures for it, and the exit status
is 1.
"""
from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..harness import machine, report
from ..harness.command import Benchmark
from . import exported
from .peers import INT8, MODULE, ORT, ORT_INT8

PEERS = (MODULE, INT8, ORT, ORT_INT8)
NETS = ("tiny_yolov2", "yolov2")
THREADS = (1, 2)
TOLERANCE = 0.1      # relative error of an output in 8 bits, with random weights
TARGETS = ((ORT, 2.5), (ORT_INT8, 1))   # peer, share of its speed


def relative_error(got: np.ndarray | None, expected: np.ndarray | None) -> float:
    """Root mean square of the difference, divided by that of the expected output; infinite if there is none."""
    if got is None or expected is None:
        return float("inf")
    return float(np.linalg.norm(got.ravel() - expected.ravel()) / np.linalg.norm(expected))


def differs(got: np.ndarray | None, expected: np.ndarray | None) -> str | None:
    """What is wrong with an output, or None."""
    error = relative_error(got, expected)
    return None if error <= TOLERANCE else f"its error is {error:.2g}"


def title(record: dict) -> str:
    return f"{record['net']} {record['size']}, {record['threads']} thread{'s' * (record['threads'] > 1)}"


def text(record: dict) -> str:
    errors = [f"  the error of {peer} is {error:.4f}" for peer, error in record["errors"].items()]
    return "\n".join([report.text(f"{title(record)}: for an image", record, INT8), *errors])


def verdicts(records: Iterable[dict]) -> list[dict]:
    """Each target against each record."""
    return [report.compared(title(record), at_least, peer, report.speedup(record, INT8, peer))
            for record in records for peer, at_least in TARGETS]


def summary(results: dict) -> str:
    """Times, targets and machine."""
    found = results["cases"]
    lines = [[peer, *[report.cell(record, peer, INT8) for record in found]] for peer in PEERS]
    return "\n\n".join([report.markdown(["time for an image", *map(title, found)], lines),
                        report.targets_met(verdicts(found)), machine.sentence(results)])


BENCHMARK = Benchmark("benchmarks.networks.int8", __doc__, report.ROOT / "docs" / "int8.md", "int8", title, text,
                      verdicts, summary)


def main(arguments: Sequence[str]) -> int:
    parser = BENCHMARK.parser()
    exported.add_options(parser, NETS)
    parser.add_argument("--threads", action="append", type=int, help="of every peer; may be given several times "
                        f"(default: {' and '.join(map(str, THREADS))})")
    args = parser.parse_args(arguments)
    if args.readme:
        return BENCHMARK.write_readme(parser, args)
    threads = args.threads or THREADS

    def records() -> Iterator[dict]:
        for net in [exported.SMALL] if args.quick else args.net or NETS:
            for count in threads:
                record = exported.measure(net, 1, count, PEERS, "int8", differs, args)
                outputs = record.pop("outputs")
                errors = {peer: relative_error(output, outputs[MODULE]) for peer, output in outputs.items()}
                yield {**record, "threads": count, "errors": errors}

    return BENCHMARK.run(args, arguments, {**machine.describe(), "threads": max(threads)}, records())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
