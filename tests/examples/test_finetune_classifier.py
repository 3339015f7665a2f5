"""finetune_classifier.py, and what it shares with finetune_yolov2.py: checkpoints, resuming, devices, accumulation."""
import argparse
import resource
import shutil
import signal
import subprocess
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image
from training_runs import EXAMPLES, assert_same_run, content, results, runner, train_state

SCRIPT = EXAMPLES / "finetune_classifier.py"
QUICK = ("--model", "mlp", "--batch-size", "128", "--epochs", "2")   # 11 batches an epoch


@pytest.fixture
def train(monkeypatch, tmp_path):
    return runner(monkeypatch, tmp_path, "finetune_classifier")


def test_end_to_end(tmp_path):
    """As a user runs it: train, export, and load what came out."""
    done = subprocess.run([sys.executable, SCRIPT, "--epochs", "2", "--seed", "1"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "finetune_classifier"
    assert sorted(path.name for path in folder.iterdir()) == [
        "best.params", "classifier-0000.params", "classifier-symbol.json", "curves.png", "embedding.png",
        "last.checkpoint", "results.json"]
    found = results(folder)
    assert f"held-out accuracy  {found['held_out_accuracy']:.4f} of 359 images" in done.stdout
    assert found["held_out_accuracy"] > 0.7 and found["classes"] == list("0123456789")
    assert max(found["export_differences"].values()) <= 1e-5
    assert "loss=" in done.stderr and "image/s" in done.stderr and "epoch 2" in done.stderr
    assert [row["epoch"] for row in found["epochs"]] == [1, 2]
    assert found["epochs"][1]["loss"] < found["epochs"][0]["loss"]
    for name in ("curves.png", "embedding.png"):
        assert imread(folder / name).std() > 0.05

    net = mx.gluon.SymbolBlock.imports(str(folder / "classifier-symbol.json"), ["data"],
                                       str(folder / "classifier-0000.params"))
    held_out = gops.data.digits(seed=1)[1]
    predicted = net(mx.nd.array(held_out.images)).asnumpy().argmax(1)
    assert (predicted == held_out.labels).mean() == pytest.approx(found["held_out_accuracy"], abs=1e-9)


@pytest.mark.parametrize("stop, options", [
    (4, ()), pytest.param(11, (), marks=pytest.mark.slow),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (17, ("--accumulate", "3")), (4, ("--freeze", "1")), (17, ("--freeze", "1")),
        (6, ("--optimizer", "adam", "--lr", "0.001", "--lr-schedule", "steps", "--warmup", "0.5", "--threads", "2"))))])
def test_ctrl_c_and_resume_give_the_same_numbers(train, stop, options, capsys):
    """Within the first epoch, at its end, and in the second, when the backbone of --freeze 1 is released."""
    whole = train("whole", *QUICK, *options)
    stopped = train("stopped", *QUICK, *options, stop=stop)
    said = capsys.readouterr().err
    assert "saved stopped/last.checkpoint. To continue: python finetune_classifier.py" in said
    assert "--resume auto" in said and not (stopped / "results.json").exists()
    assert train_state(stopped)["seen"] < train_state(whole)["seen"] == 2 * 1294
    train("stopped", *QUICK, *options, "--resume", "auto")
    assert_same_run(whole, stopped)


def test_resume_after_a_kill(train, tmp_path):
    """--save-every; the process is killed later, even while it writes: the temporary file is not taken for one."""
    whole = train("whole", *QUICK)
    killed = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import _checkpoint, _common, finetune_classifier
saved, replace = [], os.replace
def replacing(temporary, path):
    if path.name == "last.checkpoint":
        saved.append(path)
        if len(saved) == 3:
            open(temporary, "rb+").truncate(1000)
            os.kill(os.getpid(), signal.SIGKILL)
    replace(temporary, path)
