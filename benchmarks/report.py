"""What becomes of the measurements: the table, the targets, the plot, and the README's figures."""
import math
import pathlib
import re

OURS = "native"
SETTINGS = {"tuned": "allocator tuned", "untuned": "allocator as it is"}


def of(case, peer, way, part):
    """Milliseconds, or None where that was not measured."""
    return next((row["ms"] for row in case["times"]
                 if (row["peer"], row["way"], row["pass"]) == (peer, way, part)), None)


def limit(case):
    """Milliseconds that copyto takes."""
    return of(case, "copyto", "alone", "forward")


def amount(size):
    """Bytes as a person says them."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def title(case):
    shape = "x".join(map(str, case["shape"]))
    return f"{case['name']} ({shape}) {case['dtype']}, {amount(case['bytes'])}"


def columns(case):
    """The (way, pass) that were measured, in order."""
    found = {(row["way"], row["pass"]) for row in case["times"] if row["peer"] not in ("copyto", "identity")}
    return [(way, part) for way in ("net", "alone") for part in ("forward", "backward", "both") if (way, part) in found]


def rows(case):
    """(peer, cells): milliseconds, for ours also times copyto, for the others how many times faster ours is."""
    names = ["copyto", "identity", *case["peers"]]
    for name in names:
        if name in case["notes"]:
            yield name, [case["notes"][name]]
            continue
        if name in case["mismatches"]:
            yield name, [f"MISMATCH {case['mismatches'][name]}"]
            continue
        cells = [_cell(case, name, way, part) for way, part in columns(case)]
        if any(cells):
            yield name, cells


def _cell(case, name, way, part):
    if name == "copyto":
        return _time(limit(case))
    time = of(case, name, way, part)
    if time is None:
        return ""
    if name == OURS:
        return f"{_time(time)} ({f'{time / limit(case):.2f} x copyto' if time > 0 else 'within noise'})"
    ours = of(case, OURS, way, part)
    if ours is None or name == "identity":
        return _time(time)
    return f"{_time(time)} ({speedup(time, ours)})"


def _time(ms):
    return f"{ms:.3g} ms" if abs(ms) >= 0.1 else f"{ms * 1e3:.1f} us"


def speedup(theirs, ours):
    """How many times faster ours is; a net's time less the net without the operator can be nothing but noise."""
    return f"{theirs / ours:.1f}x" if theirs > 0 and ours > 0 else "within noise"


def text(case):
    """One case as lines of text."""
    if not case["times"]:
        return f"{title(case)}\n  {case['notes']['case']}"
    heads = [f"{way} {part}" for way, part in columns(case)]
    lines = [["", *heads], *[[name, *cells] for name, cells in rows(case)]]
    full = [line for line in lines if len(line) == len(heads) + 1]
    widths = [max(len(line[i]) for line in full) for i in range(len(heads) + 1)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) if line in full else
              f"{line[0].ljust(widths[0])}  {line[1]}" for line in lines)
    return "\n".join([title(case), *(f"  {line.rstrip()}" for line in padded)])


def slope(cases):
    """Least-squares slope of log time over log size: 1 where time is linear in size. (ours, copyto's)."""
    def fit(values):
        points = [(math.log(case["bytes"]), math.log(value)) for case, value in zip(cases, values) if value]
        if len(points) < 3:
            return None
        x0, y0 = (sum(axis) / len(points) for axis in zip(*points))
        return sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)
    return fit([of(case, OURS, "alone", "forward") for case in cases]), fit([limit(case) for case in cases])


def verdicts(targets, cases):
    """Each target against each case it speaks of.

    Returns
    -------
    list of dict
        ``case``, ``target`` and ``measured`` in words; ``passed`` True, False, or None where nothing was measured.
    """
    found = []
    for target in targets:
        matching = [case for case in cases if (case["kind"], case["op"]) == (target.kind, target.op) and case["times"]]
        if not matching:
            continue
        if not math.isnan(target.slope):
            ours, copyto = slope(matching)
            sizes = f"{amount(matching[0]['bytes'])} to {amount(matching[-1]['bytes'])}"
            found.append(_verdict(f"{target.op}, {sizes}", f"time ~ size^1, within {target.slope}", ours,
                                  lambda v, t=target: abs(v - 1) <= t.slope,
                                  lambda v, c=copyto: f"size^{v:.2f} (copyto {_power(c)})"))
            continue
        for case in matching:
            for part in target.passes:
                found.append(_judge(target, case, part))
    return found


