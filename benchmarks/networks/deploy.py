"""Time exported networks on the CPU: run by MXNet in several ways, and beside onnxruntime and torch.

Every peer has a process of its own, and they are called in turn. A peer's output is compared with the net's first;
where it differs there are no figures for it, and the exit status is 1.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence

from ..harness import report
from ..harness.declaration import Target
from .exported import Exported
from .peers import AS_IT_STARTS, COMPILED, EAGER, EAGER_TUNED, NET, ORT, OURS, UNSPLIT


class Deploy(Exported):
    """The command."""
    module, about, section = "benchmarks.networks.deploy", __doc__, "deploy"
    peers = NET, *OURS, UNSPLIT, AS_IT_STARTS, ORT, EAGER, EAGER_TUNED, COMPILED
    tolerance = 1e-5
    nets = "yolov2", "tiny_yolov2", "darknet19"
    ways = {"batch": 1}, {"batch": 8}
    form = "float"

    def title(self, record: dict) -> str:
        return f"{record['net']} {record['size']}, batch {record['batch']}"

    def ours(self, record: dict) -> str | None:
        """The fastest."""
        measured = [peer for peer in OURS if report.of(record, peer)]
        return min(measured, key=lambda peer: report.of(record, peer), default=None)

    def targets(self, record: dict) -> Sequence[Target]:
        return [Target("each image", peer, at_least) for peer, at_least in ((ORT, 1), (EAGER, 2), (EAGER_TUNED, 2))]

    def table(self, measured: dict) -> str:
        lines = []
        for record in measured["cases"]:
            times = [report.of(record, peer) for peer in (self.ours(record), ORT, EAGER, COMPILED)]
            lines.append([self.title(record), *report.cells(times)])
        return report.markdown(["milliseconds for each image", "gluonops", ORT, EAGER, "torch.compile"], lines)


if __name__ == "__main__":
    sys.exit(Deploy().main(sys.argv[1:]))
