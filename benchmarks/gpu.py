"""Check and time the CUDA kernels on an NVIDIA GPU, against a copy within its memory, torch and Liger-Kernel.

    python benchmarks/gpu.py --check-only --plan plan.json      # anywhere: compile, count bytes, write a plan
    python benchmarks/gpu.py --plan plan.json --json gpu.json   # on the GPU: CuPy and NumPy are enough, no MXNet
    python benchmarks/gpu.py --way mxnet                        # on the GPU: our CustomOps, through MXNet's mx.rtc

Every kernel's results are compared with NumPy's first; one that differs gets no figures. The exit status is 0, 1 where
a result differs, 2 for a misspelled command, 3 where there is no GPU: the kernels were compiled and nothing was run.
"""
import argparse
import dataclasses
import datetime
import importlib
import json
import os
import pathlib
import shlex
import statistics
import sys
import tempfile
import time
import warnings

import gpu_oracle
import numpy as np
import report

NO_GPU = 3
LARGE = 64e6   # bytes of data from which the targets hold; smaller tensors may lie in the GPU's cache
PARTS = {"forward": ("forward",), "backward": ("backward",), "both": ("forward", "backward")}


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


class CuPy:
    """Runs a plan's kernels with CuPy: ``launch(pass)`` queues one, ``time`` measures by the GPU's own clock."""
    name = "the plan's PTX through CuPy"

    def __init__(self):
        import cupy
        self.cupy, self.functions = cupy, {}
        cupy.cuda.runtime.getDeviceCount()   # raises where there is no driver
        device = cupy.cuda.Device(0)
        properties = cupy.cuda.runtime.getDeviceProperties(0)
        self.machine = {"gpu": properties["name"].decode(), "capability": device.compute_capability,
                        "driver_cuda": cupy.cuda.runtime.driverGetVersion(), "cupy": cupy.__version__}

    def load(self, programs):
        """Hand the PTX to the driver."""
        with tempfile.TemporaryDirectory() as folder:
            for number, program in enumerate(programs.values()):
                path = pathlib.Path(folder, f"{number}.ptx")
                path.write_text(program["ptx"])
                module = self.cupy.RawModule(path=str(path))
                self.functions.update((name, module.get_function(name)) for name in program["kernels"])

    def prepare(self, case, given):
        """Put the arrays of a case on the GPU; what a kernel writes is filled with NaN bits first."""
        cupy = self.cupy
        self.arrays = {name: cupy.asarray(given[name]) if name in given else
                       cupy.full(shape, np.nan, dtype) for name, (shape, dtype) in case["arrays"].items()}
        self.case, kinds = case, {"int32": np.int32, "int64": np.int64, "float64": np.float64}
        self.kernels = {part: (self.functions[p["kernel"]], tuple(p["grid"]), tuple(p["block"]), tuple(
            self.arrays[value] if kind == "array" else kinds[kind](value) for kind, value in p["arguments"]))
            for part, p in case["passes"].items()}

    def put(self, name, array):
        self.arrays[name][...] = self.cupy.asarray(array)

    def get(self, name):
        return self.cupy.asnumpy(self.arrays[name])

    def launch(self, part):
        function, grid, block, arguments = self.kernels[part]
        function(grid, block, arguments)

    def copier(self, size):
        """A function that copies so many bytes, half of them read and half written."""
        cupy = self.cupy
        source, target = cupy.zeros(size // 2, "uint8"), cupy.zeros(size // 2, "uint8")
        return lambda: cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, 0)

    def time(self, function):
        """Milliseconds on the default stream, which torch uses as well."""
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record()
        function()
        end.record()
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(start, end)

    def release(self):
        self.arrays = self.kernels = None
        self.cupy.get_default_memory_pool().free_all_blocks()


