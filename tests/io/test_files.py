"""Files written together: all of them, or what was there before."""
import concurrent.futures
import contextlib
import os
import pathlib
import resource
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import pytest
from gluonops.data.base import class_names
from gluonops.io import files, params
from gluonops.io.params import load_arrays
from gluonops.train import make_folder as make_out


def saver(text):
    def save(path):
        with open(path, "w") as file:
            file.write(text)
    return save


NEW_PAIR = {"a.json": "new", "b.params": "new"}


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ["a.json", "b.params", "c.txt"]


def contents():
    return {path.name: path.read_text() for path in pathlib.Path().iterdir() if path.is_file()}


@pytest.mark.parametrize("before", [{}, {"a.json": "old"}, {"a.json": "old", "b.params": "older", "c.txt": "oldest"}],
                         ids=["none", "one", "all"])
@pytest.mark.parametrize("failing", ["a.json", "b.params", "c.txt"])
def test_a_rename_that_fails(failing, before, names, monkeypatch):
    """The files renamed before it are taken back, and nothing else is left."""
    for name, text in before.items():
        saver(text)(name)
    rename = os.replace

    def fail(source, target):
        if target == failing:
            raise OSError("planted")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(gops.OpError, match="gluonops.export: cannot write a.json and b.params and c.txt: planted"):
        files.replace("export", {name: saver("new") for name in names})
    assert contents() == before
    monkeypatch.undo()


def replace_interrupted(at):
    """Write a pair, with Ctrl-C before the ``at``-th line of files.py that runs; return how many lines there were."""
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == at:
                raise KeyboardInterrupt
        return trace

    def replace():
        sys.settrace(trace)
        files.replace("export", {name: saver("new") for name in NEW_PAIR})

    # A thread of its own runs it: Python 3.11 may leave the exception of a trace function as the one being handled.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        thread.submit(replace).result()
    return len(lines)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")   # a file that Python was about to close
@pytest.mark.parametrize("before", [{}, {"a.json": "old"}, {"a.json": "old", "b.params": "older"}],
                         ids=["none", "one", "both"])
def test_ctrl_c_at_every_line(names, before, monkeypatch):
    """The folder has the old pair or the new one, and nothing else."""
    results = []
    for line in range(1, replace_interrupted(0) + 1):
        folder = pathlib.Path(str(line))
        folder.mkdir()
        monkeypatch.chdir(folder)
        for name, text in before.items():
            saver(text)(name)
        with pytest.raises(KeyboardInterrupt):
            replace_interrupted(line)
        results.append(contents())
        monkeypatch.chdir("..")
    assert results[0] == before and results[-1] == NEW_PAIR
    assert [line for line, result in enumerate(results, 1) if result not in (before, NEW_PAIR)] == []


@pytest.mark.parametrize("interrupted", [[2, 3], [3, 4], [3, 5], [3, 4, 5, 6]])
def test_ctrl_c_while_old_files_are_put_back(names, monkeypatch, interrupted):
    """The calls of os.replace for new files are interrupted, then those for old ones, until they are back."""
    for name in names:
        saver("old")(name)
    rename, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) in interrupted:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        files.replace("export", {name: saver("new") for name in names})
    assert contents() == dict.fromkeys(names, "old") and len(calls) > max(interrupted)


def test_an_old_file_that_cannot_be_put_back(names, monkeypatch):
    """It stays beside, and the error says where."""
    saver("old")("a.json")
    rename = os.replace

    def once(source, target):
        if os.path.exists("renamed"):
            raise OSError(30, "Read-only file system")
        saver("")("renamed")
        rename(source, target)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(gops.OpError, match="a.json is only half written, and the previous file cannot be put "
                       r"back: Read-only file system. Rename a.json.*\.tmp, which is the previous file, to "
                       r"a.json\.") as error:
        files.replace("export", {name: saver("new") for name in NEW_PAIR})
    assert pathlib.Path(error.value.remedy.split()[1].rstrip(",")).read_text() == "old"