def _power(value):
    return "not measured" if value is None else f"size^{value:.2f}"


def _judge(target, case, part):
    where = f"{title(case)}, {target.way} {part}"
    ours = of(case, OURS, target.way, part)
    if not math.isnan(target.microseconds):
        return _verdict(where, f"at most {target.microseconds:g} us", ours and ours * 1e3,
                        lambda v: v <= target.microseconds, lambda v: f"{v:.1f} us")
    theirs = limit(case) if target.than == "copyto" else of(case, target.than, target.way, part)
    if not math.isnan(target.at_most):
        return _verdict(where, f"at most {target.at_most:g} x {target.than}", ours and theirs and ours / theirs,
                        lambda v: v <= target.at_most, lambda v: f"{v:.2f} x")
    aim = f"at least {target.faster:g} x faster than" if target.faster > 1 else "faster than"
    return _verdict(where, f"{aim} {target.than}", ours and theirs and theirs / ours,
                    lambda v: v >= target.faster, lambda v: f"{v:.1f} x faster")


def _verdict(where, aim, value, passes, words):
    if value is None:
        return {"case": where, "target": aim, "measured": "not measured", "passed": None}
    if value <= 0:   # a net's time less the net without the operator
        return {"case": where, "target": aim, "measured": "within noise", "passed": None}
    return {"case": where, "target": aim, "measured": words(value), "passed": bool(passes(value))}


def word(verdict):
    return {True: "passed", False: "MISSED", None: "-"}[verdict["passed"]]


def targets_text(found):
    """The targets as a table."""
    if not found:
        return "no target speaks of these cases"
    lines = [(v["case"], v["target"], v["measured"], word(v)) for v in found]
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0])).rstrip() for line in lines)


def plot(results, path):
    """Draw the cases as bars over copyto, and time against size."""
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
    heights = [max(4.0, 0.55 * len(bars))] * bool(bars) + [3.0] * len(sweeps)
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
    named, labels = set(), []
    for line, case in enumerate(cases):
        part = "both" if case["op"] in ("softmax_cross_entropy", "softmax_output") else "forward"
        labels.append(f"{case['name']} {'x'.join(map(str, case['shape']))} {part}")
        for peer in case["peers"]:
            time = of(case, peer, "net", part)
            if time and time > 0:
                axis.plot(time / limit(case), line, "o" if peer != OURS else "D", color=colours[peer],
                          label=None if peer in named else peer)
                named.add(peer)
    axis.axvline(1, color="0.6", linestyle=":")
    axis.set_xscale("log")
    axis.set_xlabel("time in a hybridized net / time of numpy.copyto of the same bytes")
    axis.set_yticks(range(len(labels)), labels)
    axis.invert_yaxis()
    axis.legend(ncols=-(-len(named) // 2), loc="lower center", bbox_to_anchor=(0.4, 1), frameon=False, fontsize="small")


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


OTHERS = ("custom", "numpy", "torch")   # every other peer is made of MXNet's operators


def write_readme(results, path, figure=None, short=False):
    """Put the figures between the markers of a README; ``short`` is one line per case.

    Raises
    ------
    ValueError
        There are no markers, the run was quick, or a result was wrong.
    """
    marked(path, "bench")
    if results["quick"]:
        raise ValueError("these results are of a --quick run, whose sizes say nothing; run without it")
    if any(case["mismatches"] for cases in results["runs"].values() for case in cases):
        raise ValueError("a result did not match: there are no figures to show")
    put(path, "bench", (summary if short else markdown)(results, figure))


def put(path, name, body):
    """Put text between the markers of :func:`marked`."""
    page, markers = marked(path, name)
    pathlib.Path(path).write_text(markers.sub(lambda found: f"{found[1]}{body}\n{found[2]}", page), encoding="utf-8")


def marked(path, name):
    """A file's text, and the pattern of what its markers ``<!-- name:begin -->`` and ``<!-- name:end -->`` hold.

    Raises
    ------
    ValueError
        There are no markers.
    """
    page = pathlib.Path(path).read_text(encoding="utf-8")
    markers = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.S)
    if not markers.search(page):
        raise ValueError(f"{path} has no lines <!-- {name}:begin --> and <!-- {name}:end -->")
    return page, markers


def setting(results):
    """What the figures were measured on and with, and how, in a line."""
    machine = results["machine"]
    return (f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['system']}; Python {machine['python']}, MXNet {machine['mxnet']}, NumPy {machine['numpy']}, "
            f"torch {machine['torch'] or 'not installed'}, gluonops {machine['gluonops']} "
            f"({machine['target'] or 'no library'}); {results['date']}; `{results['command']}`")


