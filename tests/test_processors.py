"""`make test-processors`: what fails is seen, and the rows of the page stay together. Nothing is emulated here."""
import importlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def processors(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("processors")


@pytest.fixture
def run(processors, monkeypatch):
    """Runs the command; returns its exit code and the arguments of the tests and of the emulations."""
    def run(*words, line="7 passed in 0.1s", emulation=None):
        tests, models = [], []
        monkeypatch.setattr(processors.python_matrix, "last_line",
                            lambda python, arguments, limit, variables: tests.append((arguments, variables)) or line)
        monkeypatch.setattr(processors.processor, "instructions",
                            lambda: {setting.flag for setting in processors.SETTINGS})
        monkeypatch.setattr(processors, "tools_problem", lambda packages: None)
        monkeypatch.setattr(processors, "interpreter", lambda model: sys.executable)
        monkeypatch.setattr(processors.subprocess, "run",
                            lambda command, **options: models.append(command) or emulation(command))
        monkeypatch.setattr(processors, "version_of", lambda python: "2.5")
        monkeypatch.setattr(processors.machine, "describe", lambda: {"cpu": "one"})
        monkeypatch.setattr(sys, "argv", ["processors.py", *words])
        return processors.main(), tests, models
    return run


def emulated(library=None, code=0, output="", error=""):
    """What an emulator would return that runs every check; without ``library``, its library is the model's."""
    def answer(command):
        chosen = library or ("avx2" if command[2] in ("Haswell", "EPYC-Milan") else "base")
        passing = f"doctor ...\ndoctor: instruction set {chosen}\n"
        return subprocess.CompletedProcess(command, code, output or passing, error)
    return answer


def test_every_test_of_it_is_there(processors):
    assert all((ROOT / path).exists() for path in (*processors.TESTS, *processors.FEW_TESTS, processors.CHECKS))


def test_all_rows(run, processors, tmp_path, capsys):
    code, tests, models = run("--json", str(tmp_path / "rows.json"), "-x", emulation=emulated())
    assert code == 0 and len(tests) == len(processors.SETTINGS) and len(models) == len(processors.MODELS)
    for (arguments, variables), setting in zip(tests, processors.SETTINGS):
        assert arguments[-len(processors.TESTS) - 1:] == ["-x", *processors.TESTS]
        assert variables["DNNL_MAX_CPU_ISA"] == setting.onednn and variables["OMP_NUM_THREADS"] == str(setting.threads)
    rows = processors.results.load(tmp_path / "rows.json")
    assert [row["passed"] for row in rows["settings"]] == [7] * len(tests)
    assert {row["result"] for row in rows["emulated"]} == {"passed"}


def test_the_quick_form_is_shorter(run, processors):
    code, tests, models = run("--quick", emulation=emulated())
    assert code == 0 and len(tests) == 2 and [command[2] for command in models] == ["Nehalem"]


def test_one_row_keeps_the_others(run, processors, tmp_path):
    path = str(tmp_path / "rows.json")
    run("--json", path, emulation=emulated())
    run("--json", path, "--only", "AVX2", line="FAILED: 2 failed, 5 passed in 0.1s")
    rows = processors.results.load(path)
    assert [row["processor"] for row in rows["settings"]] == [setting.processor for setting in processors.SETTINGS]
    assert [(row["passed"], row["failed"]) for row in rows["settings"]] == [(7, 0), (7, 0), (5, 2), (7, 0)]
    assert len(rows["emulated"]) == len(processors.MODELS)


def test_a_failing_test_is_a_failure(run, capsys):
    code, *_ = run("--only", "AVX2", line="FAILED: 1 failed, 3 passed in 0.1s")
    assert code == 1 and "DNNL_MAX_CPU_ISA=AVX2" in capsys.readouterr().err


@pytest.mark.parametrize("answer, text", [
    (emulated(code=132, output="doctor ...\n", error="qemu: uncaught target signal 4 (Illegal instruction)\n"),
     "FAILED: qemu: uncaught target signal 4 (Illegal instruction) (in doctor)"),
    (emulated(code=1, output="nothing\n", error="ImportError: no\n"), "FAILED: ImportError: no (in import)"),
    (emulated(library="base"), "FAILED: the library chose base, not avx2; qemu has AVX from 7.2 on")])
def test_what_an_emulated_processor_cannot_do_is_a_failure(run, answer, text, capsys):
    code, *_ = run("--only", "Haswell", emulation=answer)
    assert code == 1 and text in capsys.readouterr().out


def test_without_an_emulator(processors, monkeypatch, capsys):
    """The command says how to get it, and is not content."""
    monkeypatch.setattr(processors, "tools_problem", lambda packages: "qemu-user is missing. Run: sudo apt-get ...")
    monkeypatch.setattr(sys, "argv", ["processors.py", "--only", "Haswell"])
    assert processors.main() == 1
    assert "FAILED: qemu-user is missing. Run: sudo apt-get" in capsys.readouterr().out


def test_a_setting_that_this_processor_lacks(processors, monkeypatch, capsys):
    monkeypatch.setattr(processors.processor, "instructions", set)
    monkeypatch.setattr(sys, "argv", ["processors.py", "--only", "AVX2"])
    assert processors.main() == 0 and "not run: this processor has no avx2" in capsys.readouterr().out
