"""benchmarks/gpu as far as a machine without a GPU allows: its cases, its oracle, its plumbing, its verdicts.

The oracles are checked against our CPU kernels, the runner of MXNet with the CUDA kernels in the emulator, and
that of CuPy with a CuPy made of NumPy, whose kernels do what the oracles say.
"""
import contextlib
import json
import pathlib
import sys

import cuda_emulator
import fresh
import mxnet as mx
import mxnet_runner
import numpy as np
import numpy_cupy
import pytest
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import compare, peers, runners
from benchmarks.gpu import plan as plans
from benchmarks.harness import cases as declared
from benchmarks.harness import results as files
from benchmarks.harness.declaration import Declaration
from gluonops.backends import nodes
from gluonops.bench.cases import typical
from gluonops.contract import registry
from gluonops.cuda import record, rtc

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gpu():
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu11 has no wheel here")
    return program


@contextlib.contextmanager
def uncompiled():
    """Plans without PTX, which takes over a minute for all types: in its place stand the kernels' names."""
    def named(compiler, op, types):
        names = [rtc.export_name(op, direction, types) for direction in ("forward", "backward")]
        return {"ptx": "".join(f".entry {name}(" for name in names), "names": {name: name for name in names}}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "_compile", named)
        yield


@pytest.fixture(scope="module")
def plan(gpu):
    """The quick plan."""
    with uncompiled():
        return json.loads(json.dumps(plans.make(declared.on_gpu(rtc.operators(), quick=True))))


def test_every_operator_and_path_is_among_the_quick_cases(plan):
    """So are all types, adding, offsets, tables, rows of several blocks and gradients of dense labels."""
    cases = plan["cases"]
    assert {case["op"] for case in cases} == set(rtc.operators())
    for name in rtc.operators():
        mine = [case for case in cases if case["op"] == name]
        assert {case["dtype"] for case in mine} == set(registry.get(name).op.types["T"])
        assert {case["request"] for case in mine} == {"write", "add"} and {case["offset"] for case in mine} == {0, 1, 3}
        assert len({case["arrays"]["label"][1] for case in mine if "label" in case["arrays"]}) in (0, 3)
    for op in ("softmax", "softmax_cross_entropy", "softmax_output"):
        mine = [case for case in cases if case["op"] == op]
        assert {planned["grid"][1] > 1 for case in mine for planned in case["passes"].values()} == {False, True}
        assert {case["attrs"]["axis"] for case in mine} >= {1, -1}
    assert any("label_grad" in case["passes"]["backward"]["written"] for case in cases if "backward" in case["passes"])
    assert {case["op"] for case in cases if case["tables"]} >= {"region_decode", "softmax_cross_entropy"}


@pytest.mark.parametrize("op", ["center_loss", "softmax_cross_entropy"])
def test_an_operator_without_rows_is_checked_on_the_cases_of_its_suite(gpu, on_cpu, op, monkeypatch):
    """A new operator needs no file in benchmarks/."""
    monkeypatch.setattr(declared, "declared", lambda name: Declaration())
    monkeypatch.setattr(compare, "declared", declared.declared)
    large, = declared.on_gpu([op])
    assert large.shape == typical(op).shapes["data"]
    quick = [case for case in declared.on_gpu([op], quick=True) if np.prod(case.shape) < 300]
    assert {case.dtype for case in quick} == {"float16", "float32", "float64"}
    assert {case.request for case in quick} == {"write", "add"} and {case.offset for case in quick} == {0, 1, 3}
    with uncompiled():
        made = plans.make(quick)
    for case in made["cases"]:
        assert compare.sample(case) is None
        assert gpu.measure(on_cpu, case, 0)["mismatches"] == {}, case["name"]


def test_a_plan_is_compiled(gpu):
    """The names in it are those of the PTX's entries."""
    case = declared.Case("center_loss", (3, 5), "float16", more={"centers": (2, 5)}, label="uint8")
    made = plans.make([case])
    program, = made["programs"].values()
    for part in made["cases"][0]["passes"].values():
        assert f".entry {part['kernel']}(" in program["ptx"]