os.replace = replacing
finetune_classifier.main()
"""
    done = subprocess.run([sys.executable, "-c", killed, str(EXAMPLES), "--out", "killed", "--save-every", "4", *QUICK],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert train_state(tmp_path / "killed")["batch"] == 8
    assert_same_run(whole, train("killed", *QUICK, "--resume"))


@pytest.fixture
def full_disk():
    """A function after which files end at so many bytes; MXNet sees a full disk the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)   # Python ignores the signal: writing fails
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("file", ["last.checkpoint", "best.params"])
@pytest.mark.parametrize("lacks", [1, pytest.param(100, marks=pytest.mark.slow), 100_000])
def test_a_full_disk_leaves_the_old_file(train, monkeypatch, tmp_path, full_disk, file, lacks):
    """Where the last buffer does not fit MXNet says nothing, where more does not it raises."""
    train("out", *QUICK[:4], "--epochs", "1")
    import _common
    before, written = (tmp_path / "out" / file).read_bytes(), []
    write = _common.write

    def filling(path, save):
        if path.name == file:
            written.append(path)
            save(str(tmp_path / "whole"))
            full_disk((tmp_path / "whole").stat().st_size - lacks)
        write(path, save)

    monkeypatch.setattr(_common, "write", filling)
    with pytest.raises(gops.OpError, match=f"out/{file} cannot be written .*; what it held before is untouched. Make"):
        train("out", *QUICK)
    assert len(written) == 1 and (tmp_path / "out" / file).read_bytes() == before
    assert not list((tmp_path / "out").glob("*.tmp"))


