"""Runs of the fine-tuning scripts inside the test's process, and what they leave behind."""
import gzip
import importlib
import json
import os
import pathlib
import re
import signal
import struct
import sys
from unittest import mock

import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from gluonops.data import digits
from gluonops.train import pictures

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def runner(monkeypatch, folder, script):
    """A function that runs the script in ``folder``, without pictures and exports, which take longest.

    Its ``stop`` presses Ctrl-C during that batch, counted over the whole run, the pretraining included.
    """
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(folder)
    module = importlib.import_module(script)

    def run(out, *options, stop=None):
        monkeypatch.setattr(sys, "argv", [f"{script}.py", "--out", out, *options])
        batches, step = [], train.Run.step

        def counting(self, parts, after=None):
            batches.append(self.batch)
            if len(batches) == stop:
                os.kill(os.getpid(), signal.SIGINT)
            step(self, parts, after)

        with monkeypatch.context() as patch:
            patch.setattr(train.Run, "step", counting)
            for name in pictures.__all__:   # they take the arguments of the functions
                patch.setattr(train, name, mock.create_autospec(getattr(pictures, name)))
            patch.setattr("gluonops.train.export_and_check", lambda *_: {"module": 0})
            if stop is None:
                module.main(module.arguments())
            else:
                with pytest.raises(SystemExit, match="130"):
                    module.main(module.arguments())
        return folder / out

    return run


def write_few_digits(folder):
    """Write 300 of the digits to train on and 100 to hold out into MNIST's files, for ``--data-dir``."""
    folder.mkdir()
    for name, split, count in zip(("train", "t10k"), digits(), (300, 100)):
        arrays = {"images-idx3": (split.images[:count, 0] * 255).round(), "labels-idx1": split.labels[:count]}
        for kind, array in arrays.items():
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            content = gzip.compress(header + array.astype("uint8").tobytes())
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(content)


def content(folder, file="last.checkpoint"):
    """The tensors of a checkpoint or of parameters."""
    return {name: value.asnumpy() for name, value in mx.nd.load(str(folder / file)).items()
            if name not in ("standing", "checksum")}


def train_state(folder, file="last.checkpoint"):
    """Where the run of a checkpoint stood."""
    return train.read_checkpoint(folder / file)[1]


def results(folder):
    return json.loads((folder / "results.json").read_text())


def assert_same_run(one, other):
    """Parameters, the optimizer's state, the best epoch's parameters, and what was measured agree bit for bit."""
    for file in ("last.checkpoint", "best.params"):
        mine, theirs = content(one, file), content(other, file)
        assert set(mine) == set(theirs)
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert train_state(one)["history"] == train_state(other)["history"]
    assert results(one)["epochs"] == results(other)["epochs"]


def last_words(stdout):
    """(command, snippet) that a script ends with."""
    command, snippet = stdout.split("Run the net on a picture, such as ")[1].split("\n\nThe same in Python:\n\n")
    return command.split("\n\n")[1], snippet.rstrip("\n") + "\n"


def assert_fits_80_columns(stderr):
    """Every line does, but for commands, and no other package warns."""
    for line in stderr.replace("\r", "\n").splitlines():
        assert len(line) <= 80 or " --" in line, line
    assert "Subgraph" not in stderr and not re.search(r"\wWarning", stderr) and "\x1b" not in stderr