def _setting(results, figure):
    """The machine, and the plot."""
    yield setting(results)
    if figure:
        yield f"![Time of every peer over copyto; time against size]({figure})"


def summary(results, figure=None):
    """One line per case: our time in a net, over copyto's, and how many times as long the peers take."""
    allocator = next(iter(results["runs"]))
    cases = [case for case in results["runs"][allocator] if case["kind"] == "case" and case["times"]]
    lines = []
    for case in cases:
        ours = of(case, OURS, "net", "both")
        times = [of(case, peer, "net", "both") for peer in OTHERS]
        own = [of(case, peer, "net", "both") for peer in case["peers"] if peer not in (OURS, "builtin", *OTHERS)]
        lines.append([title(case), _time(ours), f"{ours / limit(case):.2f}",
                      *["" if time is None else f"{time / ours:.1f}x" for time in (*times, min(own))]])
    return "\n\n".join([
        f"Forward and backward in a hybridized net, {SETTINGS[allocator]}; `copyto` is one NumPy copy of the data, and "
        "a peer's column says how many times as long it takes. `numpy` is a CustomOp as the tutorials have it.",
        table(["case", OURS, "/ copyto", *OTHERS, "the fastest of MXNet's own"], lines), *_setting(results, figure)])


def markdown(results, figure=None):
    """Machine, targets and cases as Markdown."""
    parts = list(_setting(results, figure))
    if results["targets"]:
        passed = sum(v["passed"] is True for v in results["targets"])
        judged = sum(v["passed"] is not None for v in results["targets"])
        parts.append(f"**Targets**, allocator tuned: {passed} of {judged} passed.")
        parts.append(table(["case", "target", "measured", ""], [
            [v["case"], v["target"], v["measured"], word(v)] for v in results["targets"]]))
    for setting, cases in results["runs"].items():
        parts.append(f"**Cases**, {SETTINGS[setting]}. In brackets: times copyto for `{OURS}`, and how many times "
                     f"faster `{OURS}` is for the others.")
        for case in (case for case in cases if case["kind"] != "sweep" and case["times"]):
            heads = [f"{way} {part}" for way, part in columns(case)]
            lines = [[name, *cells, *[""] * (len(heads) - len(cells))] for name, cells in rows(case)]
            parts.append(table([title(case), *heads], lines))
        sweep = [case for case in cases if case["kind"] == "sweep" and case["times"]]
        if sweep:
            parts.append(f"Time against size, alone, forward, {SETTINGS[setting]}:")
            parts.append(_sweep(sweep))
    return "\n\n".join(parts)


def _sweep(cases):
    ops = list(dict.fromkeys(case["op"] for case in cases))
    sizes = list(dict.fromkeys(case["bytes"] for case in cases))
    by = {(case["op"], case["bytes"]): case for case in cases}
    copies = {size: limit(next(by[op, size] for op in ops if (op, size) in by)) for size in sizes}
    lines = []
    for size in sizes:
        ours = [of(by[op, size], OURS, "alone", "forward") if (op, size) in by else None for op in ops]
        lines.append([amount(size), _time(copies[size]), *["" if time is None else _time(time) for time in ours]])
    return table(["data", "copyto", *[f"{OURS} {op}" for op in ops]], lines)


def table(head, lines):
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])
