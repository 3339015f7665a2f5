"""benchmarks/gpu.py as far as a machine without a GPU allows: its cases, its oracle, its plumbing, its verdicts.

The kernels themselves are not run here. The oracle is checked against our CPU kernels, and the CuPy way with a CuPy
made of NumPy, whose kernels do what the oracle says.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import types

import mxnet as mx
import numpy as np
import pytest
from gluonops.core import registry, rtc

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def gpu():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    sys.path.insert(0, str(FOLDER))
    try:
        importlib.import_module("gpu_cases")
        yield importlib.import_module("gpu")
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def plan(gpu):
    return json.loads(json.dumps(sys.modules["gpu_cases"].plan(sys.modules["gpu_cases"].cases(quick=True))))


def run(*arguments, **variables):
    return subprocess.run([sys.executable, FOLDER / "gpu.py", *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **variables})


def test_without_a_gpu(gpu, tmp_path):
    """A line that says so, a status of its own, and a plan that is left for a machine that has one."""
    path = tmp_path / "plan.json"
    done = run("--quick", "--op", "abs", "--plan", path, CUDA_VISIBLE_DEVICES="")
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert done.returncode == 3 and not done.stdout and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("no GPU to run on (") and "are compiled, and nothing was launched" in done.stderr
    assert {case["op"] for case in json.loads(path.read_text())["cases"]} == {"abs"}
    done = run("--check-only", "--quick", "--op", "abs")
    assert done.returncode == 0 and "abs (7x149) float32: forward 8344 bytes, grid " in done.stdout


def test_bytes_are_those_of_the_tensors(plan):
    """Read once and written once; the hidden outputs and the labels count."""
    found = {(case["op"], tuple(case["shape"]), case["dtype"]): {part: p["bytes"] for part, p in case["passes"].items()}
             for case in plan["cases"]}
    assert found["abs", (7, 149), "float16"] == {"forward": 2 * 7 * 149 * 2, "backward": 3 * 7 * 149 * 2}
    assert found["tile", (7, 13), "float64"] == {"forward": (1 + 3) * 91 * 8, "backward": (3 + 1) * 91 * 8}
    rows, classes = 5, 1031
    assert found["softmax_cross_entropy", (rows, classes), "float16"] == {
        "forward": rows * classes * 2 + rows * (4 + 2 + 4 + 4),   # the label, the loss, the maximum, the logarithm
        "backward": 2 * rows * classes * 2 + rows * (4 + 2 + 4 + 4)}


def test_arguments_are_those_of_the_kernels(plan):
    kinds = {"int": "int32", "int64_t": "int64", "double": "float64"}
    for case in plan["cases"]:
        op = registry.get(case["op"]).op
        attrs = op.parse(case["attrs"])
        dtypes = {**{variable: "float32" if variable == "L" else case["dtype"] for variable in op.types}}
        dtypes["A"] = rtc.accumulator(case["dtype"])
        scalars = op.cuda.scalars(attrs, op.infer_shape(attrs, {"data": tuple(case["shape"])}))
        for part, launch in case["passes"].items():
            text = rtc.signature(op, part, dtypes, op.kinds(attrs), scalars).replace("const ", "").split(", ")
            program, = (p for p in plan["programs"].values() if launch["kernel"] in p["kernels"])
            assert f".entry {launch['kernel']}(" in program["ptx"]
            assert len(text) == len(launch["arguments"])
            for declared, (kind, value) in zip(text, launch["arguments"]):
                c_type, name = declared.split()
                if kind == "array":
                    assert (value, rtc.C_TYPES[case["arrays"][value][1]]) == (name.lstrip("*"), c_type)
                else:
                    assert kinds[c_type] == kind
            grid, block = rtc.geometry(*getattr(op.cuda, part)(attrs, {"data": tuple(case["shape"])}))
            assert (launch["grid"], launch["block"]) == (list(grid), list(block))


@pytest.fixture
def on_cpu(gpu):
    """The way through our CustomOps, on the CPU, where they run the C++ kernels."""
    class OnCPU(gpu.MXNet):
        def __init__(self):
            self.mx, self.machine = mx, {}

        def put(self, name, array):
            self.arrays[name] = mx.nd.array(array, dtype=array.dtype)

        def copier(self, size):
            source = mx.nd.zeros(size // 2, dtype="uint8")
            return lambda: source.copyto(mx.nd.empty(source.shape, dtype="uint8"))

    return OnCPU()


def test_every_case_agrees_with_the_oracle(gpu, plan, on_cpu):
    for case in plan["cases"]:
        assert gpu.measure(on_cpu, case, None, 0)["wrong"] is None, gpu.title(case)


def test_times_and_rates(gpu, plan, on_cpu):
    case = next(case for case in plan["cases"] if case["op"] == "softmax")
    record = gpu.measure(on_cpu, case, None, 2)
    assert {peer: set(ms) for peer, ms in record["ms"].items()} == {peer: {"forward", "backward", "both"}
                                                                     for peer in ("gluonops", "copy")}
    assert record["bytes"]["both"] == record["bytes"]["forward"] + record["bytes"]["backward"]
    text = list(gpu.lines(record))
    assert len(text) == 4 and "GB/s" in text[1] and "x copy" in text[1]


@pytest.mark.parametrize("op, name", [("reorg", "output"), ("softmax_cross_entropy", "max"), ("tile", "data_grad"),
                                      ("softmax_output", "data_grad")])
def test_a_wrong_element_gets_no_figures(gpu, plan, on_cpu, op, name, monkeypatch):
    case = next(case for case in plan["cases"] if case["op"] == op)
    get = type(on_cpu).get

    def spoiled(self, which):
        array = get(self, which).copy()
        array.flat[-1] += which == name
        return array

    monkeypatch.setattr(type(on_cpu), "get", spoiled)
    record = gpu.measure(on_cpu, case, None, 2)
    assert record["wrong"].startswith(f"{name} is ") and "1 of " in record["wrong"] and not record["ms"]
    assert any("MISMATCH" in line for line in gpu.lines(record))


class Function:
    """A kernel of the CuPy made of NumPy: writes what the oracle says, and checks what it is given."""

    def __init__(self, way, name):
        self.way, self.name = way, name

    def __call__(self, grid, block, arguments):
        oracle, case = sys.modules["gpu_oracle"], self.way.case
        part, = [part for part, p in case["passes"].items() if p["kernel"] == self.name]
        declared = case["passes"][part]["arguments"]
        assert len(grid) == len(block) == 3 and len(arguments) == len(declared)
        for (kind, _), argument in zip(declared, arguments):
            assert isinstance(argument, np.ndarray) if kind == "array" else argument.dtype == kind
        named = {value: argument for (kind, value), argument in zip(declared, arguments) if kind == "array"}
        given = {**oracle.inputs(case), **named}
        for name, array in getattr(oracle, part)(case, given).items():
            named[name][...] = array


@pytest.fixture
def cupy(monkeypatch):
    """As much of CuPy as gpu.py uses, out of NumPy."""
    class Event:
        def record(self):
            self.recorded = True

        synchronize = record

    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1, driverGetVersion=lambda: 13000, getDeviceProperties=lambda i: {"name": b"NumPy"},
        memcpyAsync=lambda target, source, size, kind, stream: None)
    module = types.ModuleType("cupy")
    module.__version__ = "0"
    module.asarray = module.asnumpy = np.array
    module.full, module.zeros = np.full, lambda size, dtype: types.SimpleNamespace(
        data=types.SimpleNamespace(ptr=0), nbytes=size)
    module.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    module.cuda = types.SimpleNamespace(runtime=runtime, Event=Event, get_elapsed_time=lambda start, end: 0.5,
                                        Device=lambda i: types.SimpleNamespace(compute_capability="90"))
    module.RawModule = lambda path: types.SimpleNamespace(
        get_function=lambda name: (pathlib.Path(path).read_text().index(name), Function(module.way, name))[1])
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_the_cupy_way(gpu, plan, cupy, monkeypatch, tmp_path, capsys):
    """From a plan to the JSON, with kernels that are right."""
    original = gpu.CuPy.__init__

    def remember(self):
        original(self)
        cupy.way = self

    monkeypatch.setattr(gpu.CuPy, "__init__", remember)
    monkeypatch.setattr(gpu, "Torch", lambda: (_ for _ in ()).throw(ImportError("no torch")))
    path, results = tmp_path / "plan.json", tmp_path / "gpu.json"
    path.write_text(json.dumps(plan))
    assert gpu.main(["--plan", str(path), "--json", str(results), "--samples", "2"]) == 0
    out = capsys.readouterr().out
    assert f"{len(plan['cases'])} cases, 0 differ from NumPy" in out and "1.00 x copy" in out
    written = json.loads(results.read_text())
    assert written["command"] == "python benchmarks/gpu.py --plan plan.json --json gpu.json --samples 2"
    assert written["machine"]["gpu"] == "NumPy" and len(written["cases"]) == len(plan["cases"])
    assert not list(tmp_path.glob("*.part"))


def test_targets_are_judged(gpu):
    record = {"op": "abs", "name": "abs", "shape": [2**25], "dtype": "float32", "data_bytes": 2**27, "wrong": None,
              "bytes": {}, "ms": {"gluonops": {"forward": 1.0, "backward": 1.0, "both": 2.0},
                                  "copy": {"forward": 0.95, "backward": 0.85, "both": 1.8}, "torch": {"forward": 1.2}}}
    found = {(v["case"].rsplit(", ")[-1], v["target"].split()[-1]): v for v in gpu.verdicts([record])}
    assert {key: v["passed"] for key, v in found.items()} == {
        ("forward", "copy"): True, ("backward", "copy"): False, ("forward", "torch"): True}
    assert found["backward", "copy"]["measured"] == "0.85 x"
    assert gpu.verdicts([{**record, "data_bytes": 63e6}]) == [], "it may lie in the cache"
    assert all(v["passed"] is None for v in gpu.verdicts([{**record, "ms": {}}]))
    ops = {target.op for target in gpu.TARGETS}
    assert ops == {"reorg", "tile", "abs", "softmax", "softmax_cross_entropy"}


def test_torch_computes_the_same(gpu, plan, monkeypatch):
    """The peers' outputs and gradients against the oracle, on the CPU."""
    torch = pytest.importorskip("torch", reason="torch is optional")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    oracle, peers, seen = sys.modules["gpu_oracle"], gpu.Torch(), set()
    for case in plan["cases"]:
        given = oracle.inputs(case)
        runners = peers.runners(case, given) if case["dtype"] == "float32" else {}
        if runners:
            seen.add(case["op"])
            outputs = oracle.forward(case, given)
            assert oracle.differs(case, "output", runners["torch"]["forward"]().numpy(), outputs["output"]) is None
            gradient, = runners["torch"]["both"]()
            expected = oracle.backward(case, {**given, **outputs})["data_grad"]
            assert oracle.differs(case, "data_grad", gradient.numpy(), expected) is None
    assert seen == {"abs", "reorg", "softmax", "softmax_cross_entropy", "tile"}
