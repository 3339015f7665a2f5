"""`make new-op`: what it starts is red, and goes green when its files are filled."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_packaging import ROOT, copy_of_repository

NAME = "edge_sum"
FILES = ("__init__.py", "contract.py", "reference.py", "kernel.cu", "block.py")
BEHIND = re.compile(r"fill in|not written yet")


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


def run_tests(root, *arguments):
    """(number passed, number failed, pytest's output) of the copy's own tests."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=line", *arguments],
                          cwd=root, capture_output=True, encoding="utf-8")
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
    text = "abs abs_forward test_abs TestAbs Abs() _abs fabsf np.abs absolute Absolute nn.Abs"
    assert tool.rename(text, "edge_sum") == ("edge_sum edge_sum_forward test_edge_sum TestEdgeSum EdgeSum() _edge_sum "
                                             "fabsf np.edge_sum absolute Absolute nn.EdgeSum")


def test_the_catalogue_stays_in_order_and_short():
    tool = load_tool(ROOT)
    text = (ROOT / "gluonops" / "nn" / "__init__.py").read_text()
    for i in range(12):
        text = tool.with_block(text, f"operator_number_{i}")
    assert len(tool.exported(text)) == len(set(tool.exported(text))) >= 17
    assert all(len(line) <= 120 for line in text.splitlines())
    lines = [line.split()[1] for line in text.splitlines() if line.startswith("from ..ops")]
    assert lines == sorted(lines) and tool.exported(text) == sorted(tool.exported(text))


def test_nothing_is_written_when_a_part_is_missing(tmp_path):
    root = copy_of_repository(tmp_path / "copy")
    (root / "CHANGELOG.md").write_text("# Changelog\n")
    before = snapshot(root)
    done = new_op(root, NAME)
    assert done.returncode == 1 and 'CHANGELOG.md has no heading "## Unreleased"' in done.stderr
    assert snapshot(root) == before


def test_an_operator_is_two_new_places_and_two_edits(tmp_path):
    root = copy_of_repository(tmp_path / "copy")
    before = snapshot(root)
    assert new_op(root, NAME).returncode == 0
    after = snapshot(root)
    new = {path for path in after if path not in before}
    assert {path for path in new if path.parts[0] != "tests"} == {
        pathlib.Path("gluonops", "ops", NAME, file) for file in FILES}
    assert {path for path in new if path.parts[0] == "tests"} == {
        pathlib.Path("tests", "ops", f"test_{NAME}.py"), pathlib.Path("tests", "oracles", f"{NAME}.py")}
    edited = {path.as_posix() for path in before if before[path] != after[path]}
    assert edited == {"gluonops/nn/__init__.py", "CHANGELOG.md"}
    naming = {path.as_posix() for path, text in after.items() if NAME.encode() in text and before.get(path) != text}
    assert naming == {path.as_posix() for path in new} | edited


GAIN = {   # file -> what another attribute changes in it: the declaration, the signature and the kernels
    "contract.py": [("attrs=()", 'attrs=(Attr("gain", Float(above=0), 1.0, "multiplies the output"),)'),
                    ("FLOATS, INTEGERS, Arg,", "FLOATS, INTEGERS, Arg, Attr, Float,"),
                    ("FLOATS + INTEGERS", "FLOATS"),
                    ('return {"size": math.prod(known["data"])}',
                     'return {"size": math.prod(known["data"]), "gain": attrs.gain}')],
    "__init__.py": [("(data, name=None)", "(data, gain=1.0, name=None)")],
    "reference.py": [("return F.abs(data)", "return F.abs(data) * attrs.gain"),
                     ("output_grad * nd.sign(data)", "output_grad * nd.sign(data) * attrs.gain")],
    "kernel.cu": [("int64_t size)", "int64_t size, double gain)"),
                  ("magnitude(load(x.items, j));", "magnitude(load(x.items, j)) * A(gain);"),
                  ("magnitude(load(data, i)), output", "magnitude(load(data, i)) * A(gain), output"),
                  ("slope(load(x.items, j));", "slope(load(x.items, j)) * A(gain);"),
                  ("slope(load(data, i)), data", "slope(load(data, i)) * A(gain), data")],
    "kernel.cc": [("    int64_t size;\n", "    int64_t size;\n    double gain;\n"),
                  ("const EdgeSumAttrs &,", "const EdgeSumAttrs &attrs,"),
                  ("    call.data = tensors.data.data;\n",
                   "    call.data = tensors.data.data;\n    call.gain = attrs.gain;\n"),
                  ("elementwise_forward<T>(call);   // of float16 too: it only clears a bit",
                   "dispatch_streaming<false, T>(call);"),
                  ("    const int64_t size = call.size;\n",
                   "    const int64_t size = call.size;\n    const A gain = A(call.gain);\n"),
                  ("return magnitudes(x);", "return magnitudes(x) * gain;"),
                  ("mask, A(0)) * signs(x);", "mask, A(0)) * signs(x) * gain;")],
}


