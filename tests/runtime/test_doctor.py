"""The doctor, the command line and the support table, also where gluonops does not import."""
import dataclasses
import importlib
import inspect
import json
import os
import pathlib
import pydoc
import re
import subprocess
import sys

import fresh
import gluonops as gops
import pytest
from gluonops.backends import native, tuning
from gluonops.commands import cli, table
from gluonops.contract import registry
from gluonops.contract.op import FAMILIES
from gluonops.export.onnx.builder import CONVERTERS
from gluonops.runtime import threads

ROOT = pathlib.Path(__file__).parents[2]
doctor = importlib.import_module("gluonops.runtime.doctor")
NO_MXNET = "raise ModuleNotFoundError(\"No module named 'mxnet'\", name='mxnet')"
NO_CUDNN = "raise OSError('libcudnn.so.8: cannot open shared object file: No such file or directory')"


def command(tmp_path, *arguments, **modules):
    """Run the installed script's source; ``modules`` maps names to source that stands in for them."""
    for name, source in modules.items():
        (tmp_path / f"{name}.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), str(pathlib.Path(gops.__file__).parent.parent)])
    return subprocess.run([sys.executable, str(ROOT / "tools" / "gluonops"), *arguments], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": path}, capture_output=True, encoding="utf-8")


def test_it_prints_what_it_returns(capsys):
    report = gops.doctor()
    text = capsys.readouterr().out
    assert report["ok"] and not report["problems"] and text.endswith("gluonops works here.\n")
    assert report["versions"]["gluonops"] == gops.__version__ and f"gluonops {gops.__version__} in " in text
    assert report["versions"]["numpy"] in text and report["mxnet"]["version"] == "1.9.1"
    assert set(report["mxnet"]["features"]) == {"CUDA", "CUDNN", "MKLDNN", "OPENMP"}
    assert report["backends"]["custom"] == report["backends"]["builtin"] == "available"
    assert report["backends"]["native"].startswith("available" if native.loaded() else "not available: ")
    assert report["backend"] == gops.current_backend() and f"{report['backend']}: " in text
    assert json.loads(json.dumps(report)) == report


def test_every_wheel_of_mxnet_is_named(tmp_path, monkeypatch):
    """An installation from MXNet's sources has its name in another file."""
    before = doctor.examine()["versions"]
    for name, file in (("mxnet-cu112", "mxnet_cu112-1.9.1.dist-info/METADATA"),
                       ("mxnet-mkl", "mxnet_mkl-1.9.1.egg-info/PKG-INFO"),
                       ("mxnetx", "mxnetx-1.9.1.dist-info/METADATA")):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.9.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert doctor.examine()["versions"] == {**before, "mxnet-cu112": "1.9.1", "mxnet-mkl": "1.9.1"}


def test_it_changes_no_backend():
    with gops.backend("builtin"):
        assert doctor.examine()["backend"] == "builtin" == gops.current_backend()
    assert gops.current_backend() == "auto"


def test_a_bad_default_backend_is_a_problem(monkeypatch):
    monkeypatch.setattr(importlib.import_module("gluonops.backends.backend"), "_default", "cuda")
    report = doctor.examine()
    assert not report["ok"] and "GLUONOPS_BACKEND" in report["problems"][0]


def test_threads(monkeypatch):
    decision = {"chosen": 3, "reason": "the physical cores that this process may use", "problems": ["Import it first"]}
    monkeypatch.setattr(threads, "_decision", decision)
    report = doctor.examine()
    assert "Import it first" in report["hints"]
    assert "3: the physical cores that this process may use" in doctor.render(report)
    monkeypatch.setattr(threads, "_decision", {"chosen": None, "reason": "OMP_NUM_THREADS=2", "problems": []})
    assert "not chosen by gluonops: OMP_NUM_THREADS=2" in doctor.render(doctor.examine())


def test_memory(monkeypatch):
    monkeypatch.setattr(tuning.memory, "usable_memory", lambda: 16 * 2**30)
    monkeypatch.setattr(tuning, "_kept", {"bound": 2 * 2**30})
    assert "16.0 GiB are usable; up to 2.0 GiB of freed tensors are kept" in doctor.render(doctor.examine())
    monkeypatch.setattr(tuning, "_kept", {"bound": None})
    assert "that of freed tensors is not kept" in doctor.render(doctor.examine())


def test_a_processor_without_avx_is_a_line(monkeypatch):
    """MXNet's OpenBLAS ends the process there. Everything else works, so it is no problem."""
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    for instructions, said in ({"sse4_1"}, True), (set(), True), ({"sse4_1", "avx"}, False):
        monkeypatch.setattr(doctor.processor, "instructions", lambda instructions=instructions: instructions)
        report = doctor.examine()
        assert any(hint.startswith("This processor has no AVX, which the") for hint in report["hints"]) == said
        assert report["ok"]


def test_what_is_supported(monkeypatch):
    report = gops.doctor()
    assert "\n  ".join(doctor.support.lines()) in doctor.render(report)
    assert not any("never tried" in hint or "another version of gluonops" in hint for hint in report["hints"])
    versions = {**report["versions"], "numpy": "2.9.1", "mxnet": doctor.mxnet_wheel.OURS}
    monkeypatch.setattr(doctor, "_versions", lambda: versions)
    monkeypatch.setattr(doctor.mxnet_wheel, "is_current", lambda name: False)
    monkeypatch.setattr(doctor.support, "python_problem", lambda: "gluonops needs another Python.")
    report = doctor.examine()
    assert "gluonops needs another Python." in report["problems"]
    untried = "NumPy 2.9.1 was never tried with gluonops, which supports "
    assert any(hint.startswith(untried) for hint in report["hints"])
    assert any(hint.endswith("Run: gluonops install-mxnet cpu") for hint in report["hints"])


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(doctor.mxnet_wheel, "requirements", lambda name: [
        "numpy<2,>=1.21", 'gone-away>=2; extra == "examples"', 'pytest>=7.4; extra == "test"'])
    report = doctor.examine()
    assert report["packages"] == {"gone-away>=2": None} and report["ok"]
    assert any("pip install 'gone-away>=2'" in hint for hint in report["hints"])
    assert "gone-away missing" in doctor.render(report)


@pytest.mark.parametrize("error, text", [
    (ImportError("gluonops: MXNet is\nnot installed"), "gluonops: MXNet is not installed"),
    (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "pip install 'numpy>=1.21,<3'"),
    (ModuleNotFoundError("No module named 'distutils'", name="distutils"), "pip install setuptools"),
    (OSError("libcudnn.so.8: cannot open shared object file: No such file or directory"), "install 'gluonops[cu117]'"),
    (OSError("libcuda.so.1: cannot open shared object file: No such file or directory"), "NVIDIA driver"),
    (OSError("libgfortran.so.3: cannot open shared object file"), "OSError: libgfortran.so.3: cannot open shared"),
    (RuntimeError("odd"), "gluonops: RuntimeError: odd"),
])
def test_errors_at_import_get_a_remedy(error, text):
    assert text in doctor.explain(error) and "\n" not in doctor.explain(error)


@pytest.mark.parametrize("modules, text", [
    ({"numpy": "__version__ = '3.0.1'"}, "gluonops: found NumPy 3.0.1, which gluonops does not support. Run: pip"),
    ({"mxnet": NO_MXNET}, "gluonops: MXNet is not installed. Run: gluonops install-mxnet"),
    ({"mxnet": NO_CUDNN}, "gluonops: OSError: libcudnn.so.8: cannot open shared object file"),
], ids=["numpy3", "no_mxnet", "no_cudnn"])
def test_the_command_where_the_package_does_not_import(tmp_path, modules, text):
    done = command(tmp_path, "ops", **modules)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith(text) and len(done.stderr.splitlines()) == 1
    done = command(tmp_path, "doctor")
    assert done.returncode == 1 and not done.stderr
    assert f"Problems:\n  - {text}" in done.stdout and "  Python  " in done.stdout
    assert "not imported" in done.stdout and "works here" not in done.stdout


def test_debugging_an_import_shows_its_traceback(tmp_path):
    assert "Traceback" in command(tmp_path, "ops", "--debug", numpy="__version__ = '3.0.1'").stderr


def test_the_command_where_it_does(tmp_path):
    """test_cuda_install.py runs it in a process that imports gluonops first."""
    done = fresh.python(ROOT / "tools" / "gluonops", "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["ok"], done.stderr
    assert fresh.python("-m", "gluonops", "--version").stdout == f"gluonops {gops.__version__}\n"


def test_ops_prints_the_table(capsys):
    assert cli.main(["ops"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name}: {entry.op.summary}\n" in text for name, entry in registry.entries().items())
    assert cli.main(["ops", "reorg"]) == 0
    assert capsys.readouterr().out == table.terminal(80, ["reorg"]) + "\n"
    assert cli.main(["ops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(table.rows()))


@pytest.mark.parametrize("name", ["group_norm", "GroupNorm", "groupnorm", "nn.GroupNorm"])
def test_an_operator_is_found_by_its_layer(name, capsys):
    """The signatures are those of the function and the layer; the page says where they have other names."""
    assert cli.main(["ops", name]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("group_norm: ")
    assert "Function ops.group_norm(data, gamma, beta, num_groups=32, eps=1e-05, name=None)" in text
    assert "Layer nn.GroupNorm(num_groups=32, epsilon=1e-05, " in text
    assert "; epsilon is the function's eps Backends" in text


@pytest.mark.parametrize("name", ["focal_loss", "FocalLoss", "loss.FocalLoss"])
def test_a_loss_that_is_no_operator_s_own_is_found(name, capsys):
    assert cli.main(["ops", name]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("loss.FocalLoss: Cross-entropy with less weight on easy examples")
    assert "Layer loss.FocalLoss(axis=-1, alpha=0.25, gamma=2.0, sparse_label=True" in text
    assert cli.main(["ops", name, "--json"]) == 0
    row, = json.loads(capsys.readouterr().out)
    assert row["layer"].startswith("loss.FocalLoss(")


@pytest.mark.parametrize("block", [getattr(room, name) for room in (gops.nn, gops.loss) for name in room.__all__
                                   if isinstance(getattr(room, name), type)])
def test_every_layer_shows_its_arguments(block):
    """``help`` prints the signature; sphinx takes it from __signature__."""
    kinds = {one.kind for one in inspect.signature(block).parameters.values()}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    assert inspect.signature(block) == block.__signature__
    assert f"\n |  {block.__name__}(*args" not in pydoc.plain(pydoc.render_doc(block))


def test_errors_of_the_command(capsys):
    assert cli.main(["ops", "reorgg"]) == 1
    assert capsys.readouterr().err == ("gluonops.ops: there is no operator, layer or loss 'reorgg'. Perhaps you mean "
                                       "'reorg'.\n")
    assert cli.main(["ops", "fokal_loss"]) == 1
    assert capsys.readouterr().err.endswith("Perhaps you mean 'loss.FocalLoss'.\n")
    assert cli.main(["ops", "Yolo"]) == 1
    assert capsys.readouterr().err.endswith(
        "These have it in their names: gaussian_yolo_loss, yolo_loss, loss.GaussianYOLOLoss, loss.YOLOLoss.\n")
    assert cli.main(["ops", "xyz"]) == 1
    assert capsys.readouterr().err.endswith("loss 'xyz'. gluonops ops lists all of them.\n")
    with pytest.raises(gops.OpError):
        cli.main(["ops", "reorgg", "--debug"])
    for arguments in (["opps"], ["ops", "--jason"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0 and "doctor" in capsys.readouterr().out


def test_rows_say_what_the_contract_says():
    rows = {row["op"]: row for row in table.rows()}
    assert set(rows) == set(gops.ops.list())
    assert all(set(row) == {"op", "summary", "attributes", "arguments", *table.HEADINGS} for row in rows.values())
    assert rows["reorg"]["layer"] == "nn.Reorg" and rows["softmax_cross_entropy"]["layer"] == "loss.SoftmaxCELoss"
    assert rows["reorg"]["attributes"] == {"stride": 2, "mode": "darknet", "reverse": False}
    assert rows["reorg"]["dtypes"] == "data: float16/32/64, uint8, int8/32/64"
    assert rows["softmax_cross_entropy"]["gradient"] == "data, label with sparse_label=False"
    assert rows["softmax_output"]["gradient"] == "data; ignores the head gradient"


def test_rows_say_how_an_operator_leaves(monkeypatch):
    """They say whether at all, in which backends' form, and whether for ONNX: by the converters there are."""
    def rows():
        return {row["op"]: row["export"] for row in table.rows()}

    forms = "JSON: builtin, custom, native"
    roles = {name: registry.get(name).op.role for name in gops.ops.list()}
    exports = {"layer": f"{forms}; ONNX", "loss": f"loss: training only; {forms}",
               "loss head": f"{forms}; ONNX, without its label"}
    assert rows() == {name: exports[role] for name, role in roles.items()}
    monkeypatch.delitem(CONVERTERS, "abs")
    assert rows()["abs"] == f"{forms}; no ONNX: no converter for abs" and rows()["tile"] == f"{forms}; ONNX"


def test_an_unsupported_file_prints_its_reason(monkeypatch):
    entry = registry.get("abs")
    without = dataclasses.replace(entry.op, cuda=None, unsupported={"kernel.cu": "one line of mx.nd"})
    monkeypatch.setattr(registry, "entries", lambda: {"abs": dataclasses.replace(entry, op=without)})
    assert table.rows()[0]["backends"] == "custom, native, builtin; no CUDA kernel: one line of mx.nd"


def test_the_catalogue_names_every_layer_and_loss():
    rows = [line.split(" | ") for line in table.catalogue().splitlines()[2:]]
    for column, room in ((1, gops.nn), (2, gops.loss)):
        names = [name for row in rows for name in re.findall(r"`(\w+)`", row[column])]
        assert sorted(names) == sorted({*room.__all__} - {"for_numpy", "replace"})


def test_the_index_has_each_operator_once():
    lines = table.families().splitlines()
    listed = [line for line in lines if line.startswith("| [")]
    assert len(listed) == len(table.rows())
    for row in table.rows():
        link = f"[`{row['op']}`](../gluonops/ops/{row['op']}/__init__.py)"
        assert f"| {link} | `{row['layer']}` | {row['summary']} |" in listed
    assert [line[3:].lower() for line in lines if line.startswith("## ")] == list(FAMILIES)


def test_the_table_takes_the_place_of_the_old_one():
    begin, end = "<!-- names:begin -->", "<!-- names:end -->"
    text = f"before\n{begin}\nold\n{end}\nafter\n"
    new = table.replace(text, "names", "new")
    assert new == f"before\n{begin}\nnew\n{end}\nafter\n" == table.replace(new, "names", "new")
    for bad in ("", begin, f"{end}{begin}", text + text):
        with pytest.raises(gops.OpError, match="lacks the two lines <!-- names:begin -->"):
            table.replace(bad, "names", "new")
