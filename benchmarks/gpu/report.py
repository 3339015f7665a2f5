"""The targets of benchmarks/gpu.py, and its results as text."""
import dataclasses

import gpu_peers
import report

LARGE = 64e6   # bytes of data from which the targets hold; smaller tensors may lie in the GPU's cache


@dataclasses.dataclass(frozen=True)
class Target:
    """``at_least``: of the speed of the peer, which for copy is that of a copy of as many bytes."""
    op: str
    part: str
    than: str
    at_least: float


TARGETS = (
    *(Target(op, part, "copy", 0.9) for op in ("reorg", "tile", "abs") for part in ("forward", "backward")),
    *(Target(op, "both", "copy", 0.8) for op in ("softmax", "softmax_cross_entropy")),
    *(Target(op, part, "torch", 1) for op in ("reorg", "tile", "abs", "softmax", "softmax_cross_entropy")
      for part in ("forward", "both")),
    Target("softmax_cross_entropy", "both", "liger", 1),
)


def verdicts(records, targets=TARGETS):
    """Each target against each case it speaks of, as benchmarks/report.py prints them: not measured where the peer, or
    we, have no time. A case that the peer has no function for is none of the target's."""
    found = []
    for target in targets:
        for record in records:
            if record["op"] != target.op or record["data_bytes"] < LARGE:
                continue
            if target.than != "copy" and target.than not in record["counterparts"]:
                continue
            ours, theirs = (record["ms"].get(peer, {}).get(target.part) for peer in ("gluonops", target.than))
            ratio = theirs / ours if ours and theirs else None
            found.append({"case": f"{title(record)}, {target.part}",
                          "target": f"at least {target.at_least:g} x the speed of {target.than}",
                          "measured": "not measured" if ratio is None else f"{ratio:.2f} x",
                          "passed": None if ratio is None else ratio >= target.at_least})
    return found


def counterparts(case):
    """The peers that have a function for a case."""
    return [peer for peer in ("torch", "liger") if gpu_peers.counterpart(peer, case)]


def title(case):
    return f"{case['name']} ({'x'.join(map(str, case['shape']))}) {case['dtype']}"


def lines(record):
    """A case as lines of text: time, rate, and how many times faster than each peer."""
    yield title(record)
    if record["wrong"]:
        yield f"  MISMATCH {record['wrong']}"
    for part, ms in record["ms"].get("gluonops", {}).items():
        others = ", ".join(f"{record['ms'][peer][part] / ms:.2f} x {peer}" for peer in record["ms"]
                           if peer != "gluonops" and part in record["ms"][peer])
        yield (f"  {part:<9}{report.amount(record['bytes'][part]):>10}  {ms:8.4f} ms  "
               f"{record['bytes'][part] / ms / 1e6:7.0f} GB/s  {others}")
    if record["with_launches"]:
        yield f"  the cost of launching is in: {', '.join(record['with_launches'])}"


def describe(plan):
    """What would be launched, and how many bytes that moves."""
    for case in plan["cases"]:
        parts = ", ".join(f"{part} {p['bytes']} bytes, grid {p['grid'][0]} x block {p['block'][0]}x{p['block'][1]}"
                          for part, p in case["passes"].items())
        yield f"{title(case)}: {parts}"
    yield f"{len(plan['cases'])} cases, {len(plan['programs'])} programs compiled, no warnings"
