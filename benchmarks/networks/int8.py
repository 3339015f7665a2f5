"""Time 8-bit networks on the CPU: MXNet and onnxruntime, each in float32 and in int8, with 1 and with 2 threads.

The networks have random weights. Every peer has a process of its own, and they are called in turn. Outputs are
compared with MXNet's in float32 first: where one differs too much there are no figures for it, and the exit status
is 1.

MXNet is timed twice: with all instruction sets of the processor, and with oneDNN limited to AVX2, which has no VNNI.
Nothing limits onnxruntime: without VNNI it is measured on a processor that has none.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from ..harness import report
from ..harness.declaration import Target
from .exported import Exported
from .peers import INT8, MODULE, ORT, ORT_INT8

ALL, WITHOUT_VNNI = "ALL", "AVX2"   # oneDNN's names


class Int8(Exported):
    """The command."""
    module, about, section = "benchmarks.networks.int8", __doc__, "int8"
    page = report.ROOT / "docs" / "int8.md"
    peers = MODULE, INT8, ORT, ORT_INT8
    tolerance = 0.1
    nets = "tiny_yolov2", "yolov2"
    form = "int8"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--threads", type=int, help="of every peer (default: 1, then 2)")
        parser.add_argument("--isa", choices=(ALL, WITHOUT_VNNI), help="the instruction set that MXNet's oneDNN is "
                            "limited to (default: both in turn)")

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        threads = [args.threads] if args.threads else [1, 2]
        isas = {None: [None, WITHOUT_VNNI], ALL: [None]}.get(args.isa, [args.isa])
        self.ways = [{"threads": count, "isa": isa} for isa in isas for count in threads]
        return super().records(args)

    def machine(self) -> dict:
        from gluonops.runtime import processor

        return {**super().machine(), "level": processor.used(processor.ONNXRUNTIME)}

    def title(self, record: dict) -> str:
        isa = f", {record['isa']}" if record.get("isa") else ""
        return f"{record['net']} {record['size']}, {record['threads']} thread{'s' * (record['threads'] > 1)}{isa}"

    def ours(self, record: dict) -> str:
        return INT8

    def targets(self, record: dict) -> Sequence[Target]:
        if record.get("isa"):
            return ()
        return [Target("each image", peer, at_least) for peer, at_least in ((ORT, 2.5), (ORT_INT8, 1))]

    def table(self, measured: dict) -> str:
        return "\n\n".join(filter(None, (self.part(measured["cases"], isa) for isa in (None, WITHOUT_VNNI))))

    def part(self, records: Sequence[dict], isa: str | None) -> str:
        """The table of one instruction set; nothing if there are no figures of it."""
        records = [record for record in records if record.get("isa") == isa]
        lines = [[peer, *(report.cell(record, peer, INT8) for record in records)] for peer in self.peers
                 if any(report.of(record, peer) for record in records)]
        return report.markdown(["time for an image", *map(self.title, records)], lines) if records else ""


if __name__ == "__main__":
    sys.exit(Int8().main(sys.argv[1:]))
