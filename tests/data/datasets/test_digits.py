"""gluonops.data: the embedded digits, MNIST's files, and what is said about bad ones."""
import gzip
import struct
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.data import digits
from gluonops.data.datasets.digits import read_idx
from in_turn import in_turn
from mxnet import gluon

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array, kind=8):
    """An array in idx format."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(tmp_path, rng):
    """A folder with MNIST's four files, and the arrays in them."""
    arrays = {FILES[0]: rng.randint(0, 256, (20, 28, 28)), FILES[1]: np.arange(20) % 10,
              FILES[2]: rng.randint(0, 256, (10, 28, 28)), FILES[3]: np.arange(10)[::-1]}
    for name, array in arrays.items():
        (tmp_path / name).write_bytes(idx(array))
    return tmp_path, arrays


class TestEmbedded:
    def test_layout(self):
        train, test = digits()
        for split in (train, test):
            assert split.images.dtype == np.float32 and split.labels.dtype == np.int32
            assert split.images.shape == (len(split.labels), 1, 28, 28)
            assert split.images.min() == 0 and split.images.max() == 1
        assert len(train.labels) + len(test.labels) == 1797

    def test_is_scikit_learns(self, monkeypatch):
        """It has every image and label of scikit-learn's once, at its own size."""
        from sklearn.datasets import load_digits
        found = load_digits()
        expected = [((image / 16).astype("float32").tobytes(), label) for image, label in
                    zip(found.images, found.target)]
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "sklearn.datasets")
            train, test = digits(size=8)
            assert "sklearn.datasets" not in sys.modules, "the file is read without the import"
        got = [(image.tobytes(), label) for split in (train, test) for image, label in zip(*split)]
        assert sorted(got) == sorted(expected)
        monkeypatch.setattr("gluonops.data.datasets.digits._scikit_learns_file", lambda: None)
        for split, other in zip((train, test), digits(size=8)):   # a scikit-learn without the file
            np.testing.assert_array_equal(other.images, split.images)
            np.testing.assert_array_equal(other.labels, split.labels)

    def test_resizes_bilinearly(self):
        small, large = digits(size=8)[1].images, digits(size=15)[1].images
        np.testing.assert_allclose(large[..., ::2, ::2], small, atol=1e-6)
        np.testing.assert_allclose(large[..., 1::2, ::2], (small[..., 1:, :] + small[..., :-1, :]) / 2, atol=1e-6)

    @pytest.mark.parametrize("held_out", [0.2, 0.5, 1e-9, 0.999999])
    def test_stratified(self, held_out):
        train, test = (np.bincount(split.labels, minlength=10) for split in digits(size=8, held_out=held_out))
        total = train + test
        assert train.min() > 0 and test.min() > 0
        assert np.abs(test - np.clip(total * held_out, 1, total - 1)).max() <= 0.5

    def test_seed_decides(self):
        first, again, other = (digits(size=8, seed=seed)[1].images for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert np.abs(first[:100] - other[:100]).max() > 0.5

    def test_leaves_the_global_generators_alone(self):
        np.random.seed(5)
        expected = np.random.rand()
        np.random.seed(5)
        digits(size=8)
        assert np.random.rand() == expected

    def test_shuffled(self):
        labels = digits(size=8)[0].labels
        assert len(set(labels[:30])) >= 8

    def test_classes(self):
        (every, held), (some, some_held) = digits(size=8), digits(size=8, classes=(9, 5))
        for whole, part in ((every, some), (held, some_held)):
            keep = np.isin(whole.labels, (5, 9))
            np.testing.assert_array_equal(part.images, whole.images[keep])
            np.testing.assert_array_equal(part.labels, (whole.labels[keep] == 5).astype(int))

    def test_feeds_gluon_and_module(self):
        train = digits(size=8)[0]
        images, labels = next(iter(gluon.data.DataLoader(gluon.data.ArrayDataset(*train), 4)))
        np.testing.assert_array_equal(images.asnumpy(), train.images[:4])
        np.testing.assert_array_equal(labels.asnumpy(), train.labels[:4])
        batch = next(mx.io.NDArrayIter(*train, batch_size=4))
        np.testing.assert_array_equal(batch.data[0].asnumpy(), train.images[:4])

    def test_classes_take_any_sequence(self):
        assert len({digits(size=8, classes=kind((3, 4)))[0].labels.tobytes() for kind in (tuple, list, np.array)}) == 1

    @in_turn("kwargs, text", [
        ({"size": 0}, "size is 0; expected an integer of at least 1"),
        ({"held_out": 0}, "held_out is 0; expected a finite number above 0 and below 1"),
        ({"held_out": 1.0}, "held_out is 1.0; expected a finite number above 0 and below 1"),
        ({"seed": -1}, "seed is -1; expected an integer of at least 0"),
        ({"classes": ()}, r"classes is \(\); expected different digits from 0 to 9"),
        ({"classes": 5}, "classes is 5; expected different digits"),
        ({"classes": (1.0,)}, r"classes is \(1.0,\); expected different digits"),
        ({"classes": (1, 1)}, r"classes is \(1, 1\); expected different digits"),
        ({"classes": (1, 10)}, r"classes is \(1, 10\); expected different digits")])
    def test_refuses(self, kwargs, text):
        with pytest.raises(gops.OpError, match=f"gluonops.data.digits: {text}"):
            digits(**kwargs)

    def test_without_scikit_learn(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
        with pytest.raises(gops.OpError, match=r"Run: pip install 'gluonops\[examples\]'; or pass data"):
            digits()


class TestMNIST:
    @pytest.mark.parametrize("zipped", [(), FILES, FILES[:2]], ids=["plain", "gz", "mixed"])
    def test_reads(self, mnist, zipped):
        folder, arrays = mnist
        for name in zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
            (folder / name).unlink()
        for split, (images, labels) in zip(digits(folder), (FILES[:2], FILES[2:])):
            assert split.images.dtype == np.float32 and split.labels.dtype == np.int32
            np.testing.assert_array_equal(split.images, arrays[images][:, None].astype("float32") / 255)
            np.testing.assert_array_equal(split.labels, arrays[labels])

    def test_too_large(self, mnist, monkeypatch):
        """Unpacking stops at the limit: a few MB of gzip can be gigabytes."""
        folder = mnist[0]
        for name in FILES:
            (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes() + bytes(3 << 20)))
            (folder / name).unlink()
        monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "2")
        with pytest.raises(gops.OpError, match=r"\.gz takes 2 MiB of memory or more; expected at most 2 MiB"):
            digits(folder)

    def test_needs_no_scikit_learn(self, mnist, monkeypatch):
        monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
        assert len(digits(str(mnist[0]))[0].labels) == 20

    def test_size_and_classes(self, mnist):
        train, test = digits(mnist[0], size=22, classes=range(5, 10))
        assert train.images.shape == (10, 1, 22, 22) and test.images.shape == (5, 1, 22, 22)
        np.testing.assert_array_equal(train.labels, [0, 1, 2, 3, 4] * 2)
        np.testing.assert_array_equal(test.labels, [4, 3, 2, 1, 0])

    def test_missing_files(self, mnist):
        for name in FILES[1:3]:
            (mnist[0] / name).unlink()
        with pytest.raises(gops.OpError) as caught:
            digits(mnist[0])
        assert str(caught.value) == (
            f"gluonops.data.digits: the folder {mnist[0]} has no {FILES[1]}, no {FILES[2]} (nor with .gz). Put MNIST's "
            f"files there ({', '.join(FILES)}), or leave data_dir out.")

    def test_missing_folder(self, tmp_path):
        with pytest.raises(gops.OpError, match=f"the folder {tmp_path / 'none'} does not exist. Put MNIST's files"):
            digits(tmp_path / "none")

    @pytest.mark.parametrize("file, change, text", [
        (FILES[0], lambda b: b[:-7], "has 15689 bytes; expected 15696 for the shape (20, 28, 28) in its header"),
        (FILES[0], lambda b: b + b"x", "has 15697 bytes; expected 15696 for"),
        (FILES[0], lambda b: b[:9], "has 9 bytes that start with 00000803; expected at least 16 bytes that start with "
                                    "00000803 (unsigned bytes, 3 dimensions)"),
        (FILES[0], lambda b: b"", "has 0 bytes that start with nothing; expected at least 16 bytes"),
        (FILES[0], lambda b: b"<html>" + b, "that start with 3c68746d; expected"),
        (FILES[0], lambda b: b[:2] + b"\x0d" + b[3:], "that start with 00000d03; expected"),
        (FILES[3], lambda b: idx(np.zeros((10, 2, 2))), "has 56 bytes that start with 00000803; expected at least 8 "
                                                        "bytes that start with 00000801 (unsigned bytes, 1 dimension)"),
        (FILES[1], lambda b: b[:-1] + b"\x0a", "has the label 10; expected digits from 0 to 9"),
        (FILES[1], lambda b: idx(np.arange(9)), "has 20 images; expected 9, the number of labels in"),
        (FILES[0], lambda b: idx(np.zeros((20, 0, 28))), "has images of 0 x 28; expected some pixels"),
        (FILES[0], lambda b: b[:4] + bytes(4) + b"\xff" * 8, "has the shape (0, 4294967295, 4294967295) in its header; "
                                                             "expected a shape that an array can have"),
    ], ids=["short", "long", "header", "empty", "html", "type", "dimensions", "label", "count", "no pixels", "shape"])
    @pytest.mark.parametrize("zipped", [False, True])
    def test_malformed(self, mnist, file, change, text, zipped):
        folder, path = mnist[0], mnist[0] / file
        content = change(path.read_bytes())
        if zipped:
            path.unlink()
            path, content = folder / f"{file}.gz", gzip.compress(content)
        path.write_bytes(content)
        with pytest.raises(gops.OpError) as caught:
            digits(folder)
        assert text in str(caught.value) and str(path) in str(caught.value)

    def test_unreadable(self, tmp_path):
        with pytest.raises(gops.OpError, match="cannot be read: Is a directory. Pass another folder"):
            read_idx(str(tmp_path), 3)

    def test_no_images(self, mnist):
        (mnist[0] / FILES[0]).write_bytes(idx(np.zeros((0, 28, 28))))
        (mnist[0] / FILES[1]).write_bytes(idx(np.zeros(0)))
        with pytest.raises(gops.OpError, match=f"{FILES[1]} has no labels; expected digits from 0 to 9"):
            digits(mnist[0])

    @pytest.mark.parametrize("change", [lambda b: b[:-20], lambda b: b[:40] + b"xxxxxxxx" + b[48:],
                                        lambda b: b"no gzip"], ids=["truncated", "damaged", "other"])
    def test_bad_gzip(self, mnist, change):
        path = mnist[0] / f"{FILES[2]}.gz"
        path.write_bytes(change(gzip.compress((mnist[0] / FILES[2]).read_bytes())))
        (mnist[0] / FILES[2]).unlink()
        with pytest.raises(gops.OpError) as caught:
            digits(mnist[0])
        assert f"{path} has something that does not unpack (" in str(caught.value)
        assert "expected a whole gzip file" in str(caught.value)
