"""The picture of the results."""
from __future__ import annotations

import os

from .report import OURS, SETTINGS, limit, of


def plot(results: dict, path: str | os.PathLike) -> bool:
    """Draw the cases as dots over copyto, and time against size; False where there is nothing to draw."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = results["runs"].get("tuned") or results["runs"]["untuned"]
    bars = [case for case in measured if case["kind"] == "case" and limit(case)]
    sweeps = {}
    for setting, cases in results["runs"].items():
        for case in cases:
            if case["kind"] == "sweep" and limit(case):
                sweeps.setdefault(case["op"], {}).setdefault(setting, []).append(case)
    panels = bool(bars) + len(sweeps)
    if not panels:
        return False
    heights = [3.0] * len(sweeps)
    if bars:
        heights.insert(0, max(4.0, 0.55 * len(bars)))
    figure, axes = plt.subplots(panels, 1, figsize=(11, sum(heights)), squeeze=False, layout="constrained",
                                gridspec_kw={"height_ratios": heights})
    axes = list(axes[:, 0])
    names = sorted({peer for case in measured for peer in case["peers"]} - {OURS})
    colours = {name: f"C{i if i < 7 else i + 1}" for i, name in enumerate(names)}   # C7 is grey
    colours.update({OURS: "black", "copyto": "0.6", "identity": "0.8"})
    if bars:
        _bars(axes.pop(0), bars, colours)
    for axis, (op, by_setting) in zip(axes, sweeps.items()):
        _lines(axis, op, by_setting, colours)
    figure.suptitle(f"{results['machine']['cpu']}, {results['machine']['threads']} threads, "
                    f"MXNet {results['machine']['mxnet']}, {results['date']}")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _bars(axis, cases, colours):
    """A dot per peer on a line per case: on a logarithmic axis the length of a bar means nothing."""
    in_legend, labels = set(), []
    for line, case in enumerate(cases):
        part = "both" if case["op"] in ("softmax_cross_entropy", "softmax_output") else "forward"
        labels.append(f"{case['name']} {'x'.join(map(str, case['shape']))} {part}")
        for peer in case["peers"]:
            time = of(case, peer, "net", part)
            if time and time > 0:
                axis.plot(time / limit(case), line, "o" if peer != OURS else "D", color=colours[peer],
                          label=None if peer in in_legend else peer)
                in_legend.add(peer)
    axis.axvline(1, color="0.6", linestyle=":")
    axis.set_xscale("log")
    axis.set_xlabel("time in a hybridized net / time of numpy.copyto of the same bytes")
    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.legend(ncols=-(-len(in_legend) // 2), loc="lower center", bbox_to_anchor=(0.4, 1), frameon=False,
                fontsize="small")


def _lines(axis, op, by_setting, colours):
    for setting, cases in by_setting.items():
        for peer in ("copyto", *cases[0]["peers"]):
            points = [(case["bytes"] / 1e6, of(case, peer, "alone", "forward")) for case in cases]
            points = [point for point in points if point[1]]
            if points and (peer != "copyto" or setting == "tuned" or "tuned" not in by_setting):
                axis.plot(*zip(*points), color=colours[peer], linestyle="-" if setting == "tuned" else "--", marker=".",
                          label=peer if peer == "copyto" else f"{peer}, {SETTINGS[setting]}")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(f"{op}, alone, forward", fontsize="medium")
    axis.set_xlabel("MB")
    axis.set_ylabel("ms")
    axis.legend(fontsize="x-small")
