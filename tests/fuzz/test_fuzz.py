"""A short, seeded part of ``make fuzz``; and the tester itself finds what is planted, and what dies or hangs."""
import json
import sys

import fuzz_cases
import fuzz_contract as contracts
import fuzz_driver
import fuzz_exports
import fuzz_files
import fuzz_hostile
import fuzz_inference
import fuzz_values
import gluonops as gops
import hypothesis
import pytest
from gluonops.export.onnx.builder import CONVERTERS as onnx_converters
from gluonops.export.torch.converters import CONVERTERS as torch_converters

WATCHDOG = 600   # seconds: short of pytest's own, and only for a process that hangs


@pytest.mark.parametrize("examples", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_case_fails(examples):
    """The same few cases of every operator and file in every run; ``make fuzz`` draws others, as long as it is told."""
    tasks = fuzz_driver.exploration(fuzz_driver.all_pairs(), seed=0, examples=examples, rounds=1, until=None)
    session = fuzz_driver.Session(tasks, 1, fuzz_driver.worker_command(), WATCHDOG, float("inf")).run()
    assert not session.unexpected() and not session.broken, fuzz_driver.report(session)
    assert set(session.counts) == set(fuzz_driver.all_pairs())


@pytest.mark.parametrize("name", contracts.operators())
class TestStrategies:
    def test_every_attribute_has_values(self, name):
        assert {type(kind).__name__ for kind, _ in contracts.kinds(name).values()} <= set(fuzz_cases.KINDS)

    @pytest.mark.parametrize("probe", fuzz_driver.PROBES)
    def test_a_case_is_a_line(self, name, probe):
        """The line is the case again; the contract takes what is not meant to be refused."""
        @hypothesis.settings(max_examples=5, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(fuzz_cases.STRATEGIES[probe](name))
        def check(case):
            assert fuzz_cases.from_json(fuzz_cases.to_json(case)) == case
            typed = contracts.parse(name, case.attrs)
            if probe == "values":
                known = dict(zip(contracts.input_names(name), case.shapes))
                assert contracts.complete(contracts.infer(name, typed, known).values())
        check()


def test_the_operators_are_the_registered_ones():
    assert fuzz_driver.operator_names() == contracts.operators()


def test_every_kind_of_file_can_be_read():
    """It can be before it is damaged; so what is refused is the damage."""
    assert set(fuzz_driver.FILES) == set(fuzz_files.KINDS)
    for name in fuzz_driver.FILES:
        assert fuzz_files.check(fuzz_cases.Damaged(name, ())) == []


# What was found: an edit of the valid file, and what the refusal has to say.
FOUND = [
    ("config_json", [["set", 0, "ff"]], "cannot be read: 'utf-8' codec"),
    ("config_yaml", [["set", 0, "ff"]], "cannot be read: 'utf-8' codec"),
    ("config_yaml", [["line", 0, b"-9: 3".hex()]], "is not a mapping of options"),
    ("names", [["cut", 0, "00"]], r"classes in .*my\.names are \(\)"),
    ("yolo_list", [["line", 0, b"/etc/passwd".hex()]], r"train\.txt, line 1: /etc/passwd is not an image"),
]


@pytest.mark.parametrize("name, edits, text", FOUND)
def test_found_damage_is_refused(name, edits, text):
    kind = fuzz_files.KINDS[name]
    path, content = fuzz_files.original(name)
    path.write_bytes(fuzz_files.damaged(content, edits))
    try:
        with pytest.raises(gops.OpError, match=text):
            kind.read(path)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize("reads, kind", [
    (lambda path: 1 / 0, "raises ZeroDivisionError"),
    (lambda path: gops.ops.abs("no tensor"), "refused without its name"),
])
def test_a_wrong_reader_is_found(reads, kind, monkeypatch):
    monkeypatch.setitem(fuzz_files.KINDS, "idx", fuzz_files.Kind(fuzz_files.KINDS["idx"].make, reads))
    assert [what for _, what, _ in fuzz_files.check(fuzz_cases.Damaged("idx", ()))] == [kind]


@pytest.mark.parametrize("plant, how", [
    (lambda image: image ^ 1, "is decoded otherwise than by other decoders"),
    (lambda image: image[1:], "is decoded in another size than it states"),
])
def test_a_wrong_decoder_is_found(plant, how, monkeypatch):
    right = fuzz_files.decode_image
    monkeypatch.setattr(fuzz_files, "decode_image", lambda *args, **options: plant(right(*args, **options)))
    assert [how for _, how, _ in fuzz_files.check(fuzz_cases.Damaged("png", ()))] == [how]


def test_a_wrong_rewriting_is_found(monkeypatch):
    right = gops.export.rewrite

    def plant(source, target, **options):
        right(source, target, **options)
        model = gops.export.ExportedModel.from_files(target)
        model.parameters = {name: value + 1 for name, value in model.parameters.items()}
        model.save(target)

    monkeypatch.setattr(fuzz_files.gops.export, "rewrite", plant)
    found = fuzz_files.check(fuzz_cases.Damaged("symbol_json", ()))
    assert [how for _, how, _ in found] == ["is rewritten with other outputs"]


def test_what_the_contract_refuses_is_found(monkeypatch):
    """A builtin graph is refused by its shapes, a file by its node."""
    monkeypatch.setattr(contracts, "infer", lambda *known: None)
    found = fuzz_inference.check(fuzz_cases.Inference("abs", {}, {"data": (2, 3)}, {}))
    found += fuzz_hostile.check(fuzz_cases.Hostile("abs", {}, ((2, 3),), "inputs", "1"))
    assert {(where, how) for where, how, _ in found} >= {
        ("builtin alone", "infer_shape takes what the contract refuses"),
        ("custom", "is rewritten, though the contract refuses it"),
        ("native", "is rewritten, though the contract refuses it"),
        ("native", "takes what the contract refuses")}


def test_the_exports_are_those_of_the_driver():
    assert tuple(fuzz_exports.OPERATORS) == fuzz_driver.EXPORTS


@pytest.mark.parametrize("target", ["onnx", "torch"])
def test_a_wrong_export_is_found(target, monkeypatch):
    """A remainder by way of a rounded quotient, as it once was."""
    case = fuzz_cases.Exported("mod_number", "float32", target, 0.6)
    pytest.importorskip({"onnx": "onnxruntime"}.get(target, "torch"))
    assert fuzz_exports.check(case) == []
    if target == "onnx":
        quotient = lambda call: call.inputs[0] - (call.inputs[0] / 0.6).apply("Floor") * 0.6   # noqa: E731
        monkeypatch.setitem(onnx_converters, "_mod_scalar", quotient)
    else:
        monkeypatch.setitem(torch_converters, "_mod_scalar", "{0} - ({0} / 0.6).floor() * 0.6")
    assert [how for _, how, _ in fuzz_exports.check(case)] == ["differs from MXNet"]


CASE = fuzz_cases.Values("abs", {}, ((2, 3),), "float32")


def test_right_numbers_are_right():
    assert fuzz_values.check(CASE) == []


@pytest.mark.parametrize("plant, kind", [(lambda x: -x, "output is wrong"), (lambda x: x / 0, "output is infinite"),
                                         (lambda x: (x - x) / 0, "output is NaN")])
def test_a_wrong_operator_is_found(plant, kind, monkeypatch):
    """Every backend and way finds it."""
    right = contracts.suite("abs")

    class Planted(type(right)):
        @property
        def function(self):
            return lambda data, **attrs: plant(right.function(data, **attrs))

    monkeypatch.setattr(contracts, "suite", lambda name: Planted())
    found = [where for where, how, _ in fuzz_values.check(CASE) if how == kind]
    assert {where.split(" ")[0] for where in found} == {"custom", "reference", "native", "builtin"}
    assert {where.partition(" ")[2] for where in found} == {"imperative", "hybridized", "simple_bind write"}


STUB = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    case = json.loads(line)["case"]
    print(json.dumps({"begin": case}), flush=True)
    fate = json.loads(case)["fate"]
    if fate == "dies":
        os.abort()
    if fate == "hangs":
        time.sleep(3600)
    failures = {"abs values: native: output is NaN": "how"} if fate == "fails" else {}
    print(json.dumps({"end": case, "judged": True, "failures": failures}), flush=True)
    print(json.dumps({"done": True}), flush=True)
"""


def test_a_case_that_kills_or_hangs_is_reported():
    """The report has the command that runs it again; the cases behind it run in a new process."""
    cases = [json.dumps({"op": "abs", "probe": "values", "fate": fate})
             for fate in ("passes", "dies", "passes", "hangs", "fails", "passes")]
    tasks = iter([{"case": case} for case in cases])
    session = fuzz_driver.Session(tasks, 1, [sys.executable, "-c", STUB], 3, float("inf")).run()
    assert session.counts["abs", "values"] == 6 and not session.broken
    assert sorted(session.failures) == ["abs values: hangs: no answer in 3 s", "abs values: native: output is NaN",
                                        "abs values: the process died with -6"]
    text = fuzz_driver.report(session)
    assert all(fuzz_driver.again(cases[i]) in text for i in (1, 3, 4)) and "3 ways of failing in 6 cases" in text


def test_a_worker_that_cannot_start_is_said():
    session = fuzz_driver.Session(iter([{"case": "{}"}]), 1, [sys.executable, "-c", "1 / 0"], 60, float("inf")).run()
    assert "ZeroDivisionError" in session.broken[0]
