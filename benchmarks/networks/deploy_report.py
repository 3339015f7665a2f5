"""What becomes of deploy.py's measurements: tables and targets. It knows the peers by name and needs no MXNet."""
import statistics

import report

MODULE, NAIVE, FUSED, NATIVE = OURS = (
    "Module", "Module, NaiveEngine", "optimize_for", "optimize_for, native reorg")
UNPADDED, UNFOLDED, NET, AS_IT_STARTS = LESS = (
    "Module, not padded", "Module, not folded", "the net, hybridized", "Module, MXNet's own settings")
ORT, EAGER, EAGER_TUNED, LAST, COMPILED = OTHERS = (
    "onnxruntime", "torch eager", "torch eager, allocator tuned", "torch eager, folded, channels last",
    "torch.compile, folded, frozen")
PEERS = (*OURS, *LESS, *OTHERS)
TARGETS = ((1, ORT), (2, EAGER), (2, EAGER_TUNED))   # how many times as fast the fastest of ours has to be


def of(case, peer):
    """Milliseconds for each image, or None."""
    return next((row["ms"] for row in case["times"] if row["peer"] == peer), None)


def best(case):
    """The fastest of ours: its name and milliseconds for each image."""
    return min(((of(case, peer), peer) for peer in OURS if of(case, peer)), default=(None, None))[::-1]


def ratio(case, peer):
    """How many times as long as the fastest of ours a peer takes: the median over the turns, which hit both alike."""
    turns = {row["peer"]: row["turns"] for row in case["times"]}
    return statistics.median(theirs / ours for theirs, ours in zip(turns[peer], turns[best(case)[0]]))


def title(case):
    return f"{case['net']} {case['size']}, batch {case['batch']}"


def _cell(case, peer):
    if peer in case["mismatches"]:
        return f"MISMATCH {case['mismatches'][peer]}"
    time, (_, ours) = of(case, peer), best(case)
    if time is None:
        return case["notes"].get(peer, "")
    return f"{time:.3g} ms ({ratio(case, peer):.2f})" if ours else f"{time:.3g} ms"


def text(case):
    """One case as lines of text."""
    width = max(map(len, PEERS))
    lines = [f"  {peer.ljust(width)}  {_cell(case, peer)}" for peer in PEERS if _cell(case, peer)]
    return "\n".join([f"{title(case)}: for each image, and times the fastest of ours", *lines])


def verdicts(results):
    """Each target against each case: (case, target, measured, passed); passed is None where nothing was measured."""
    for case in results["cases"]:
        name, ours = best(case)
        for factor, peer in TARGETS:
            aim = f"{factor} x the speed of {peer}" if factor > 1 else f"as fast as {peer}"
            if ours and of(case, peer):
                yield title(case), aim, f"{ratio(case, peer):.2f} x ({name})", ratio(case, peer) >= factor
            else:
                yield title(case), aim, "not measured", None


def _words(results):
    return [[*line, {True: "passed", False: "MISSED", None: "-"}[passed]] for *line, passed in verdicts(results)]


def targets_text(results):
    """The targets as lines of text."""
    lines = _words(results)
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0])) for line in lines)


def write_readme(results, path, short=False):
    """Put the figures between the markers of a README.

    Raises
    ------
    ValueError
        There are no markers, the run was quick, or a result was wrong.
    """
    if results["quick"]:
        raise ValueError("these results are of a --quick run, whose network says nothing; run without it")
    if any(case["mismatches"] for case in results["cases"]):
        raise ValueError("a result did not match: there are no figures to show")
    report.put(path, "deploy", (summary if short else markdown)(results))


def summary(results):
    """The fastest of ours and three peers."""
    lines = []
    for case in results["cases"]:
        _, ours = best(case)
        times = [of(case, peer) for peer in (ORT, EAGER, COMPILED)]
        lines.append([title(case), f"{ours:.3g} ms", *["" if time is None else f"{time:.3g} ms" for time in times]])
    return "\n\n".join([f"Exported networks, milliseconds for each image on {results['machine']['threads']} cores:",
                        report.table(["network", "gluonops", ORT, EAGER, "torch.compile"], lines)])


def markdown(results):
    """Machine, targets and times as Markdown."""
    found = _words(results)
    passed, judged = (sum(line[3] in words for line in found) for words in (("passed",), ("passed", "MISSED")))
    cases = results["cases"]
    rows = [[peer, *[_cell(case, peer) for case in cases]] for peer in PEERS]
    return "\n\n".join([
        f"{report.setting(results)}; onnxruntime {results['machine']['onnxruntime'] or 'not installed'}",
        f"**Targets**: {passed} of {judged} passed.", report.table(["case", "target", "measured", ""], found),
        "**Times** for each image. In brackets: times the fastest of ours.",
        report.table(["peer", *map(title, cases)], [row for row in rows if any(row[1:])])])
