"""Hard use of operators, files and exports, for as long as it is told: ``make fuzz SECONDS=600 SEED=0 OP=``.

Operators get random cases, files random damage, and exports numbers at which their operators jump. Cases run in
processes of their own with a limit on memory. One that dies or hangs is a failing case like any other. Ends with the
number of cases by operator and kind of file, and a line for each way of failing that runs it again.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import selectors
import shlex
import subprocess
import sys
import tempfile
import time

import fuzz_known

HERE = pathlib.Path(__file__).resolve().parent
PROBES = ("values", "inference", "hostile")   # An operator is probed in these ways.
OF_FILES = "damaged"
FILES = ("symbol_json", "note_json", "onnx", "params", "digest", "pretrained", "checkpoint", "library",
         "cfg", "weights", "voc_xml", "voc_list", "jpeg", "coco_json", "yolo_label", "yolo_list", "names", "png", "rec",
         "rec_index", "rec_jpeg", "idx", "idx_gz", "bmp", "config_json", "config_yaml")
OF_EXPORTS = "exported"
EXPORTS = ("rounding", "activation", "clip", "order", "where", *(
    f"{word}_{of}" for of in ("number", "two") for word in (
        "mod", "maximum", "minimum", "equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal",
        "logical_and", "logical_or", "logical_xor")))
EXAMPLES = 25   # cases of one operator and probe before it is another's turn
DEATHS = 3      # After so many, an operator's probe is left alone: every one costs a new process.


class Worker:
    """A worker process, and what it is at."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.case, self.since, self.task, self.rest = None, time.time(), None, b""

    def give(self, **task):
        self.task, self.case, self.since = task, None, time.time()
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.flush()

    def lines(self):
        """What it has said since; None once it is gone."""
        read = os.read(self.process.stdout.fileno(), 1 << 16)
        if not read:
            return None
        *lines, self.rest = (self.rest + read).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self, hangs):
        """Its exit status and last words."""
        try:
            code = self.process.wait(0 if hangs else 10)   # gone, but for what it still writes
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.seek(0)
        text = self.errors.read()[-4000:]
        self.errors.close()
        return code, text


class Session:
    """Gives tasks to workers and collects what they find."""

    def __init__(self, tasks, jobs, command, watchdog, until):
        self.tasks, self.jobs, self.command, self.watchdog, self.until = tasks, jobs, command, watchdog, until
        self.counts = collections.Counter()     # (operator, probe) -> judged cases
        self.failures = {}                      # signature -> [case, what, how often]
        self.broken = []                        # the tester's own faults
        self.deaths = collections.Counter()

    def run(self):
        """Run until the tasks or the time are over."""
        with selectors.DefaultSelector() as selector:
            for _ in range(self.jobs):
                self._start(selector)
            while selector.get_map():
                for key, _ in selector.select(timeout=1):
                    self._listen(selector, key.data)
                for key in list(selector.get_map().values()):
                    if key.data.case and time.time() - key.data.since > self.watchdog:
                        self._bury(selector, key.data, f"hangs: no answer in {self.watchdog} s")
        return self

    def unexpected(self):
        """The failures that are not known."""
        return {signature: found for signature, found in self.failures.items() if not fuzz_known.reason(signature)}

    def _start(self, selector):
        worker = Worker(self.command)
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)

    def _listen(self, selector, worker):
        lines = worker.lines()
        if lines is None:
            self._bury(selector, worker, None)
            return
        worker.since = time.time()
        for line in lines:
            if "begin" in line:
                worker.case = line["begin"]
            elif "end" in line:
                self._record(worker, line)
            elif "broken" in line:
                self.broken.append(line["broken"])
            else:
                self._next(selector, worker)

    def _next(self, selector, worker):
        """The next task of an operator and probe that does not always kill its worker."""
        task = next((task for task in self.tasks if self.deaths[task.get("op"), task.get("probe")] < DEATHS), None)
        if task is None or time.time() > self.until:
            selector.unregister(worker.process.stdout)
            worker.process.stdin.close()
            worker.process.wait()
            worker.process.stdout.close()
            worker.errors.close()
            return
        worker.give(**task)

    def _record(self, worker, line):
        case = json.loads(line["end"])
        self.counts[case["op"], case["probe"]] += line["judged"]
        worker.case = None
        for signature, what in line["failures"].items():
            self._fail(signature, line["end"], what)

    def _fail(self, signature, case, what):
        known = self.failures.setdefault(signature, [case, what, 0])
        if len(case) <= len(known[0]):   # the smallest
            known[:2] = case, what
        known[2] += 1

    def _bury(self, selector, worker, why):
        """A worker that is gone: a failing case, and a new worker."""
        selector.unregister(worker.process.stdout)
        task, case = worker.task or {}, worker.case
        code, text = worker.end(hangs=why is not None)
        why = why or f"the process died with {code}"
        if case is None:
            self.broken.append(f"between cases of {task}, {why}: {text}")
            self.deaths[task.get("op"), task.get("probe")] += 1
            if not task or len(self.broken) > DEATHS:
                return
        else:
            fields = json.loads(case)
            self.deaths[fields["op"], fields["probe"]] += 1
            self.counts[fields["op"], fields["probe"]] += 1
            self._fail(f"{fields['op']} {fields['probe']}: {why}", case, f"{why}\n{text}")
        if time.time() < self.until:
            self._start(selector)


