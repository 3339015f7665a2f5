"""`make new-op`: what it starts is red, and goes green when its files are filled."""
import difflib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import fresh
import pytest
from test_packaging import ROOT, copy_of_repository
from test_tree import FILES as OF_OPERATOR

NAME = "edge_sum"
FOLDER, TESTS = pathlib.Path("gluonops", "ops", NAME), pathlib.Path("tests", "ops", NAME)
FILES = {*(FOLDER / file for file in OF_OPERATOR), TESTS / "oracle.py", TESTS / f"test_{NAME}.py"}
EDITED = {pathlib.Path("gluonops", "nn", "__init__.py"), pathlib.Path("CHANGELOG.md")}
TO_FILL = re.compile(r"fill in|not written yet")


def new_op(root, name):
    return subprocess.run([sys.executable, str(root / "tools" / "new_op.py"), name], capture_output=True,
                          encoding="utf-8")


def load_tool(root):
    spec = importlib.util.spec_from_file_location("new_op", root / "tools" / "new_op.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path):
    """A copy of the repository that is imported from where it lies."""
    root = copy_of_repository(tmp_path / "copy")
    (root / "gluonops" / "models").symlink_to(root / "models")
    return root


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """(The files before `make new-op`, the copy of the repository afterwards, what the command printed.)"""
    root = copy_of_repository(tmp_path_factory.mktemp("started") / "copy", compiled=True)
    (root / "gluonops" / "models").symlink_to(root / "models")
    before = snapshot(root)
    done = new_op(root, NAME)
    assert done.returncode == 0, done.stderr
    return before, root, done.stdout


def build(root):
    """The copy's C++ library with the new operator alone; the environment in which it is loaded."""
    library = root / "scratch.so"
    code = ("import runpy, sys; build = runpy.run_path('gluonops/native/build.py')['build']; "
            "build(sys.argv[1], operators=[sys.argv[2]])")
    done = subprocess.run([sys.executable, "-c", code, str(library), NAME], cwd=root, capture_output=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    return {**os.environ, "GLUONOPS_LIBRARY": str(library), "PYTHONPATH": str(root)}


def run_tests(root, *arguments, environment=None):
    """(number passed, number failed, pytest's output) of the copy's own tests."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=line", *arguments],
                          cwd=root, env=environment, capture_output=True, encoding="utf-8")
    count = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout[-300:])}
    return count.get("passed", 0), count.get("failed", 0) + count.get("error", 0), done.stdout + done.stderr


def snapshot(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


@pytest.mark.parametrize("name, reason", [
    ("", "the name is missing"),
    ("CenterCrop", "'CenterCrop' is not in snake_case"),
    ("center-crop", "'center-crop' is not in snake_case"),
    ("2d", "'2d' is not in snake_case"),
    ("_crop", "'_crop' is not in snake_case"),
    ("../crop", "'../crop' is not in snake_case"),
    ("lambda", "'lambda' is taken by Python"),
    ("list", "'list' is taken by gluonops.ops.list"),
    ("tile", "there is an operator 'tile' already"),
    ("softmax_c_e_loss", "there is a gluonops.loss.SoftmaxCELoss already"),
])
def test_a_bad_name_is_refused(name, reason):
    done = new_op(ROOT, name)
    assert done.returncode == 1 and done.stderr.startswith(f"new-op: {reason}")
    assert len(done.stderr.splitlines()) == 1 and "Choose" in done.stderr


def test_names():
    tool = load_tool(ROOT)
    text = "hard_swish test_hard_swish TestHardSwish HardSwish() HardSwishArgs _hard_swish hard_swishes nn.HardSwish"
    assert tool.rename(text, "edge_sum") == (
        "edge_sum test_edge_sum TestEdgeSum EdgeSum() EdgeSumArgs _edge_sum hard_swishes nn.EdgeSum")


def test_the_catalogue_stays_in_order():
    tool = load_tool(ROOT)
    text = (ROOT / "gluonops" / "nn" / "__init__.py").read_text()
    names = [f"operator_number_{i}" for i in range(12)]
    for name in names:
        text = tool.with_block(text, name)
    assert {tool.camel(name) for name in names} < set(tool.exported(text))
    lines = [line for line in text.splitlines() if line.startswith("from ..ops")]
    assert len(set(lines)) >= 18 and lines == sorted(lines)


def test_the_first_change_after_a_release_begins_a_heading():
    tool = load_tool(ROOT)
    released = "# Changelog\n\n## 1.0.0 (2026-11-25)\n- All.\n"
    once = tool.with_change(released, "edge_sum")
    assert once.startswith("# Changelog\n\n## Unreleased\n- Operator `edge_sum`: <fill in") and once.endswith(
        ".\n\n## 1.0.0 (2026-11-25)\n- All.\n")
    twice = tool.with_change(once, "center_crop")
    assert twice.count("## Unreleased") == 1
    assert twice.index("center_crop") < twice.index("edge_sum") < twice.index("1.0.0")


def test_an_operator_is_two_new_places_and_two_edited_lines(started):
    before, root, _ = started
    after = snapshot(root)
    new = {path for path in after if path not in before}
    assert new == FILES
    assert {path.parent for path in new} == {FOLDER, TESTS}
    edited = {path for path in before if before[path] != after[path]}
    assert edited == EDITED
    for path in edited:
        changes = [line for line in difflib.ndiff(before[path].decode().splitlines(), after[path].decode().splitlines())
                   if line[0] in "+-" and line.strip() not in ("+", "+ ## Unreleased")]
        assert len(changes) == 1 and changes[0][0] == "+", (path, changes)
    assert {path for path, text in after.items() if NAME.encode() in text and before.get(path) != text} == new | edited


def test_nothing_is_written_when_a_part_is_missing(started):
    """The copy has an operator more already; its heading is put back afterwards."""
    _, root, _ = started
    whole = (root / "CHANGELOG.md").read_bytes()
    (root / "CHANGELOG.md").write_text("# Changelog\n")
    before = snapshot(root)
    done = new_op(root, "corner_sum")
    after = snapshot(root)
    (root / "CHANGELOG.md").write_bytes(whole)
    assert done.returncode == 1 and 'CHANGELOG.md has no heading "## Unreleased"' in done.stderr
    assert after == before


FOLLOWS = f"""
import json, sys
sys.path += ["tests", "tests/fuzz"]
import gluonops as gops   # first: it makes mxnet importable
import fuzz_contract, op_suite, oracles
from benchmarks.harness import cases as declared
from gluonops.bench import cases
name = "{NAME}"
known = {{
    "function": name in gops.ops.list(),
    "block": "EdgeSum" in gops.nn.__all__,
    "suite": op_suite.suite_of(name).name == name,
    "oracle": callable(oracles.get(name).forward),
    "random tester": name in fuzz_contract.operators(),
    "gluonops bench": cases.typical(name).op == name,
    "benchmarks.operators": name in {{case.op for case in declared.on_cpu([name])}},
    "benchmarks.before_after": name in {{case.op for case in declared.of_commits([name])}},
    "benchmarks.gpu": name in {{case.op for case in declared.on_gpu([name])}},
    "benchmarks.gpu --quick": name in {{case.op for case in declared.on_gpu([name], quick=True)}},
}}
print(json.dumps([thing for thing, knows in known.items() if not knows]))
"""


def test_everything_else_follows(started):
    """Catalogue, suites, random tester and benchmarks find it; nothing has a list of operators."""
    _, root, _ = started
    done = fresh.python("-c", FOLLOWS, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_what_is_to_fill_is_printed(started):
    _, root, printed = started
    for path in FILES | {pathlib.Path("CHANGELOG.md")}:
        assert f"\n  {path.as_posix()}\n" in printed
        assert TO_FILL.search((root / path).read_text(encoding="utf-8")), path
    pattern, *places = re.search(r"grep -rnE '(.*)' (.*)", printed).groups()
    assert pattern == "fill in|not written"
    assert all((root / place).exists() for place in places[0].split())


def test_what_it_writes_passes_the_linter(started):
    _, root, _ = started
    if not importlib.util.find_spec("ruff"):
        pytest.skip("ruff is not installed: it is in the extra `dev`")
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "."], cwd=root, capture_output=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stdout


SCALED = """struct Scaled {
    double gain;

    template <typename V> GLUONOPS_INLINE V value(V x) const { return HardSwish().value(x) * every<V>(gain); }
    template <typename V> GLUONOPS_INLINE V slope(V x) const { return HardSwish().slope(x) * every<V>(gain); }
};
"""
SCALED_KERNELS = """
template <typename T>
{qualifier}void forward(const EdgeSumArgs<T> &args) {{ activate_forward(args, Scaled{{args.gain}}); }}

template <typename T>
{qualifier}void backward(const EdgeSumArgs<T> &args) {{ activate_backward(args, Scaled{{args.gain}}); }}
"""
GAIN = {   # file -> what another attribute changes in it: the declaration, and its use in the kernels
    "contract.py": [("straight lines\", \"HardSwish()\")",
                     "straight lines\", attrs=(Attr(\"gain\", Float(above=0), 1.0),))"),
                    ("from .._activation", "from ...contract.op import Attr, Float\nfrom .._activation")],
    "__init__.py": [("(data: Array, name:", "(data: Array, gain: float = 1.0, name:"),
                    ("call(OP, data, name", "call(OP, data, gain=gain, name")],
    "reference.py": [("return data * gate", "return attrs.gain * data * gate"),
                     ("output_grad * (gate", "attrs.gain * output_grad * (gate")],
}
GAIN_KERNELS = {   # The template's are generated. Those with a struct of their own are not.
    "kernel.cu": f"""#include "../_activation/activation.cuh"

{SCALED}{SCALED_KERNELS.format(qualifier="__device__ ")}""",
    "kernel.cc": f"""#include "generated/{NAME}.h"
#include "../_activation/activation.h"

namespace gluonops::GLUONOPS_ISA {{
namespace {{

{SCALED}{SCALED_KERNELS.format(qualifier="")}
}}  // namespace
}}  // namespace gluonops::GLUONOPS_ISA
""",
}


def filled(tool, path):
    """A file of the template under the new name, with its formulas."""
    return tool.rename(path.read_text(), NAME).replace("EdgeSum()", "HardSwish()")


@pytest.mark.slow
def test_an_attribute_is_added_in_one_place(copy):
    """It works in every backend: the reference, the graph of MXNet's own, the C++ library and the CUDA kernels."""
    tool, folder = load_tool(copy), copy / "gluonops" / "ops" / NAME
    assert new_op(copy, NAME).returncode == 0
    for file in OF_OPERATOR - set(GAIN_KERNELS):
        text = filled(tool, copy / "gluonops" / "ops" / tool.TEMPLATE / file)
        for old, new in GAIN.get(file, []):
            assert old in text, (file, old)
            text = text.replace(old, new)
        (folder / file).write_text(text)
    for file, text in GAIN_KERNELS.items():
        (folder / file).write_text(text)
    environment = build(copy)
    done = subprocess.run([sys.executable, "-c", USE_GAIN], cwd=copy, env=environment, capture_output=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]


USE_GAIN = f"""
import pathlib, sys
sys.path.append("tests/cuda")
import gluonops as gops   # first: it makes mxnet importable
import cuda_emulator, mxnet as mx, pytest
from mxnet import autograd
from gluonops.backends import native
assert native.loaded(), native.reason()
cuda_emulator.cache = pathlib.Path("cuda_cache")
cuda_emulator.cache.mkdir()
for backend in ("custom", "native", "builtin", "cuda"):
    if backend == "cuda":
        cuda_emulator.install(pytest.MonkeyPatch())
    with gops.backend("custom" if backend == "cuda" else backend):
        data = mx.nd.array([-4.0, 5.0])
        data.attach_grad()
        with autograd.record():
            output = gops.ops.{NAME}(data, gain=2.5)
        output.backward()
        assert output.asnumpy().tolist() == [0.0, 12.5], (backend, output)
        assert data.grad.asnumpy().tolist() == [0.0, 2.5], (backend, data.grad)
        graph = gops.ops.{NAME}(mx.sym.var("data"), gain=2.5)
        assert ("2.5" in graph.tojson()) and graph.infer_shape(data=(2, 3))[1] == [(2, 3)]
        try:
            gops.ops.{NAME}(data, gain=-1)
        except gops.OpError as error:
            assert str(error) == ("gluonops.{NAME}: gain is -1; expected a finite number above 0. Pass another gain.")
        else:
            raise AssertionError(backend)
"""


@pytest.mark.slow
def test_red_then_green(copy):
    """It compiles, and fails for one reason: it is not written yet. With the template's formulas it passes."""
    tool, own = load_tool(copy), str(TESTS)
    assert new_op(copy, NAME).returncode == 0
    environment = build(copy)
    passed, failed, output = run_tests(copy, own, environment=environment)
    reasons = [line for line in output.splitlines() if line.startswith("E   ")]
    assert failed > 100 and len(reasons) >= failed, output   # an error that becomes a warning is two
    assert all("not written yet" in reason for reason in reasons), output
    for part in ("the oracle's forward", "kernel.cc", "launch", "forward"):
        assert any(f"{NAME}: {part} is not written yet" in reason for reason in reasons), part
    _, failed, output = run_tests(copy, "tests/cuda/test_nvrtc.py", "-k", f"compile and {NAME}")
    assert failed == 0, output
    assert run_tests(copy, "tests/ops/hard_swish", "-k", "table or twice")[1] == 0

    for path in FILES:
        template = copy / path.parent.parent / tool.TEMPLATE / path.name.replace(NAME, tool.TEMPLATE)
        if template.is_file():
            (copy / path).write_text(filled(tool, template))
        else:   # The template's contract names its kernels, which are generated.
            (copy / path).unlink()
    environment = build(copy)
    passed, failed, output = run_tests(copy, own, environment=environment)
    assert failed == 0 and passed > 100, output
    passed, failed, output = run_tests(copy, "tests/test_tree.py", "tests/cuda/test_rtc.py", "-k", NAME)
    assert failed == 0 and passed > 10, output


def test_the_tool_leaves_no_formula(started):
    """Nothing that makes hard_swish what it is gets into a new operator."""
    _, root, _ = started
    for path in FILES:
        assert not re.search(r"(?i)swish|straight|\bgate\b|relu|minimum", (root / path).read_text()), path
