"""Time 8-bit networks on the CPU: MXNet and onnxruntime, each in float32 and in int8, with 1 and with 2 threads.

The networks have random weights. Every peer has a process of its own, and they are called in turn. Outputs are
compared with MXNet's in float32 first: where one differs too much there are no figures for it, and the exit status
is 1.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from ..harness import report
from ..harness.declaration import Target
from .exported import Exported
from .peers import INT8, MODULE, ORT, ORT_INT8


class Int8(Exported):
    """The command."""
    module, about, section = "benchmarks.networks.int8", __doc__, "int8"
    page = report.ROOT / "docs" / "int8.md"
    peers = MODULE, INT8, ORT, ORT_INT8
    tolerance = 0.1
    nets = "tiny_yolov2", "yolov2"
    ways = {"threads": 1}, {"threads": 2}
    form = "int8"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--threads", type=int, help="of every peer (default: 1, then 2)")

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        if args.threads:
            self.ways = [{"threads": args.threads}]
        return super().records(args)

    def title(self, record: dict) -> str:
        return f"{record['net']} {record['size']}, {record['threads']} thread{'s' * (record['threads'] > 1)}"

    def ours(self, record: dict) -> str:
        return INT8

    def targets(self, record: dict) -> Sequence[Target]:
        return [Target("each image", peer, at_least) for peer, at_least in ((ORT, 2.5), (ORT_INT8, 1))]

    def table(self, measured: dict) -> str:
        records = measured["cases"]
        lines = [[peer, *(report.cell(record, peer, INT8) for record in records)] for peer in self.peers]
        return report.markdown(["time for an image", *map(self.title, records)], lines)


if __name__ == "__main__":
    sys.exit(Int8().main(sys.argv[1:]))
