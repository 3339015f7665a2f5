"""From data sets to batches: what a loader gives, the schedule of sizes, and that nothing depends on the worker."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import NAMES, SCENES, make_voc
from gluonops.data import (
    Augment,
    Augmented,
    Batches,
    DigitScenes,
    Letterboxed,
    SampleKey,
    classification,
    detection,
    detection_batch,
    unletterbox_boxes,
    validation_batch,
)
from gluonops.io.optional import require
from mxnet import gluon


def epochs(seed=0, workers=0, count=2, first=0, sizes=(64, 96)):
    """The batches of some epochs of digit scenes, as NumPy arrays."""
    data = Augmented(DigitScenes(count=24), 64, Augment(flip=0), seed=seed)
    batches = [list(range(start, start + 2)) for start in range(0, 24, 2)]
    picks = Batches(batches[first:], sizes, seed, first=first, every=3)
    loader = gluon.data.DataLoader(data, batch_sampler=picks, batchify_fn=detection_batch, num_workers=workers,
                                   thread_pool=True)
    out = []
    for picks.epoch in range(count):
        out.append([(images.asnumpy(), truth.asnumpy()) for images, truth in loader])
    return out


def same(first, second):
    return all(a.shape == b.shape and (a == b).all() for x, y in zip(first, second) for a, b in zip(x, y))


class TestAugmented:
    def test_item(self):
        image, truth = Augmented(DigitScenes(), 96, Augment())[3]
        assert image.shape == (3, 96, 96) and image.dtype == np.float32 and 0 <= image.min() and image.max() <= 1
        assert truth.dtype == np.float32 and truth.shape[1] == 5 and truth[:, :4].min() > 0 and truth[:, :4].max() <= 1
        assert set(truth[:, 4]) <= set(range(10))

    def test_pick(self):
        data = Augmented(DigitScenes(), (96, 64), Augment())
        assert data[0][0].shape == (3, 64, 96) and data[SampleKey(0, 0, 160)][0].shape == (3, 160, 160)
        np.testing.assert_array_equal(data[5][0], data[SampleKey(5, 0, None)][0])
        assert np.abs(data[SampleKey(5, 0, None)][0] - data[SampleKey(5, 1, None)][0]).max() > 0.1

    def test_difficult_objects(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        data, still = detection("voc", tmp_path, classes=NAMES), Augment(0, (1, 1), 0, 0, 1, 1)
        for difficult in (False, True):
            truth = Augmented(data, (64, 48), still, difficult=difficult)[0][1]
            expected = [[12 / 64, 18 / 48, 16 / 64, 24 / 48, 1], [48 / 64, 30 / 48, 32 / 64, 36 / 48, 0]]
            np.testing.assert_allclose(truth, expected[:1 + difficult], atol=1e-6)

    def test_gluoncvs_own_data_sets(self, tmp_path, rng):
        VOCDetection = require("gluoncv.data", "tests").VOCDetection
        make_voc(tmp_path, rng)
        theirs = type("Own", (VOCDetection,), {"CLASSES": NAMES})(str(tmp_path), [("", "train")])
        ours = detection("voc", tmp_path, classes=NAMES)
        for wrap in (lambda data: Augmented(data, 64, Augment()), lambda data: Letterboxed(data, 64)):
            for mine, other in zip(wrap(ours)[0], wrap(theirs)[0]):
                np.testing.assert_array_equal(mine, other)

    def test_classification(self):
        data = classification("digits")
        image, label = Augmented(data, 32, Augment(flip=0))[4]
        assert image.shape == (1, 32, 32) and label == data[4][1]
        image, label = Letterboxed(data, 40)[4]
        assert image.shape == (1, 40, 40) and label == data[4][1]
        images, labels = next(iter(gluon.data.DataLoader(Letterboxed(data, 40), 4)))
        assert images.shape == (4, 1, 40, 40) and images.dtype == np.float32 and labels.shape == (4,)

    @pytest.mark.parametrize("size, text", [(0, "size is 0; expected"), ((1, 2, 3), r"size is \(1, 2, 3\); expected")])
    def test_refuses(self, size, text):
        for wrap in (lambda: Augmented(DigitScenes(), size, Augment()), lambda: Letterboxed(DigitScenes(), size)):
            with pytest.raises(gops.OpError, match=text):
                wrap()


class TestLetterboxed:
    def test_batch(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        data = Letterboxed(detection("voc", tmp_path, classes=NAMES), 128)
        images, truth, labels, sizes = next(iter(gluon.data.DataLoader(data, 3, batchify_fn=validation_batch)))
        assert images.shape == (3, 3, 128, 128) and truth.shape == (3, 8, 5) and labels.shape == (3, 8, 6)
        np.testing.assert_array_equal(sizes.asnumpy(), [size for size, _ in SCENES])
        for place, (size, boxes) in enumerate(SCENES):
            label, true = labels[place].asnumpy(), truth[place].asnumpy()
            np.testing.assert_allclose(label[:len(boxes), :5], np.reshape(boxes, (-1, 5)))
            assert (label[len(boxes):] == -1).all() and (true[len(boxes):] == 0).all()
            # The truth, taken back out of the letterbox, is the label.
            corners = np.concatenate([true[:, :2] - true[:, 2:4] / 2, true[:, :2] + true[:, 2:4] / 2], 1) * 128
            back = unletterbox_boxes(corners[:len(boxes)], size, (128, 128))
            np.testing.assert_allclose(back, label[:len(boxes), :4], atol=1e-3)
            np.testing.assert_array_equal(true[:len(boxes), 4], label[:len(boxes), 4])

    def test_the_truth_is_where_the_rectangle_is(self, tmp_path, rng):
        make_voc(tmp_path, rng)
        image, truth, _, _ = Letterboxed(detection("voc", tmp_path, classes=NAMES), 128)[1]
        x, y, width, height, _ = truth[0] * 128
        rows, columns = np.nonzero(image[0] > 0.9)
        np.testing.assert_allclose((columns.min(), columns.max() + 1), (x - width / 2, x + width / 2), atol=2)
        np.testing.assert_allclose((rows.min(), rows.max() + 1), (y - height / 2, y + height / 2), atol=2)


class TestBatches:
    def test_a_new_size_every_ten(self):
        picks = Batches([[0]] * 95, range(320, 609, 32), seed=3)
        sizes = [batch[0].size for batch in picks]
        blocks = [set(sizes[start:start + 10]) for start in range(0, 95, 10)]
        assert all(len(block) == 1 for block in blocks) and len(set.union(*blocks)) > 4
        assert set(sizes) <= set(range(320, 609, 32)) and len(picks) == 95

    def test_every_size_comes(self):
        picks = Batches([[0]], range(320, 609, 32))
        assert {picks.size(0, epoch) for epoch in range(200)} == set(range(320, 609, 32))

    def test_seed_epoch_and_batch_decide(self):
        def sizes(seed, epoch):
            return [batch[0].size for batch in Batches([[0]] * 200, range(320, 609, 32), seed, epoch)]
        assert sizes(1, 2) == sizes(1, 2) != sizes(2, 2) and sizes(1, 2) != sizes(1, 3)
        part = Batches([[0]] * 163, range(320, 609, 32), 1, 2, first=37)
        assert [batch[0].size for batch in part] == sizes(1, 2)[37:]

    def test_it_wraps_gluons(self):
        order = gluon.data.BatchSampler(gluon.data.RandomSampler(10), 3, "discard")
        batches = list(Batches(order, epoch=4))
        assert len(batches) == 3 and all(pick.epoch == 4 and pick.size is None for batch in batches for pick in batch)
        assert len({pick.index for batch in batches for pick in batch}) == 9

    @pytest.mark.parametrize("sizes", [[], [100], [0], [-32], "32", [32.5], [64, 65]])
    def test_refuses(self, sizes):
        with pytest.raises(gops.OpError, match="gluonops.data.Batches: sizes are .*; expected multiples of 32"):
            Batches([[0]], sizes)

    def test_pairs(self):
        drawn = {batch[0].size for batch in Batches([[0]] * 60, [(64, 96), (96, 64)], every=3)}
        assert drawn == {(64, 96), (96, 64)}
        with pytest.raises(gops.OpError, match="expected multiples of 32"):
            Batches([[0]], [(64, 65)])

    def test_one_size(self):
        assert [batch[0].size for batch in Batches([[0]] * 3, 416)] == [416] * 3


class TestLoading:
    def test_workers_change_nothing(self):
        alone = epochs()
        assert {images.shape for epoch in alone for images, _ in epoch} == {(2, 3, 64, 64), (2, 3, 96, 96)}
        for workers in (1, 3):
            for first, second in zip(alone, epochs(workers=workers)):
                assert same(first, second)

    def test_epochs_and_seeds_differ(self):
        first, second = epochs(sizes=64)
        assert not same(first, second) and not same(first, epochs(seed=1, sizes=64)[0])

    def test_resumed_in_the_middle(self):
        assert same(epochs(count=1)[0][5:], epochs(count=1, first=5)[0])

    def test_truth_is_padded_with_zeros(self):
        items = [(np.zeros((3, 8, 8), "float32"), np.ones((count, 5), "float32")) for count in (0, 9)]
        images, truth = detection_batch(items)
        assert isinstance(images, mx.nd.NDArray) and images.shape == (2, 3, 8, 8) and truth.shape == (2, 16, 5)
        np.testing.assert_array_equal(truth.asnumpy().sum((1, 2)), [0, 45])
        assert detection_batch(items[:1])[1].shape == (1, 8, 5)

    def test_the_global_generators_are_left_alone(self):
        np.random.seed(5)
        expected = np.random.rand()
        np.random.seed(5)
        epochs(count=1)
        assert np.random.rand() == expected