def test_accumulated_batches_are_one_batch(train):
    """Four batches of 32 with --accumulate 4 update as one of 128 does, but for rounding."""
    large = content(train("large", *QUICK))
    small = content(train("small", *QUICK[:2], "--batch-size", "32", "--accumulate", "4", "--epochs", "2"))
    for name, value in large.items():
        np.testing.assert_allclose(small[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_two_devices_are_one(train):
    one = content(train("one", *QUICK))
    for kvstore in ("device", "local"):
        two = content(train(f"two-{kvstore}", *QUICK, "--ctx", "cpu:0,cpu:1", "--kvstore", kvstore))
        for name, value in one.items():
            np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_frozen(train):
    """With --freeze -1 only the output learns."""
    folder = train("frozen", *QUICK, "--freeze", "-1")
    other = train("one", *QUICK[:4], "--epochs", "1", "--freeze", "-1")
    last, first = content(folder), content(other)
    for name in ("param:net.embed.0.1.weight", "param:net.embed.0.2.bias"):
        np.testing.assert_array_equal(last[name], first[name])
    assert np.abs(last["param:net.output.weight"] - first["param:net.output.weight"]).max() > 1e-3
    assert {name for name in last if name.startswith("state")} == {f"state:net.output.{part}:0"
                                                                   for part in ("weight", "bias")}


def test_classes_keep_their_rows(train, tmp_path):
    """From 0-4 to 3-7, with a learning rate of nothing: features and the rows of 3 and 4 are the old ones."""
    old = content(train("old", *QUICK, "--classes", *"01234"))
    new = content(train("new", *QUICK, "--classes", *"34567", "--lr", "0", "--pretrained", "old/last.checkpoint"))
    for name in (name for name in old if name.startswith("param:net.embed")):
        np.testing.assert_array_equal(new[name], old[name])
    weight = "param:net.output.weight"
    np.testing.assert_array_equal(new[weight][:2], old[weight][3:])
    assert not np.isin(new[weight][2:], old[weight]).any()
    assert train_state(tmp_path / "new")["classes"] == list("34567")

    (tmp_path / "names").write_text("".join(f"{digit}\n" for digit in "01234"))
    again = content(train("again", *QUICK, "--classes", *"40", "--lr", "0", "--pretrained", "old/best.params",
                          "--pretrained-names", "names"))
    best = content(tmp_path / "old", "best.params")
    np.testing.assert_array_equal(again[weight], best["output.weight"][[4, 0]])


@pytest.mark.parametrize("options, text", [
    (("--ctx", "tpu"), "the device 'tpu' is unknown"), (("--gpus", "0"), "there is no gpu(0): MXNet sees 0 GPUs"),
    (("--ctx", "cpu:0,cpu:0"), "names a device twice"), (("--dtype", "float16"), "float16 needs GPUs"),
    (("--dtype", "bfloat16"), "bfloat16 is not supported"), (("--model", "lenot"), "there is no classifier 'lenot'"),
    (("--kvstore", "dist_sync"), "without a parameter server"), (("--classes", "12"), "there is no class '12'"),
    (("--dataset", "folder", "--root", "no"), "there is no folder no/train"),
    (("--lr", "1e30", "--warmup", "0"), "the loss is no number any more in epoch 1"),
    (("--pretrained", "no.params"), "no.params cannot be read"), (("--resume", "no.checkpoint"), "is no checkpoint"),
    (("--batch-size", "1", "--ctx", "cpu:0,cpu:1"), "1 images in a batch for 2 devices")])
def test_refused(train, options, text):
    with pytest.raises(gops.OpError) as error:
        train("out", *QUICK, *options)
    assert text in str(error.value)


@pytest.fixture
def photographs(tmp_path, rng):
    """A folder of dark and light images, in colour and not square."""
    for part, count in (("train", 24), ("val", 8)):
        for label, name in enumerate(("dark", "light")):
            (tmp_path / "data" / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.randint(0, 120, (20, 30, 3)) + 130 * label
                Image.fromarray(pixels.astype("uint8")).save(tmp_path / "data" / part / name / f"{i}.png")
    return "--dataset", "folder", "--root", "data", "--size", "32", "--batch-size", "8", "--flip", "0.5"


@pytest.mark.slow
def test_folders_and_center_loss(train, photographs, tmp_path):
    """Files in folders, mirrored and in other colours; the centres are in the checkpoint and continue, too."""
    options = (*photographs, "--epochs", "3", "--embedding", "2", "--center-loss", "0.01", "--lr", "0.01")
    whole = train("whole", *options)
    assert results(whole)["classes"] == ["dark", "light"] and results(whole)["held_out_accuracy"] > 0.9
    last = content(whole)
    assert last["param:center.centers"].shape == (2, 2) and np.abs(last["param:center.centers"]).max() > 0.01
    assert last["param:center.counts"].sum() == 3 * 43   # of 48 a tenth chooses the epoch
    train("stopped", *options, stop=8)
    train("stopped", *options, "--resume")
    assert_same_run(whole, tmp_path / "stopped")


@pytest.mark.slow
def test_frozen_batch_norm_keeps_its_statistics(train, photographs):
    options = (*photographs, "--model", "mobilenet0.25", "--epochs", "1")
    frozen, free = (content(train(out, *options, "--freeze", epochs)) for out, epochs in (("a", "-1"), ("b", "0")))
    means = [name for name in frozen if name.endswith("running_mean")]
    assert means and all((frozen[name] == 0).all() for name in means)
    assert any((free[name] != 0).any() for name in means)


@pytest.mark.slow
def test_center_loss_draws_classes_together(train):
    options = (*QUICK[:4], "--epochs", "6", "--embedding", "2", "--lr", "0.05")
    alone, beside = (results(train(out, *options, "--center-loss", weight))
                     for out, weight in (("alone", "0"), ("beside", "1")))
    assert beside["spread"] < 0.7 * alone["spread"]


@pytest.mark.parametrize("units", [1, 2, 5])
def test_pictures_of_embeddings(train, tmp_path, rng, units):
    """Of a single unit, too; and of a single class, which is spread over nothing to compare with."""
    import _pictures
    vectors, labels = rng.standard_normal((20, units)), np.arange(20) % 3
    _pictures.embedding(vectors, labels, "abc", tmp_path / "embedding.png")
    assert imread(tmp_path / "embedding.png").std() > 0.02
    assert _pictures.spread(vectors, labels) > 0 and _pictures.spread(vectors, labels * 0) is None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_default_run(tmp_path):
    """From nothing, on scikit-learn's digits."""
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out" / "finetune_classifier")["held_out_accuracy"] >= 0.985


@pytest.mark.slow
def test_darknet19_weights(train, tmp_path):
    """darknet19.weights start a classifier that computes the same, for the classes whose names are kept."""
    import _classifier
    source = gops.models.darknet19(classes=3)
    source.initialize(mx.init.Xavier())
    images = mx.nd.random.uniform(shape=(1, 3, 64, 64))
    expected = source(images).asnumpy()
    gops.darknet.save_weights(source, str(tmp_path / "darknet19.weights"))
    (tmp_path / "names").write_text("ant\nbee\ncat\n")
    args = argparse.Namespace(model="darknet19", embedding=0, pretrained=str(tmp_path / "darknet19.weights"),
                              pretrained_names=str(tmp_path / "names"))
    net = _classifier.make(args, ["cat", "ant", "dog"], (3, 64, 64))
    assert _classifier.start_from(net, args) == ["cat", "ant"]
    np.testing.assert_allclose(net(images).asnumpy()[:, :2], expected[:, [2, 0]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("header", [b'{"epoch": 1}', b"[1]", b"cut", None])
@pytest.mark.parametrize("named", [True, False])
def test_what_is_no_checkpoint_is_refused(train, tmp_path, header, named):
    """A header without a format, one that is no dict or no JSON, none; and a list of tensors."""
    tensors = {"standing": mx.nd.array(np.frombuffer(header or b"1", "uint8"), dtype="uint8")}
    if header is None:
        tensors = {"weight": mx.nd.ones(1)}
    mx.nd.save(str(tmp_path / "odd.checkpoint"), tensors if named else list(tensors.values()))
    with pytest.raises(gops.OpError, match="odd.checkpoint is no checkpoint of these scripts"):
        train("out", *QUICK, "--resume", "odd.checkpoint")


def test_resuming_with_other_options_is_refused(train):
    train("out", *QUICK, stop=3)
    with pytest.raises(gops.OpError, match="batch_size is 64; the run in out/last.checkpoint was started with 128"):
        train("out", "--model", "mlp", "--epochs", "2", "--batch-size", "64", "--resume")


@pytest.mark.slow
def test_resuming_into_another_folder(train, tmp_path):
    """A run that is done, and one that is not: both files come along. One without the best epoch's is refused."""
    whole, stopped = train("whole", *QUICK), train("stopped", *QUICK, stop=15)
    (tmp_path / "gone").mkdir()
    for name, start in (("done", whole), ("moved", stopped)):
        assert_same_run(whole, train(name, *QUICK, "--resume", f"{start.name}/last.checkpoint"))
    (whole / "last.checkpoint").rename(tmp_path / "gone" / "last.checkpoint")
    with pytest.raises(gops.OpError, match="gone/best.params is missing; expected the best epoch's parameters beside"):
        train("out", *QUICK, "--resume", "gone/last.checkpoint")


def test_resuming_with_other_data_is_refused(train, photographs, tmp_path):
    """One image more, and one that moved to the other class."""
    train("out", *photographs, "--model", "mlp", "--epochs", "2", stop=7)
    for change in (lambda folder: (folder / "dark" / "0.png").rename(folder / "light" / "new.png"),
                   lambda folder: shutil.copy(folder / "dark" / "1.png", folder / "dark" / "new.png")):
        change(tmp_path / "data" / "train")
        with pytest.raises(gops.OpError, match="the images or labels to train on are others .* out/last.checkpoint"):
            train("out", *photographs, "--model", "mlp", "--epochs", "2", "--resume")