def test_the_umask(names, monkeypatch):
    """A file has the permissions of any new file. The mask stays as it is meanwhile: other threads make files too."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            files.replace("export", {"a.json": saver("new")})
    finally:
        os.umask(before)
    assert os.stat("a.json").st_mode & 0o777 == 0o640


def test_a_folder_in_the_place_of_the_last(names):
    saver("old")("a.json")
    os.mkdir("c.txt")
    with pytest.raises(gops.OpError, match="Is a directory"):
        files.replace("export", {name: saver("new") for name in names})
    assert contents() == {"a.json": "old"}


def test_all_at_once(names):
    saver("old")("a.json")
    files.replace("export", {name: saver("new") for name in names})
    assert contents() == dict.fromkeys(names, "new")


def test_targets(names):
    os.mkdir("folder")
    files.check_writable("test", "a.json", "folder/a.json")
    with pytest.raises(gops.OpError, match="gluonops.test: folder is a folder; expected the name of a file"):
        files.check_writable("test", "a.json", "folder")
    with pytest.raises(gops.OpError, match="gluonops.test: the folder nowhere does not exist. Create it first"):
        files.check_writable("test", "nowhere/a.json")


@pytest.mark.parametrize("name", ["a\0b", os.fsdecode(b"caf\xe9")])
def test_names_that_mxnet_cannot_open(names, name):
    for function in (files.check_writable, files.make_folder, load_arrays, lambda where, path: make_out(path, where)):
        with pytest.raises(gops.OpError, match="gluonops.test: .* is not the name of a file; expected UTF-8"):
            function("test", name)
    assert os.listdir() == []
    with pytest.raises(gops.OpError, match="no file can have this name|No such file"):
        files.read_lines("test", name, "")


def test_folders(names):
    saver("")("a.json")
    files.make_folder("test", "new/er/a.json")
    files.make_folder("test", "new/er/a.json")
    assert os.path.isdir("new/er")
    with pytest.raises(gops.OpError, match="gluonops.test: the folder a.json/b cannot be made: .*Pass another path"):
        files.make_folder("test", "a.json/b/net")


def test_folders_are_removed_where_what_follows_fails(names):
    os.mkdir("old")
    for fails in (True, False):
        with contextlib.suppress(KeyError), files.made_folder("test", "old/new/er/net.json"):
            assert os.path.isdir("old/new/er")
            if fails:
                raise KeyError
        assert os.path.isdir("old") and os.path.isdir("old/new/er") is not fails
    with pytest.raises(gops.OpError, match="gluonops.test: the path is None; expected text"):
        files.check_writable("test", None)


@pytest.mark.parametrize("lacks", [1, 100, 100_000])
def test_a_full_disk(lacks, tmp_path):
    """Files end at so many bytes: where the last block of arrays does not fit, MXNet says nothing."""
    path, arrays = tmp_path / "a.params", {"weight": mx.nd.ones((300, 300)), "bias": mx.nd.ones(30)}
    files.replace("export", {str(path): lambda name: params.write(name, arrays)})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)   # Python ignores the signal: writing fails
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) - lacks, hard))
    try:
        with pytest.raises(gops.OpError, match="gluonops.export: cannot write .*a.params: .*; the previous files are"):
            files.replace("export", {str(path): lambda name: params.write(name, arrays)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.params"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    """It must be of the same path, of this machine, and of a process that is dead."""
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    machine = files._machine()
    left = [f"a.json.x.{machine}.{int(dead.stdout)}.tmp", f"a.json.x.{machine}.{os.getpid()}.tmp",
            f"a.json.x.other.{int(dead.stdout)}.tmp", f"b.json.x.{machine}.{int(dead.stdout)}.tmp", "a.json.mine.tmp"]
    for name in left:
        (tmp_path / name).touch()
    files.replace("test", {str(tmp_path / "a.json"): saver("new")})
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", *left[1:]])


def test_lines_of_a_text_file(tmp_path):
    """A byte order mark and the ends of lines do not matter."""
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffé 1\r\n\nlast".encode())
    assert files.read_lines("test", path, "") == ["é 1", "", "last"]
    path.write_bytes(b"")
    assert files.read_lines("test", path, "") == []


def test_lines_of_what_is_no_text_file(tmp_path):
    """Opening a FIFO would wait for ever."""
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    os.mkfifo(tmp_path / "fifo")
    reasons = {"latin": "it is not a text file", "fifo": "it is not a regular file",
               "none": "No such file or directory"}
    for name, reason in reasons.items():
        with pytest.raises(gops.OpError) as refused:
            files.read_lines("test", tmp_path / name, "Pass another", "the list")
        what = f"the list {tmp_path / name} cannot be read: {reason}"
        assert str(refused.value) == f"gluonops.test: {what}. Pass another."
    with pytest.raises(gops.OpError, match="the class names in .*fifo cannot be read: it is not a regular file"):
        class_names(tmp_path / "fifo", "test")