@pytest.mark.slow
def test_an_attribute_is_added_in_one_place(copy):
    """It works in every backend: the reference, the graph of MXNet's own, the C++ library and the CUDA kernels."""
    tool, folder = load_tool(copy), copy / "gluonops" / "ops" / NAME
    assert new_op(copy, NAME).returncode == 0
    for file in (*FILES, "kernel.cc"):
        text = (copy / "gluonops" / "ops" / "abs" / file).read_text()
        text = tool.rename(text, NAME).replace(f"F.{NAME}", "F.abs")
        text = re.sub(r"\bAbs(?=[A-Z])", tool.camel(NAME), text)   # AbsCall, AbsAttrs
        for old, new in GAIN.get(file, []):
            assert old in text, (file, old)
            text = text.replace(old, new)
        (folder / file).write_text(text)
    library = copy / "scratch.so"
    build = ("import runpy, sys; build = runpy.run_path('gluonops/native/build.py')['build']; "
             "build(sys.argv[1], operators=[sys.argv[2]])")
    done = subprocess.run([sys.executable, "-c", build, str(library), NAME], cwd=copy, capture_output=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    environment = {**os.environ, "GLUONOPS_LIBRARY": str(library), "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, "-c", USE_GAIN], cwd=copy, env=environment, capture_output=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]


USE_GAIN = f"""
import pathlib, sys
sys.path.append("tests/cuda")
import gluonops as gops   # first: it makes mxnet importable
import cuda_emulator, mxnet as mx, pytest
from mxnet import autograd
from gluonops.core import native
assert native.load(), native.reason()
cuda_emulator.cache = pathlib.Path("cuda_cache")
cuda_emulator.cache.mkdir()
for backend in ("custom", "native", "builtin", "cuda"):
    if backend == "cuda":
        cuda_emulator.install(pytest.MonkeyPatch())
    with gops.backend("custom" if backend == "cuda" else backend):
        data = mx.nd.array([-2.0, 3.0])
        data.attach_grad()
        with autograd.record():
            output = gops.ops.{NAME}(data, gain=2.5)
        output.backward()
        assert output.asnumpy().tolist() == [5.0, 7.5], (backend, output)
        assert data.grad.asnumpy().tolist() == [-2.5, 2.5], (backend, data.grad)
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
    tool, folder, test = load_tool(copy), copy / "gluonops" / "ops" / NAME, copy / "tests" / "ops" / f"test_{NAME}.py"
    oracle = copy / "tests" / "oracles" / f"{NAME}.py"
    done = new_op(copy, NAME)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert f"gluonops/ops/{NAME}/reference.py" in done.stdout and f"tests/ops/test_{NAME}.py" in done.stdout
    assert f"- Operator `{NAME}`: <fill in" in (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    assert all(BEHIND.search(path.read_text()) for path in [*folder.iterdir(), test, oracle])

    own = f"tests/ops/test_{NAME}.py"
    _, failed, output = run_tests(copy, own)
    assert failed > 100, output
    assert f"{NAME}: the oracle's forward is not written yet" in output
    _, failed, output = run_tests(copy, "tests/core/test_nvrtc.py", "-k", f"compile and {NAME}")
    assert failed or "skipped" in output, output   # skipped where NVRTC has no wheel
    assert run_tests(copy, "tests/ops/test_abs.py", "-k", "table or twice")[1] == 0

    def fill(path, source):
        path.write_text(tool.rename(source.read_text(), NAME))

    template = copy / "gluonops" / "ops" / "abs"
    fill(test, copy / "tests" / "ops" / "test_abs.py")
    fill(oracle, copy / "tests" / "oracles" / "abs.py")
    oracle.write_text(oracle.read_text().replace(f"np.{NAME}", "np.abs"))
    assert run_tests(copy, own)[1] > 100
    for file in FILES:
        fill(folder / file, template / file)
    contract = folder / "contract.py"   # its C++ kernel would have to be compiled
    contract.write_text(contract.read_text().replace("    cuda=Cuda(", f"    {tool.UNSUPPORTED}\n    cuda=Cuda(", 1))
    reference = folder / "reference.py"
    reference.write_text(reference.read_text().replace(f"F.{NAME}", "F.abs"))
    passed, failed, output = run_tests(copy, own)
    assert failed == 0 and passed > 200, output
    passed, failed, output = run_tests(copy, "tests/test_tree.py", "tests/core/test_rtc.py", "-k", NAME)
    assert failed == 0 and passed > 10, output


def test_the_tool_leaves_no_formula(tmp_path):
    """Nothing that makes abs what it is gets into a new operator."""
    root = copy_of_repository(tmp_path / "copy")
    assert new_op(root, NAME).returncode == 0
    texts = [path.read_text() for path in pathlib.Path(root / "gluonops" / "ops" / NAME).iterdir()]
    texts.append((root / "tests" / "ops" / f"test_{NAME}.py").read_text())
    texts.append((root / "tests" / "oracles" / f"{NAME}.py").read_text())
    assert not [text for text in texts if re.search(r"(?i)\babs\b|absolute|\bsign\b|magnitude", text)]
