"""Sentences, CSV, results.json, and TensorBoard's event files."""
import errno
import json
import os
import resource
import socket
import subprocess
import sys
import types

import gluonops as gops
import numpy as np
import pytest
from gluonops import train
from gluonops.train import reports, run_files

ROWS = [{"epoch": 1, "loss": 0.5, "learning_rate": 0.01, "score": 0.25},
        {"epoch": 2, "loss": 0.25, "mAP_voc07": 0.125, "score": 0.5}]


def test_a_table():
    """The header comes once, and again where the columns change; the columns are aligned and fit in 80."""
    table = train.EpochTable(12, shown=("loss", "mAP_voc07"))
    assert table.row(ROWS[0], 65.2).splitlines() == ["  epoch     time     left     loss",
                                                     "   1/12     1:05    11:57      0.5"]
    assert table.row({**ROWS[0], "epoch": 10}, 3600).splitlines() == ["  10/12  1:00:00  2:00:00      0.5"]
    assert table.row(ROWS[1], 1).splitlines() == ["  epoch     time     left     loss  mAP voc07",
                                                  "   2/12     0:01     0:10     0.25      0.125"]
    wide = {"epoch": 1, **{f"loss_{i}": i / 7 for i in range(12)}}
    header, row = train.EpochTable(2).row(wide).splitlines()
    assert len(header) == len(row) <= 80 and header.split()[:3] == ["epoch", "loss", "0"]


def test_history(tmp_path):
    train.write_history(ROWS, tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text().splitlines() == [
        "epoch,loss,learning_rate,score,mAP_voc07", "1,0.5,0.01,0.25,", "2,0.25,,0.5,0.125"]


def test_results(tmp_path):
    results = {"matrix": np.eye(2, dtype=int), "score": np.float32(0.5), "out": tmp_path}
    train.write_results(results, tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["matrix"] == [[1, 0], [0, 1]] and found["score"] == 0.5 and found["out"] == str(tmp_path)
    assert found["versions"]["gluonops"] == gops.__version__


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(gops.OpError, match="cannot write .*none/r.json"):
        train.write_results({}, tmp_path / "none" / "r.json")
    (tmp_path / "file").write_text("")
    for path, why in (("file", "File exists"), ("file/deep", "Not a directory")):
        with pytest.raises(gops.OpError, match=f"the folder .*{path} cannot be made or written: {why}. Choose another"):
            train.make_folder(tmp_path / path)


LOCKED = """
import subprocess
import sys
from gluonops.train import reports, run_files
run_files.lock_folder(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_two_runs_in_one_folder(tmp_path):
    """The second is refused, and learns which process has it. When the first has ended, the folder is free."""
    command = [sys.executable, "-c", LOCKED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(gops.OpError, match=f"process {first.pid} of .* is writing its run to {tmp_path}. Wait "
                           "until"):
            run_files.lock_folder(tmp_path)
        first.kill()
    run_files.lock_folder(tmp_path)
    run_files.lock_folder(tmp_path)   # the same process may lock it once more


def without_locks(*_):
    raise OSError(errno.ENOLCK, "No locks available")


def test_two_runs_on_a_file_system_without_locks(tmp_path, monkeypatch):
    """The file says who has the folder; what it says of a process that has ended or of another machine is void."""
    monkeypatch.setattr(run_files.fcntl, "lockf", without_locks)
    lock = tmp_path / run_files.LOCK
    machine = socket.gethostname()
    lock.write_text(f"process {os.getppid()} of {machine}\n")
    with pytest.raises(gops.OpError, match=f"process {os.getppid()} of {machine} is writing its run to {tmp_path}. "
                       "Wait"):
        run_files.lock_folder(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number, text in enumerate((f"process {ended.pid} of {machine}", f"process {os.getppid()} of elsewhere",
                                   f"process {os.getpid()} of {machine}", "")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / run_files.LOCK).write_text(text)
        run_files.lock_folder(folder)
        assert (folder / run_files.LOCK).read_text() == f"process {os.getpid()} of {machine}\n"


def make_a_link(path):
    path.with_name("other").write_text("content")
    path.symlink_to("other")


@pytest.mark.parametrize("make, why", [
    (os.mkdir, "Is a directory"), (os.mkfifo, "it is not a regular file"), (make_a_link, "Too many levels")])
def test_a_lock_that_is_no_file(tmp_path, make, why):
    """A link is not followed: its target would be lost."""
    make(tmp_path / run_files.LOCK)
    with pytest.raises(gops.OpError, match=f"run.lock, which keeps two runs apart, cannot be written: {why}.*Remove"):
        run_files.lock_folder(tmp_path)
    assert make is not make_a_link or (tmp_path / "other").read_text() == "content"


def test_a_lock_on_a_full_disk(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)   # Python ignores the signal: writing fails
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(gops.OpError, match="run.lock, .* cannot be written: File too large. .* make room"):
            run_files.lock_folder(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    """The error comes when the folder is made, not after an epoch."""
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(gops.OpError, match="cannot be made or written: Permission denied. Choose another --out"):
        train.make_folder(tmp_path)


def test_tensorboard_by_a_stub(tmp_path, monkeypatch):
    """It gets numbers only, at the epoch's step."""
    written = []

    class Writer:
        def __init__(self, folder, filename_suffix):
            assert folder == str(tmp_path) and filename_suffix == ".epoch1"

        def __enter__(self):
            return self

        def __exit__(self, *error):
            written.append("closed")

        def add_scalar(self, *args):
            written.append(args)

    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer))
    train.EventWriter(tmp_path).write({**ROWS[0], "note": "text"})
    assert written == [("loss", 0.5, 1), ("learning_rate", 0.01, 1), ("score", 0.25, 1), "closed"]


def test_tensorboard_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(gops.OpError, match="tensorboardX cannot be imported .*Run: pip install tensorboardX"):
        train.EventWriter(tmp_path)


def test_tensorboard(tmp_path):
    """TensorBoard reads the files."""
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    writer = train.EventWriter(tmp_path)
    for row in ROWS:
        writer.write(row)
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("events.out.tfevents.*")))
    assert content.count(b"loss") == 2 and b"mAP_voc07" in content


@pytest.mark.parametrize("seconds, words", [(4.6, "5 s"), (59.6, "1 min 0 s"), (754, "12 min 34 s"),
                                            (3723, "1 h 2 min")])
def test_times_in_sentences(seconds, words):
    """They do not read as a clock."""
    assert reports.in_words(seconds) == words