class MXNet:
    """Runs our CustomOps on ``mx.gpu(0)``; needs none of MXNet's own CUDA operators, which a new GPU lacks."""
    name = "CustomOps through mx.rtc"

    def __init__(self):
        import gluonops
        import mxnet as mx
        from gluonops import _driver
        from gluonops.core import backend
        if not backend.has_gpu():
            raise RuntimeError("MXNet sees no GPU")
        warnings.simplefilter("error", RuntimeWarning)   # a kernel that is given up on is a failure here
        self.mx, gpu = mx, _driver.examine()["gpus"][0]
        self.machine = {"gpu": gpu["name"], "capability": gpu["capability"], "mxnet": mx.__version__,
                        "gluonops": gluonops.__version__}

    def load(self, programs):
        """Nothing: mx.rtc compiles by itself."""

    def prepare(self, case, given):
        from gluonops.core import custom, registry
        entry = registry.get(case["op"])
        self.entry, self.operator = entry, custom.Operator(entry, entry.op.parse(case["attrs"]))
        self.arrays = {}
        for name, (shape, dtype) in case["arrays"].items():
            self.put(name, given.get(name, np.full(shape, np.nan, dtype)))

    def put(self, name, array):
        self.arrays[name] = self.mx.nd.array(array, dtype=array.dtype).as_in_context(self.mx.gpu(0))

    def get(self, name):
        return self.arrays[name].asnumpy()

    def launch(self, part):
        op, arrays = self.entry.op, self.arrays
        inputs, outputs = [arrays[a.name] for a in op.inputs], [arrays[o.name] for o in op.outputs]
        if part == "forward":
            self.operator.forward(True, ["write"] * len(outputs), inputs, outputs, [])
            return
        requests = ["write" if arg.has_gradient(self.operator.attrs) else "null" for arg in op.inputs]
        # The operator reads the head gradients that its contract declares; for the others anything will do.
        heads = [arrays.get(f"{out.name}_grad", arrays[out.name]) for out in op.outputs]
        gradients = [arrays.get(f"{arg.name}_grad", arrays[arg.name]) for arg in op.inputs]   # a label may have none
        self.operator.backward(requests, heads, inputs, outputs, gradients, [])

    def copier(self, size):
        source = self.mx.nd.array(np.zeros(size // 2, "uint8"), dtype="uint8").as_in_context(self.mx.gpu(0))
        target = source.copy()
        return lambda: source.copyto(target)

    def time(self, function):
        """Milliseconds from the call until the engine has nothing left to do: MXNet's own share included."""
        self.mx.nd.waitall()
        start = time.perf_counter()
        function()
        self.mx.nd.waitall()
        return (time.perf_counter() - start) * 1e3

    def release(self):
        self.arrays = None
        self.mx.nd.waitall()


WAYS = {"cupy": CuPy, "mxnet": MXNet}


class Torch:
    """torch's functions, and Liger-Kernel's, for the cases that they know; peer -> part -> function to time."""

    def __init__(self):
        self.torch = importlib.import_module("torch")
        try:
            self.liger = importlib.import_module("liger_kernel.transformers").LigerCrossEntropyLoss()
        except ImportError:
            self.liger = None

    def function(self, case):
        """The forward pass as a function of data and label, or None where torch has nothing of the kind."""
        F, attrs = self.torch.nn.functional, case["attrs"]
        if case["op"] == "reorg":
            return (lambda x, _: F.pixel_unshuffle(x, attrs.get("stride", 2))) if attrs["mode"] == "CRD" else None
        if case["op"] == "tile":
            counts = [1] * len(case["shape"])
            counts[attrs.get("axis", -1)] = attrs["tiles"]
            return lambda x, _: x.tile(counts)
        return {"abs": lambda x, _: x.abs(), "softmax": lambda x, _: x.softmax(-1),
                "softmax_cross_entropy": lambda x, label: F.cross_entropy(x, label, reduction="none")}.get(case["op"])

    def runners(self, case, given):
        torch, function = self.torch, self.function(case)
        if function is None:
            return {}
        data = torch.from_numpy(given["data"]).cuda().requires_grad_()
        label = torch.from_numpy(given["label"].astype("int64")).cuda() if "label" in given else None
        head = torch.from_numpy(given["output_grad"]).cuda()

        def forward():
            with torch.no_grad():
                return function(data, label)

        found = {"torch": {"forward": forward,
                           "both": lambda: torch.autograd.grad(function(data, label), data, head)}}
        if self.liger and case["op"] == "softmax_cross_entropy":
            logits = data.detach().clone().requires_grad_()   # its forward overwrites them with the gradient
            found["liger"] = {"both": lambda: torch.autograd.grad(self.liger(logits, label), logits)}
        return found


def measure(way, case, peers, samples):
    """Check a case, then time it; what goes into the JSON."""
    record = {key: case[key] for key in ("op", "name", "shape", "dtype")}
    record.update(bytes={part: sum(case["passes"][p]["bytes"] for p in PARTS[part]) for part in PARTS},
                  data_bytes=int(np.prod(case["shape"])) * np.dtype(case["dtype"]).itemsize, wrong=None, ms={})
    given = gpu_oracle.inputs(case)
    way.prepare(case, given)
    record["wrong"] = check(way, case, given)
    if samples and not record["wrong"]:
        steps = {("gluonops", part): lambda part=part: [way.launch(p) for p in PARTS[part]] for part in PARTS}
        steps.update({("copy", part): way.copier(record["bytes"][part]) for part in PARTS})
        for peer, parts in (peers.runners(case, given) if peers else {}).items():
            steps.update({(peer, part): function for part, function in parts.items()})
        for (peer, part), ms in timed(way, steps, samples).items():
            record["ms"].setdefault(peer, {})[part] = ms
    way.release()
    return record


def check(way, case, given):
    """What is wrong with the results, or None. Backward gets NumPy's outputs, so each kernel is judged on its own."""
    expected = gpu_oracle.forward(case, given)
    way.launch("forward")
    problems = [gpu_oracle.differs(case, name, way.get(name), array) for name, array in expected.items()]
    outputs = {name: array.astype(case["arrays"][name][1]) for name, array in expected.items()}
    for name, array in outputs.items():
        way.put(name, array)
    way.launch("backward")
    problems += [gpu_oracle.differs(case, name, way.get(name), array)
                 for name, array in gpu_oracle.backward(case, {**given, **outputs}).items()]
    return "; ".join(filter(None, problems)) or None


def timed(way, steps, samples):
    """Median milliseconds of every step, taken in turns so that a change of the GPU's clock hits all alike."""
    for function in steps.values():
        for _ in range(3):
            way.time(function)
    times = {key: [] for key in steps}
    for _ in range(samples):
        for key, function in steps.items():
            times[key].append(way.time(function))
    return {key: statistics.median(values) for key, values in times.items()}


def verdicts(records, targets=TARGETS):
    """Each target against each case it speaks of, as benchmarks/report.py prints them."""
    found = []
    for target in targets:
        for record in records:
            if record["op"] != target.op or record["data_bytes"] < LARGE:
                continue
            ours, theirs = (record["ms"].get(peer, {}).get(target.part) for peer in ("gluonops", target.than))
            ratio = theirs / ours if ours and theirs else None
            if ratio is not None or target.than == "copy":
                found.append({"case": f"{title(record)}, {target.part}",
                              "target": f"at least {target.at_least:g} x the speed of {target.than}",
                              "measured": "not measured" if ratio is None else f"{ratio:.2f} x",
                              "passed": None if ratio is None else ratio >= target.at_least})
    return found


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


def describe(plan):
    """What would be launched, and how many bytes that moves."""
    for case in plan["cases"]:
        parts = ", ".join(f"{part} {p['bytes']} bytes, grid {p['grid'][0]} x block {p['block'][0]}x{p['block'][1]}"
                          for part, p in case["passes"].items())
        yield f"{title(case)}: {parts}"
    yield f"{len(plan['cases'])} cases, {len(plan['programs'])} programs compiled, no warnings"


def load(args):
    """The plan from --plan where that file is there and is to be run, else a new one."""
    if args.plan and args.plan.exists() and not args.check_only:
        plan = json.loads(args.plan.read_text())
    else:
        import gpu_cases
        plan = gpu_cases.plan([case for case in gpu_cases.cases(args.quick) if not args.op or case.op in args.op])
        if args.plan:
            write(args.plan, plan)
    plan["cases"] = [case for case in plan["cases"] if not args.op or case["op"] in args.op]
    return plan


def write(path, data):
    """As JSON, under a temporary name first: a run that is broken off leaves no half of a file."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(part, path)


def start(args, plan):
    """The way to run, or None after a line that says why there is none."""
    try:
        return WAYS[args.way]()
    except Exception as error:   # CuPy's and the driver's own kinds among them
        reason = " ".join(str(error).split())
        print(f"no GPU to run on ({type(error).__name__}: {reason}): {len(plan['programs'])} programs for "
              f"{len(plan['cases'])} cases are compiled, and nothing was launched", file=sys.stderr)
        return None


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check-only", action="store_true", help="compile, count bytes, and launch nothing")
    parser.add_argument("--plan", type=pathlib.Path, metavar="FILE", help="run this plan; made if it is not there, and "
                        "made anew with --check-only")
    parser.add_argument("--quick", action="store_true", help="small and odd sizes, checked and not timed: for "
                        "compute-sanitizer (a plan that is there keeps its sizes)")
    parser.add_argument("--way", choices=WAYS, default="cupy", help="cupy (default): the kernels alone; mxnet: our "
                        "CustomOps through mx.rtc")
    parser.add_argument("--op", action="append", help="only this operator; may be repeated")
    parser.add_argument("--samples", type=int, default=30, help="calls that a median is taken of (default 30)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results")
    args = parser.parse_args(arguments)
    plan = load(args)
    if args.check_only:
        print("\n".join(describe(plan)))
        return 0
    way = start(args, plan)
    if way is None:
        return NO_GPU
    way.load(plan["programs"])
    try:
        peers = None if args.quick or args.way == "mxnet" else Torch()
    except ImportError:
        peers = None
    print(f"{way.name}; {way.machine}; peers: {'torch' if peers else 'none'}"
          f"{', liger' if peers and peers.liger else ''}", flush=True)
    records = []
    for case in plan["cases"]:
        records.append(measure(way, case, peers, 0 if args.quick else args.samples))
        print("\n".join(lines(records[-1])), flush=True)
    found = [] if args.quick else verdicts(records)
    if found:
        print(f"\n{report.targets_text(found)}")
    if args.json:
        write(args.json, {"date": datetime.date.today().isoformat(), "way": way.name, "machine": {
            **way.machine, "torch": peers and peers.torch.__version__}, "command": shlex.join(
                ["python", "benchmarks/gpu.py", *(os.path.basename(a) if os.path.isabs(a) else a for a in arguments)]),
            "targets": found, "cases": records})
    wrong = [record for record in records if record["wrong"]]
    print(f"{len(records)} cases, {len(wrong)} differ from NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
