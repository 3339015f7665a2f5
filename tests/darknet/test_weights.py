"""Weights files: read and written bit for bit, and refused where they do not fit."""
import os
import pathlib
import shutil
import struct

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn
from recorded import cfg

HEADERS = {"seen of 4 bytes": (struct.pack("<iiii", 0, 1, 0, 32013312), (0, 1, 0, 32013312)),
           "seen of 8 bytes": (struct.pack("<iiiQ", 0, 2, 5, 2 ** 40 + 1), (0, 2, 5, 2 ** 40 + 1)),
           "version 1": (struct.pack("<iiiQ", 1, 0, 0, 7), (1, 0, 0, 7)),
           "transposed": (struct.pack("<iiii", 1001, 0, 0, 7), (1001, 0, 0, 7))}


# Bytes of mini-yolov2's convolutions: filters * (4 or 1 + size * size * channels) floats.
FIRST, SECOND, THIRD, FOURTH, LAST = (4 * n for n in (8 * 31, 16 * 76, 24 * 148, 8 * 20, 21 * 57))
END = 20 + FIRST + SECOND + THIRD + FOURTH + LAST


@pytest.fixture
def file(tmp_path, weights):
    """A copy, for the tests to change."""
    return pathlib.Path(shutil.copy(weights("mini-yolov2", 21), tmp_path / "mini.weights"))


def values(net):
    return [p.data().copy().asnumpy().tobytes() for p in net.collect_params().values()]