@pytest.fixture
def cupy(gpu, monkeypatch):
    """A CuPy made of NumPy, which knows the runner on it."""
    module = numpy_cupy.module()
    prepare = runners.CuPy.prepare

    def remember(runner, *arguments):
        module.runner = runner
        prepare(runner, *arguments)

    monkeypatch.setattr(runners.CuPy, "prepare", remember)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_without_a_gpu(gpu, cupy, tmp_path, monkeypatch, capsys):
    """A line says so, the exit status is its own, and the plan is left for a machine that has one."""
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    path = tmp_path / "plan.json"
    with uncompiled():
        assert gpu.main(["--quick", "--op", "abs", "--plan", str(path)]) == 3
    out, error = capsys.readouterr()
    assert not out and len(error.splitlines()) == 1
    assert error.startswith("no GPU to run on (the driver sees none): 7 programs for 10 cases are compiled")
    assert {case["op"] for case in files.load(path)["cases"]} == {"abs"}


def test_a_plan_is_written_anywhere(gpu):
    done = fresh.python("-m", "benchmarks.gpu", "--check-only", "--quick", "--op", "swish", cwd=ROOT)
    assert done.returncode == 0 and done.stdout == "7 cases, 3 programs compiled, no warnings\n"


@pytest.mark.parametrize("missing, words", [("cupy", ["--plan", "plan.json"]), ("gluonops.cuda", [])])
def test_a_missing_package_is_no_missing_gpu(gpu, missing, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    pathlib.Path("plan.json").write_text(json.dumps({"cases": [{}], "programs": {}}))
    assert gpu.main(words) == 4
    error = capsys.readouterr().err
    package, _, _ = missing.partition(".")
    assert error.startswith(f"{package} cannot be imported: ") and "nstall" in error and "GPU" not in error


def test_a_misspelled_operator_is_no_success(gpu, plan, tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    with pytest.raises(SystemExit) as caught:
        gpu.main(["--plan", str(path), "--op", "sotfmax"])
    assert caught.value.code == 2 and "there are no cases of sotfmax" in capsys.readouterr().err


def test_what_goes_wrong_on_a_gpu_is_not_hidden(gpu, cupy, tmp_path, capsys, monkeypatch):
    """No driver is status 3; any other failure is a failure."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"cases": [{}], "programs": {}}))
    for error, status in ((cupy.cuda.runtime.CUDARuntimeError("cudaErrorNoDevice"), 3), (ValueError("broken"), None)):
        def fail(error=error):
            raise error

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fail)
        if status is None:
            with pytest.raises(ValueError, match="broken"):
                gpu.main(["--plan", str(path)])
        else:
            assert gpu.main(["--plan", str(path)]) == status
            assert capsys.readouterr().err.startswith("no GPU to run on (cudaErrorNoDevice)")


def test_bytes_are_those_of_the_tensors(plan):
    """Each is read once or written once; the hidden outputs and the labels count."""
    found = {(case["name"], tuple(case["shape"]), case["dtype"]): {part: p["bytes"] for part, p in
                                                                  case["passes"].items()} for case in plan["cases"]}
    assert found["abs", (7, 149), "float16"] == {"forward": 2 * 7 * 149 * 2, "backward": 3 * 7 * 149 * 2}
    assert found["abs", (7, 149), "int64"] == {"forward": 2 * 7 * 149 * 8}
    assert found["tile tiles=3", (7, 13), "float64"] == {"forward": (1 + 3) * 91 * 8, "backward": (3 + 1) * 91 * 8}
    rows, classes = 5, 1031
    assert found["softmax_cross_entropy", (rows, classes), "float16"] == {
        "forward": rows * classes * 2 + rows * (4 + 2 + 4 + 4),   # the label, the loss, the maximum, the logarithm
        "backward": 2 * rows * classes * 2 + rows * (4 + 2 + 4 + 4)}


def test_arguments_are_those_of_the_kernels(plan):
    kinds = {"int": "int32", "int64_t": "int64", "double": "float64"}
    for case in plan["cases"]:
        op = registry.get(case["op"]).op
        attrs, shapes = op.parse(case["attrs"]), {t.name: tuple(case["arrays"][t.name][0]) for t in op.tensors}
        label = {"region_loss": "seen"}.get(case["op"], "label")
        label = case["arrays"][label][1] if label in case["arrays"] and case["attrs"].get("sparse_label", True) \
            else "float32"
        dtypes = {variable: label if variable == "L" else case["dtype"] for variable in op.types}
        dtypes["A"] = rtc.accumulator(case["dtype"])
        given = record.plan(op, "forward", attrs, shapes, case["dtype"]).arguments
        assert case["tables"] == {name: list(v) for name, v in given.items() if isinstance(v, tuple)}
        for part, launch in case["passes"].items():
            text = record.signature(op, part, dtypes).replace("const ", "").split(", ")
            assert launch["kernel"] == rtc.export_name(op, part, dtypes)
            planned = record.plan(op, part, attrs, shapes, case["dtype"])
            assert (launch["grid"], launch["block"]) == tuple(map(list, rtc.geometry(planned.launch)))
            assert len(launch["launches"]) == len(planned.steps)
            for step, arguments in zip(planned.steps, launch["launches"]):
                assert len(text) == len(arguments)
                for parameter, (kind, value) in zip(text, arguments):
                    c_type, name = parameter.split()
                    if kind == "array":
                        assert rtc.C_TYPES[case["arrays"][value][1]] == c_type
                        assert value.removeprefix(f"{part}_") == name.lstrip("*")
                    else:
                        assert kinds[c_type] == kind and (name != "step" or value == step)


@pytest.fixture
def on_cpu(gpu):
    """The runner of MXNet, on the CPU, where our operators run the C++ kernels."""
    return mxnet_runner.MXNet(mx.cpu(0))


def few(plan, op, dtypes=("float32",), size=3000):
    """The first typical case of an operator, one that is added to, and one behind an odd address."""
    cases = [case for case in plan["cases"] if case["op"] == op and case["dtype"] in dtypes
             and np.prod(case["shape"]) < size]
    kinds = {(case["request"], case["offset"]): case for case in reversed(cases)}
    return list(kinds.values())


@pytest.mark.parametrize("op", rtc.operators())
def test_the_oracle_agrees_with_our_cpu_kernels(gpu, plan, on_cpu, op):
    for case in few(plan, op):
        assert gpu.measure(on_cpu, case, 0)["mismatches"] == {}, case["name"]


@pytest.mark.gpu
@pytest.mark.parametrize("op", rtc.operators())
def test_mxnet_on_a_gpu(gpu, plan, op):
    runner = mxnet_runner.MXNet(mx.gpu(0))
    for case in plan["cases"]:
        if case["op"] == op:
            assert gpu.measure(runner, case, 0)["mismatches"] == {}, case["name"]


@pytest.fixture
def emulated(monkeypatch, on_cpu):
    """The same with the CUDA kernels, and MXNet's custom backend as it is on a GPU: without its guard from oneDNN."""
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    cuda_emulator.install(monkeypatch)
    monkeypatch.setattr(nodes, "needs_plain_layout", lambda space, inputs: False)
    yield on_cpu
    mx.nd.waitall()


def ran(function, path):
    """The operators of MXNet that a function runs, as MXNet's profiler has them."""
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(path))
    mx.profiler.set_state("run")
    try:
        function()
        mx.nd.waitall()
    finally:
        mx.profiler.set_state("stop")
    return set(json.loads(mx.profiler.dumps(reset=True, format="json"))["Time"].get("operator", {}))


# The runner does the same for every operator. These differ in what it has to hand over: labels and a hidden output,
# several gradients, a table of anchors, elements that only move. The kernels of the others are tested in tests/ops.
VARIED = ("softmax_cross_entropy", "center_loss", "region_loss", "tile", "rms_norm")


@pytest.mark.parametrize("op", [pytest.param(op, marks=[] if op in VARIED else pytest.mark.slow)
                                for op in rtc.operators()])
def test_mxnet_with_the_cuda_kernels(gpu, plan, emulated, op, tmp_path):
    """All outputs are compared, hidden ones included, for a typical case, views, and adding.

    Nothing runs but copies and our nodes: a stripped MXNet has no kernel for anything else.
    """
    profile = tmp_path / "profile.json"
    harmless = ran(lambda: mx.nd.array([1.0]).copyto(mx.cpu(0)), profile) | {"DeleteVariable", "WaitForVar"}
    assert ran(lambda: mx.nd.array([1.0]).attach_grad(), profile) - harmless, "the profiler would show it"
    cases, records = few(plan, op, size=1100), []
    assert ran(lambda: records.extend(gpu.measure(emulated, case, 0) for case in cases), profile) <= harmless
    assert [record["mismatches"] for record in records] == [{}] * len(cases) and cases
    launched = {name.split("<")[0] for name, _, _ in cuda_emulator.launches}
    assert launched == {f"{op}_forward", f"{op}_backward"}


@pytest.mark.parametrize("op, name", [("reorg", "output"), ("softmax_cross_entropy", "output"), ("tile", "data_grad"),
                                      ("softmax_output", "data_grad"), ("center_loss", "centers_grad"),
                                      ("region_loss", "parts"), ("softmax_cross_entropy", "log_sum"),
                                      ("region_loss", "gradient")])
def test_a_wrong_element_gets_no_figures(gpu, plan, on_cpu, op, name, monkeypatch):
    case = next(case for case in plan["cases"] if case["op"] == op)
    right = type(on_cpu).run

    def spoiled(self, outputs):
        results, added = right(self, outputs)
        results[name].flat[-1] += 1
        return results, added

    monkeypatch.setattr(type(on_cpu), "run", spoiled)
    record = gpu.measure(on_cpu, case, 2)
    wrong, = record["mismatches"].values()
    assert wrong.startswith(f"{name} is ") and "1 of " in wrong and not record["times"]
    assert "MISMATCH" in gpu.Gpu().text(record)


def test_large_cases_are_compared_by_samples(gpu, plan, monkeypatch):
    """They hold the first row and the last one; a wrong row is named by its place, and a NaN anywhere is seen."""
    for case in plan["cases"]:
        assert compare.sample(case) is None
    monkeypatch.setattr(type(declared.declared("softmax")), "COMPARED", 1 << 14)
    case = {**next(case for case in plan["cases"] if case["name"] == "softmax" and case["shape"] == [37, 7])}
    large = {**case, "shape": [1 << 9, 64], "arrays": {**case["arrays"], **{
        name: [[1 << 9, 64], "float32"] for name in ("data", "output", "output_grad", "data_grad")}}}
    rows, given = compare.sample(large), compare.inputs(large)
    assert rows[0] == 0 and rows[-1] == (1 << 9) - 1 and 160 < len(rows) < 1 << 8
    wanted = compare.expected(large, given, rows)
    results = compare.expected(large, given)["output"].astype("float32")
    assert compare.differs(large, "output", results, wanted["output"], rows) is None
    results[-1, 5] = 7
    assert compare.differs(large, "output", results, wanted["output"], rows).startswith("output is 7 at (511, 5); ")
    unseen = np.setdiff1d(np.arange(1 << 9), rows)[3]
    results[unseen, 1] = np.nan
    assert "output has 1 NaN of " in compare.differs(large, "output", results, wanted["output"], rows)
    assert compare.sample({**large, "attrs": {**case["attrs"], "axis": 0}}) is None


def test_cupy(gpu, plan, cupy, monkeypatch, tmp_path, capsys):
    """Kernels that are right lead from a plan to the JSON."""
    monkeypatch.setitem(sys.modules, "torch", None)
    path, results = tmp_path / "plan.json", tmp_path / "gpu.json"
    plan = {**plan, "cases": [case for op in rtc.operators() for case in few(plan, op)[:1]]}
    path.write_text(json.dumps(plan))
    assert gpu.main(["--plan", str(path), "--json", str(results), "--samples", "1"]) == 0
    out = capsys.readouterr().out
    assert f"{len(plan['cases'])} cases, 0 differ from NumPy" in out and "launching" not in out
    copied = [line.split() for line in out.splitlines() if line.split()[:1] == ["copy"]]
    assert len(copied) == len(plan["cases"]) and copied[0][1:4] == ["0.125", "ms", "(5.00)"]
    written = files.load(results)
    assert written["command"] == "python -m benchmarks.gpu --plan plan.json --json gpu.json --samples 1"
    assert written["machine"]["gpu"] == "NumPy" and len(written["cases"]) == len(plan["cases"])
    for case in written["cases"]:
        assert {(row["peer"], row["pass"]) for row in case["times"]} == {
            (peer, part) for peer in ("gluonops", "copy") for part in ("forward", "backward", "both")}
    assert not list(tmp_path.glob("*.part"))


def test_a_wrong_result_is_status_1(gpu, plan, cupy, tmp_path, capsys):
    cupy.spill = True
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    assert gpu.main(["--plan", str(path), "--quick", "--op", "abs"]) == 1
    out, error = capsys.readouterr()
    assert "10 cases, some differ from NumPy" in out and "something was written in front of output" in error


def test_what_is_written_in_front_of_a_view_is_seen(gpu, plan, cupy):
    runner = runners.CuPy()
    runner.load(plan["programs"])
    cupy.spill = True
    case = next(case for case in plan["cases"] if case["op"] == "abs" and case["offset"])
    assert gpu.measure(runner, case, 0)["mismatches"] == {
        gpu.OURS: "something was written in front of output; something was written in front of data_grad"}


def test_compute_sanitizer_sees_every_allocation(cupy, monkeypatch):
    allocators = []
    monkeypatch.setattr(cupy.cuda, "set_allocator", allocators.append)
    runners.CuPy()
    assert not allocators
    runners.CuPy(quick=True)
    assert allocators == [None], "no pool"


def test_a_time_is_the_gpus_alone(cupy):
    """Launching may take long; but where a function waits for the GPU, no queue hides what that takes."""
    runner, clock = runners.CuPy(), cupy.clock
    assert runner.time(lambda: clock.queue(0.025, 0.1), 10) == (pytest.approx(0.025), True)
    assert runner.time(lambda: clock.queue(0.3, 0.001), 10) == (pytest.approx(0.3), True)

    def waits():
        clock.queue(0.025, 0.1)
        clock.wait()

    ms, hidden = runner.time(waits, 10)
    assert not hidden and 0.12 < ms < 0.13


def test_targets_are_judged(gpu):
    times = {("gluonops", "forward"): 1.0, ("gluonops", "backward"): 1.0, ("gluonops", "both"): 2.0,
             ("copy", "forward"): 0.95, ("copy", "backward"): 0.85, ("copy", "both"): 1.8, ("torch", "forward"): 1.2}
    record = {"op": "abs", "name": "abs", "shape": [2**25], "dtype": "float32", "data_bytes": 2**27,
              "times": [{"peer": peer, "pass": part, "ms": ms} for (peer, part), ms in times.items()]}
    verdicts = {(v["case"].rsplit(", ")[-1], v["target"].split()[-1]): v for v in gpu.Gpu().verdicts([record])}
    assert {key: v["passed"] for key, v in verdicts.items()} == {
        ("forward", "copy"): True, ("backward", "copy"): False, ("forward", "torch"): True, ("both", "torch"): None}
    assert verdicts["backward", "copy"]["measured"] == "0.85 x"
    assert verdicts["both", "torch"]["measured"] == "not measured"
    assert gpu.Gpu().verdicts([{**record, "data_bytes": 63e6}]) == [], "it may lie in the cache"
    assert all(v["passed"] is None for v in gpu.Gpu().verdicts([{**record, "times": []}]))


def test_torch_computes_the_same(gpu, plan, monkeypatch):
    """The peers' outputs and gradients are compared with the oracle's, on the CPU."""
    torch = pytest.importorskip("torch", reason="torch is optional")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    seen = set()
    for case in (case for op in rtc.operators() for case in few(plan, op)):
        given = compare.inputs(case)
        steps = peers.steps(case, given)
        if steps:
            seen.add(case["op"])
            expected, first = compare.expected(case, given), case["inputs"][0]
            output = steps["torch", "forward"]().numpy()
            assert compare.differs(case, "output", output, expected["output"]) is None
            gradient, = steps["torch", "both"]()
            assert compare.differs(case, f"{first}_grad", gradient.numpy(), expected[f"{first}_grad"]) is None
    assert seen == {op for op in rtc.operators() if type(declared.declared(op)).in_torch is not Declaration.in_torch}