def all_pairs():
    """Every operator with its probes, and every kind of file and every export of what jumps with its own."""
    return [*itertools.product(operator_names(), PROBES), *((name, OF_FILES) for name in FILES),
            *((name, OF_EXPORTS) for name in EXPORTS)]


def exploration(pairs, seed, examples, rounds, until):
    """Tasks: the pairs of operator and probe in turn, with seeds of their own every round; ``rounds`` None: no end."""
    numbers = itertools.count() if rounds is None else range(rounds)
    for number in numbers:
        for op, probe in pairs:
            yield {"op": op, "probe": probe, "seed": random.Random(f"{seed} {number} {op} {probe}").getrandbits(32),
                   "examples": examples, "until": until}


def again(case):
    """The command that runs a case again, from the repository's root."""
    return f"{shlex.quote(os.path.relpath(sys.executable))} tests/fuzz/fuzz_driver.py --case {shlex.quote(case)}"


def report(session):
    """The numbers of cases, and every way of failing."""
    probes = (*PROBES, OF_FILES, OF_EXPORTS)
    tried = sorted({op for op, _ in session.counts})
    lines = [f"{'operator or file':32}" + "".join(f"{probe:>12}" for probe in probes)]
    lines += [f"{op:32}" + "".join(f"{session.counts[op, probe] or '':12}" for probe in probes) for op in tried]
    lines += [f"{'all':32}" + "".join(f"{sum(session.counts[op, probe] for op in tried):12}" for probe in probes)]
    for signature, (case, what, count) in sorted(session.unexpected().items()):
        lines += ["", f"FAILED {count} times: {signature}", *(f"  {line}" for line in what.splitlines()[-25:]),
                  f"  {again(case)}"]
    known = collections.Counter()
    for signature, (_, _, count) in session.failures.items():
        known[fuzz_known.reason(signature)] += count
    lines += [f"\nknown, {count} times: {why}" for why, count in known.items() if why]
    lines += [f"\nTHE TESTER ITSELF FAILED: {text}" for text in session.broken]
    lines += ["", f"{len(session.unexpected())} ways of failing in {sum(session.counts.values())} cases"]
    return "\n".join(lines)


def operator_names():
    """The names of the operators, without importing MXNet into this process."""
    folder = HERE.parents[1] / "gluonops" / "ops"
    return sorted(path.parent.name for path in folder.glob("[!_]*/contract.py"))


def worker_command(gibibytes=4):
    """What starts a worker, with a limit on what it may take beyond MXNet's own."""
    return [sys.executable, str(HERE / "fuzz_worker.py"), str(gibibytes << 30)]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default 600)")
    parser.add_argument("--seed", default="0", help="what the cases are drawn from (default 0)")
    parser.add_argument("--op", action="append", choices=[*operator_names(), *FILES, *EXPORTS], metavar="NAME",
                        help="an operator, a kind of file or of export; may be repeated (default: all)")
    parser.add_argument("--probe", action="append", choices=(*PROBES, OF_FILES, OF_EXPORTS),
                        help="what is tried (default: everything)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one per processor)")
    parser.add_argument("--memory", type=int, default=4, help="GiB that each may take (default 4)")
    parser.add_argument("--watchdog", type=float, default=120, help="seconds without an answer that are a hang")
    parser.add_argument("--case", help="run this case alone")
    options = parser.parse_args()
    until = time.time() + options.seconds
    pairs = [(op, probe) for op, probe in all_pairs()
             if op in (options.op or [op]) and probe in (options.probe or [probe])]
    tasks = exploration(pairs, options.seed, EXAMPLES, None, until)
    if options.case:
        tasks, options.jobs = iter([{"case": options.case}]), 1
    session = Session(tasks, options.jobs, worker_command(options.memory), options.watchdog, until).run()
    print(report(session))
    sys.exit(bool(session.unexpected() or session.broken))


if __name__ == "__main__":
    main()
