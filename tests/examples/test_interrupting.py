"""Ctrl-C and SIGTERM at any time in the fine-tuning scripts: what is saved, what is said, and how to go on."""
import os
import runpy
import signal
import sys

import gluonops as gops
import pytest
from training_runs import EXAMPLES, assert_same_run, runner, train_state

QUICK = ("--model", "mlp", "--batch-size", "128", "--epochs", "2")   # 11 batches an epoch


@pytest.fixture
def train(monkeypatch, tmp_path):
    return runner(monkeypatch, tmp_path, "finetune_classifier")


@pytest.fixture
def script(monkeypatch, tmp_path, capsys):
    """A function that runs a script as a command, and returns its exit status and the last line of its errors."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(name, *options):
        signal.signal(signal.SIGINT, signal.default_int_handler)   # the tests may have been started with it ignored
        monkeypatch.setattr(sys, "argv", [name, *options])
        with pytest.raises(SystemExit) as error:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return error.value.code, capsys.readouterr().err.splitlines()[-1]

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def pressing(number, times=1, then=None):
    """A function that sends this process the signal, and returns what ``then`` does."""
    def press(*args, **options):
        for _ in range(times):
            os.kill(os.getpid(), number)
        return then(*args, **options)

    return press


@pytest.mark.parametrize("validation, stands", [pytest.param(1, (1, 0), marks=pytest.mark.slow), (2, (2, 0))])
def test_during_validation(train, monkeypatch, capfd, validation, stands):
    """It ends after that validation; also in the last epoch."""
    import finetune_classifier
    whole, predict, calls = train("whole", *QUICK), finetune_classifier.predict, []

    def validating(*args):
        calls.append(args)
        return (pressing(signal.SIGINT, then=predict) if len(calls) == validation else predict)(*args)

    with monkeypatch.context() as patch:
        patch.setattr(finetune_classifier, "predict", validating)
        stopped = train("stopped", *QUICK, stop=0)
    assert len(calls) == validation and (train_state(stopped)["epoch"], train_state(stopped)["batch"]) == stands
    said = capfd.readouterr().err
    assert "saving after the validation; once more ends at once" in said and "saved stopped/last.checkpoint. To" in said
    train("stopped", *QUICK, "--resume")
    assert_same_run(whole, stopped)


def test_twice_during_validation(train, monkeypatch):
    """The epoch's batches are not lost; what is left of it is the validation."""
    import finetune_classifier
    whole = train("whole", *QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(finetune_classifier, "predict", pressing(signal.SIGINT, times=2))
        with pytest.raises(KeyboardInterrupt):
            train("stopped", *QUICK)
    stopped = whole.with_name("stopped")
    assert (train_state(stopped)["epoch"], train_state(stopped)["batch"]) == (0, 11)
    train("stopped", *QUICK, "--resume")
    assert_same_run(whole, stopped)


@pytest.mark.parametrize("words, expected", [
    (["a.py"], "a.py --resume auto"), (["a.py", "--resume", "old/x.checkpoint"], "a.py --resume auto"),
    (["a.py", "--resume=x", "--out", "o"], "a.py --out o --resume auto"),
    (["a.py", "--res", "x", "--out", "two words"], "a.py --out 'two words' --resume auto"),
    (["a.py", "--resume", "--root", "x"], "a.py --root x --resume auto")])
def test_the_command_to_continue(train, monkeypatch, words, expected):
    """It never goes back to the checkpoint that this run began with, and starts a job as it was started."""
    import _continuing
    import launch_local
    monkeypatch.setattr(sys, "argv", words)
    assert _continuing.command_to_continue() == f"python {expected}"
    launcher = ["examples/launch_local.py", "-n", "3", "--"]
    monkeypatch.setattr(sys, "argv", [*launcher, "python", *words])
    monkeypatch.setenv("LAUNCH_LOCAL", launch_local.environment("worker", 1, launch_local.arguments())["LAUNCH_LOCAL"])
    monkeypatch.setattr(sys, "argv", words)
    assert _continuing.command_to_continue() == f"python examples/launch_local.py -n 3 -- python {expected}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_during_pretraining(script, monkeypatch, number):
    import _pretrain
    monkeypatch.setattr(_pretrain, "pretrain", pressing(number))
    assert script("finetune_yolov2.py", "--count", "8", "8", "--size", "64") == (
        130, "interrupted; nothing of this training is saved yet")


def test_during_export(script, monkeypatch):
    import _export
    monkeypatch.setattr(_export, "export", pressing(signal.SIGINT))
    assert script("finetune_classifier.py", "--out", "out", *QUICK) == (
        130, "interrupted; out/last.checkpoint is saved. To continue: "
             f"python {EXAMPLES / 'finetune_classifier.py'} --out out {' '.join(QUICK)} --resume auto")
    # What is there from before is not of this run.
    monkeypatch.setattr("_images.load", pressing(signal.SIGINT))
    assert script("finetune_classifier.py", "--out", "out") == (
        130, "interrupted; nothing of this training is saved yet")


def test_with_module(script, monkeypatch, tmp_path):
    import _common
    monkeypatch.setattr(_common, "train", pressing(signal.SIGINT))
    assert script("module_finetune.py") == (130, "interrupted; nothing of this training is saved yet")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gops.export, "rewrite", pressing(signal.SIGINT))
    assert script("module_finetune.py", "--start-epochs", "1", "--epochs", "1") == (
        130, "interrupted; out/module_finetune/finetuned-0000.params is saved, of the newest epoch")
