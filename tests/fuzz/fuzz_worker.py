"""A process that runs cases. It says which one it begins, so that whoever reads knows what it died of.

Reads tasks, writes lines of JSON: ``begin`` a case, ``end`` with what was wrong. Hypothesis draws the cases and makes a
failing one small; a way of failing that was already made small in this process is counted, and looked for no more.
"""
import faulthandler
import json
import os
import re
import resource
import sys
import time
import traceback

import fuzz_cases
import fuzz_known
import hypothesis
import mxnet as mx

CHECKS = {}   # filled below: they import MXNet's rest
TURN = 30     # seconds of one task, in which failing cases are made small


class Failed(AssertionError):
    """One way of failing; Hypothesis tells apart what has another class."""


class Worker:
    """Runs tasks and single cases; ``say`` writes a line to whoever asked."""

    def __init__(self, say):
        self.say, self.known = say, {}

    def run(self, case):
        """Say what is wrong with one case; return the ways of failing as signatures."""
        text = fuzz_cases.to_json(case)
        self.say({"begin": text})
        try:
            found = CHECKS[type(case).__name__.lower()](case)
        except Exception:
            found = [("the tester", "fails", traceback.format_exc()[-1500:])]
        try:
            mx.nd.waitall()   # what nobody waited for
        except Exception as error:
            found = found or [("the engine", "fails", str(error)[:500])]
        failures = summary(case, found or ())
        self.say({"end": text, "judged": found is not None, "failures": failures})
        return failures

    def explore(self, op, probe, seed, examples, until):
        """Draw cases until there are enough of them, or the time is over: the session's, or this operator's turn.

        ``until`` None: there is no limit.
        """
        kinds, small = {}, {}
        until = float("inf") if until is None else min(until, time.time() + TURN)

        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=examples, database=None, deadline=None, print_blob=False,
                             suppress_health_check=list(hypothesis.HealthCheck),
                             phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink))
        @hypothesis.given(fuzz_cases.STRATEGIES[probe](op))
        def one(case):
            if time.time() > until:
                return
            for found in sorted(self.run(case)):
                if found not in self.known and not fuzz_known.reason(found):
                    small[found] = fuzz_cases.to_json(case)
                    raise kinds.setdefault(found, type("Failed", (Failed,), {}))(found)
        try:
            one()
        except (Failed, hypothesis.errors.HypothesisException, Exception) as error:
            if not small:
                self.say({"broken": f"{op} {probe} seed {seed}: {type(error).__name__}: {str(error)[-1500:]}"})
        self.known.update(small)
        self.say({"done": True})


def summary(case, found):
    """What failed by signature, the part that failures of one cause share: who fails and how, without the numbers."""
    by_kind = {}
    for where, kind, detail in found:
        backends, lines = by_kind.setdefault(re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", kind), ({}, []))
        backends[where.split(" ")[0]] = True
        lines.append(f"{where}: {kind}: {detail}")
    return {f"{case.op} {type(case).__name__.lower()}: {' '.join(backends)}: {kind}": "\n".join(lines)
            for kind, (backends, lines) in by_kind.items()}


def main(memory):
    """Serve tasks from standard input; ``memory``: bytes of address space beyond what MXNet takes when imported."""
    import fuzz_exports
    import fuzz_files
    import fuzz_hostile
    import fuzz_inference
    import fuzz_values
    CHECKS.update(values=fuzz_values.check, inference=fuzz_inference.check, hostile=fuzz_hostile.check,
                  damaged=fuzz_files.check, exported=fuzz_exports.check)
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # what libraries print is no line of ours
    faulthandler.enable()
    with open("/proc/self/statm") as statistics:
        used = int(statistics.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))

    def say(message):
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    worker = Worker(say)
    say({"ready": True})
    for line in sys.stdin:
        task = json.loads(line)
        if "case" in task:
            worker.run(fuzz_cases.from_json(task["case"]))
            say({"done": True})
        else:
            worker.explore(**task)


if __name__ == "__main__":
    main(int(sys.argv[1]))