@pytest.mark.parametrize("header", HEADERS)
def test_a_file_comes_out_byte_for_byte(header, file, tmp_path):
    head, fields = HEADERS[header]
    file.write_bytes(head + file.read_bytes()[20:])
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    assert net.darknet_header == fields and net.darknet_header.seen == fields[3]
    gops.darknet.save_weights(net, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    gops.darknet.save_weights(net, tmp_path / "more", seen=5)
    more = (tmp_path / "more").read_bytes()
    assert more[:12] == head[:12] and more[len(head):] == file.read_bytes()[len(head):]
    assert int.from_bytes(more[12:len(head)], "little") == 5


def test_a_net_comes_back_bit_for_bit(rng, tmp_path):
    """The bits may be subnormal numbers, infinities and NaN; they are in the order that Darknet reads."""
    nets = [gops.darknet.load(cfg("mini-yolov2")) for _ in range(2)]
    nets[0].initialize()
    for parameter in nets[0].collect_params().values():
        bits = rng.randint(0, 2 ** 32, parameter.shape, dtype="uint64").astype("uint32")
        parameter.set_data(mx.nd.array(bits.view("float32")))
    gops.darknet.save_weights(nets[0], tmp_path / "w", seen=12)
    gops.darknet.load_weights(nets[1], tmp_path / "w")
    assert values(nets[0]) == values(nets[1])
    written = np.fromfile(tmp_path / "w", "<f4", offset=20)
    first = nets[0][0]
    order = [first.norm.beta, first.norm.gamma, first.norm.running_mean, first.norm.running_var, first.conv.weight]
    expected = np.concatenate([p.data().copy().asnumpy().ravel() for p in order])
    assert written[:len(expected)].tobytes() == expected.tobytes()
    assert struct.unpack("<iiiQ", (tmp_path / "w").read_bytes()[:20]) == (0, 2, 0, 12)


def test_loading_initializes_and_reports(file):
    net, seen = gops.darknet.load(cfg("mini-yolov2")), []

    def progress(items):
        for item in items:
            seen.append(item.name)
            yield item

    gops.darknet.load_weights(net, file, progress=progress)
    assert [name.split("layer")[1][:2] for name in seen] == ["00", "02", "04", "06", "09"]
    assert net(mx.nd.ones((1, 3, 64, 96))).shape == (1, 21, 2, 3)


def test_trained_nets_come_back(file, tmp_path):
    """Their running statistics come back as well."""
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    before = values(net)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    for _ in range(2):
        with mx.autograd.record():
            loss = (net(mx.nd.ones((2, 3, 64, 96))) ** 2).sum()
        loss.backward()
        trainer.step(2)
    assert all(a != b for a, b in zip(before, values(net)))
    gops.darknet.save_weights(net, tmp_path / "w")
    assert values(gops.darknet.load(cfg("mini-yolov2"), tmp_path / "w")) == values(net)


def test_the_first_layers_of_another_file(file, tmp_path):
    """A block of a net loads a file that ends where the block does."""
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    (tmp_path / "part").write_bytes(file.read_bytes()[:20 + FIRST])
    other = gops.darknet.load(cfg("mini-yolov2"))
    gops.darknet.load_weights(other[0], tmp_path / "part")
    assert values(other[0]) == values(net[0])


@pytest.mark.parametrize("change, message", [
    (lambda b: b[:-1], f"w is too short: mini_yolov2_layer09_convolutional takes bytes {END - LAST} to {END}, and the "
                       f"file has {END - 1}"),
    (lambda b: b[:5000], f"w is too short: mini_yolov2_layer02_convolutional takes bytes {20 + FIRST} to "
                         f"{20 + FIRST + SECOND}, and the file has 5000"),
    (lambda b: b + b"abcd",
     f"w has 4 bytes too many: the last layer, mini_yolov2_layer09_convolutional, ends at byte {END} of {END + 4}"),
    (lambda b: b[:12], "w has 12 bytes; expected a header of 16 or 20 bytes"),
    (lambda b: b"", "w has 0 bytes; expected a header")])
def test_files_that_do_not_fit(change, message, file, tmp_path):
    """They are refused before anything is loaded."""
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    before = values(net)
    (tmp_path / "w").write_bytes(change(file.read_bytes()))
    with pytest.raises(gops.OpError) as caught:
        gops.darknet.load_weights(net, tmp_path / "w")
    assert message in str(caught.value)
    assert values(net) == before


def test_nets_that_do_not_fit(file, tmp_path):
    mixed = nn.HybridSequential()
    mixed.add(gops.darknet.Convolution(3, in_channels=3), nn.Dense(2, in_units=3))
    for net, text in ((mixed, "has the parameter dense"), (nn.Flatten(), "no convolution"), (None, "net is NoneType")):
        for act in (gops.darknet.load_weights, gops.darknet.save_weights):
            with pytest.raises(gops.OpError, match=text):
                act(net, file)
    with pytest.raises(gops.OpError, match="layer00_convolutional is not initialized"):
        gops.darknet.save_weights(gops.darknet.load(cfg("mini-yolov2")), tmp_path / "w")
    with pytest.raises(gops.OpError, match="the input channels of convolution0 are not known yet"):
        gops.darknet.load_weights(gops.darknet.Convolution(3, prefix="convolution0_"), file)
    with pytest.raises(gops.OpError, match="the weights .*missing cannot be read: No such file"):
        gops.darknet.load(cfg("mini-yolov2"), tmp_path / "missing")


@pytest.mark.parametrize("seen", [-1, 2 ** 64, 0.5, "many"])
def test_seen_has_to_fit(seen, file, tmp_path):
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    with pytest.raises(gops.OpError, match="expected an integer from 0 that fits 8 bytes"):
        gops.darknet.save_weights(net, tmp_path / "w", seen)
    assert not (tmp_path / "w").exists()


def test_nothing_is_lost_when_writing_fails(file, monkeypatch):
    net = gops.darknet.load(cfg("mini-yolov2"), file)
    before, listed = file.read_bytes(), sorted(os.listdir(file.parent))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(gops.OpError, match="cannot write .*: No space left on device"):
        gops.darknet.save_weights(net, file, seen=3)
    assert file.read_bytes() == before and sorted(os.listdir(file.parent)) == listed
