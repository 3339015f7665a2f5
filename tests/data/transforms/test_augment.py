"""Augmentation against oracles: rectangles that are painted, moved and found again; colours by colorsys."""
import colorsys

import gluonops as gops
import numpy as np
import pytest
from gluonops.backends import native
from gluonops.data.transforms.augment import Augment, distort, flip, place, place_boxes
from in_turn import in_turn

STILL = {"jitter": 0, "scale": (1, 1), "flip": 0, "hue": 0, "saturation": 1, "exposure": 1}
PLAIN = {"hue": 0, "saturation": 1, "exposure": 1}


def painted(width, height, box):
    """Black, with a white rectangle."""
    image = np.zeros((height, width, 3), "uint8")
    left, top, right, bottom = box
    image[top:bottom, left:right] = 255
    return image, np.float32([[*box, 7, 0]])


def found(image):
    """The edges of the white on black, to a fraction of a pixel: where the rectangle's opacity passes a half."""
    inside = image[0] == image.max()
    rows, columns = image[0][:, inside.any(0)].max(1), image[0][inside.any(1)].max(0)

    def edges(line):
        over = np.flatnonzero(line > 0.5)
        return over[0], over[-1] + 1

    (left, right), (top, bottom) = edges(columns), edges(rows)
    return left, top, right, bottom


class TestPlace:
    @in_turn("new", [(80, 60), (33, 95), (40, 30), (1, 1), (160, 7)])
    @in_turn("offset", [(0, 0), (5, -9), (-30, 12), (200, 0)])
    def test_every_pixel(self, rng, new, offset):
        """Each is bilinear between pixel centres."""
        image, size = rng.randint(0, 256, (30, 40, 3)).astype("uint8"), (64, 48)
        got = place(image, new, offset, size)
        assert got.shape == (3, 48, 64) and got.dtype == np.float32
        for y in range(0, 48, 5):
            for x in range(0, 64, 7):
                column, row = x - offset[0], y - offset[1]
                expected = np.full(3, 0.5)
                if 0 <= column < new[0] and 0 <= row < new[1]:
                    u = min(max((column + 0.5) * 40 / new[0] - 0.5, 0), 39)
                    v = min(max((row + 0.5) * 30 / new[1] - 0.5, 0), 29)
                    i, j = int(u), int(v)
                    k, m = min(i + 1, 39), min(j + 1, 29)
                    near = image.astype(float) / 255
                    expected = ((near[j, i] * (1 - (u - i)) + near[j, k] * (u - i)) * (1 - (v - j))
                                + (near[m, i] * (1 - (u - i)) + near[m, k] * (u - i)) * (v - j))
                np.testing.assert_allclose(got[:, y, x], expected, atol=1e-5)

    def test_at_its_own_size_it_is_the_image(self, rng):
        image = rng.randint(0, 256, (30, 40, 3)).astype("uint8")
        np.testing.assert_allclose(place(image, (40, 30), (0, 0), (40, 30)), image.transpose(2, 0, 1) / 255, atol=1e-6)

    def test_boxes_go_where_the_rectangle_goes(self):
        image, boxes = painted(60, 40, (12, 8, 30, 28))
        out = place(image, (120, 60), (7, -3), (128, 64))
        moved = place_boxes(boxes, (60, 40), (120, 60), (7, -3))
        np.testing.assert_allclose(moved, [[31, 9, 67, 39, 7, 0]])
        np.testing.assert_allclose(found(out), moved[0, :4], atol=1)


class TestAugment:
    def test_boxes_go_where_the_rectangle_goes(self):
        """They do in 200 draws of everything that moves, at canvases of several sizes."""
        augment, moves = Augment(visible=0, **PLAIN), set()
        for seed in range(200):
            image, boxes = painted(90 + seed % 40, 70, (30, 20, 62, 45))
            size = ((64, 64), (96, 64), (64, 128))[seed % 3]
            out, moved = augment(image, boxes, size, np.random.RandomState(seed))
            assert out.shape == (3, size[1], size[0]) and moved.shape == (1, 6)
            np.testing.assert_allclose(found(np.where(out == 0.5, 0, out)), moved[0, :4], atol=1.01)
            assert (moved[0, 4:] == (7, 0)).all() and moved[:, :4].min() >= 0 and (moved[0, 2:4] <= size).all()
            moves.add(tuple(moved[0, :4].round(1)))
        assert len(moves) == 200

    def test_ranges(self):
        """Sizes and places are spread over all that is allowed; what is larger than the canvas is cropped."""
        augment, seen = Augment(jitter=0.2, scale=(0.5, 2)), []
        for seed in range(500):
            new, offset = augment._placement((80, 80), (100, 100), np.random.RandomState(seed))
            seen.append((max(new) / 100, new[0] / new[1]))
            for side, start in zip(new, offset):
                assert min(0, 100 - side) - 1 <= start <= max(0, 100 - side) + 1
        scales, aspects = np.transpose(seen)
        assert 0.5 <= scales.min() < 0.51 and 1.99 < scales.max() <= 2
        assert 0.8 / 1.2 - 0.02 <= aspects.min() < 0.72 and 1.4 < aspects.max() <= 1.2 / 0.8 + 0.02

    def test_nothing_to_change(self, rng):
        image = rng.randint(0, 256, (48, 64, 3)).astype("uint8")
        boxes = np.float32([[3, 4, 30, 40, 1, 0]])
        out, moved = Augment(**STILL)(image, boxes, (64, 48), rng)
        np.testing.assert_allclose(out, image.transpose(2, 0, 1) / 255, atol=1e-6)
        np.testing.assert_array_equal(moved, boxes)

    def test_the_seed_decides(self, rng):
        image, boxes = painted(60, 40, (12, 8, 30, 28))
        first, again, other = (Augment()(image, boxes, (64, 64), np.random.RandomState(seed)) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert np.abs(first[0] - other[0]).max() > 0.1

    def test_flips_half(self):
        image, boxes = painted(64, 64, (0, 20, 20, 40))
        lefts = [Augment(**{**STILL, "flip": 0.5})(image, boxes, (64, 64), np.random.RandomState(seed))[1][0, 0]
                 for seed in range(400)]
        assert set(lefts) == {0, 44} and 150 < lefts.count(44) < 250

    @pytest.mark.parametrize("left, kept", [(-11, True), (-13, False), (-30, False), (100, False)])
    def test_what_is_mostly_out_is_dropped(self, left, kept):
        """At least two fifths have to be left, 8 of 20 pixels."""
        boxes = np.float32([[left, 10, left + 20, 30, 1, 0]])
        out = Augment()._clipped(boxes, (100, 100))
        np.testing.assert_array_equal(out, [[0, 10, left + 20, 30, 1, 0]] if kept else np.zeros((0, 6)))

    def test_slivers_are_dropped(self):
        boxes = np.float32([[10, 10, 10.9, 30, 1, 0], [10, 10, 30, 10.9, 1, 0], [10, 10, 11.1, 30, 1, 0]])
        np.testing.assert_array_equal(Augment(visible=0)._clipped(boxes, (100, 100)), boxes[2:])

    def test_no_boxes(self, rng):
        out, moved = Augment()(painted(60, 40, (12, 8, 30, 28))[0], np.zeros((0, 6), "float32"), (64, 64), rng)
        assert moved.shape == (0, 6) and out.min() >= 0 and out.max() <= 1

    @pytest.mark.parametrize("options, text", [
        ({"jitter": 1}, "jitter is 1; expected"), ({"flip": 1.5}, "flip is 1.5; expected"),
        ({"hue": -0.1}, "hue is -0.1; expected"), ({"saturation": 0.5}, "saturation is 0.5; expected a finite"),
        ({"exposure": "x"}, "exposure is 'x'; expected"), ({"visible": 2}, "visible is 2; expected"),
        ({"scale": (2, 1)}, r"scale is \(2, 1\); expected two numbers above 0, the smaller first"),
        ({"scale": 1}, "scale is 1; expected two numbers"), ({"scale": (0, 1)}, r"scale is \(0, 1\); expected")])
    def test_refuses(self, options, text):
        with pytest.raises(gops.OpError, match=f"gluonops.data.Augment: {text}"):
            Augment(**options)


def test_flip_twice_is_nothing(rng):
    image, boxes = rng.rand(3, 20, 31).astype("float32"), rng.randint(0, 15, (4, 6)).astype("float32")
    boxes[:, 2:4] += boxes[:, :2] + 1
    once = flip(image, boxes)
    assert not np.array_equal(once[0], image) and (once[1][:, 2] > once[1][:, 0]).all()
    np.testing.assert_array_equal(flip(*once)[0], image)
    np.testing.assert_array_equal(flip(*once)[1], boxes)


class TestDistort:
    @in_turn("change", [(0, 1, 1), (0, 1.4, 1), (0, 0.7, 1.3), (0.1, 1, 1), (-0.37, 1, 1),
                        (0.1, 1.5, 0.7), (-0.1, 0.7, 1.5), (1, 1, 1)])
    def test_is_hsv(self, rng, change):
        """colorsys goes there and back, one pixel at a time, greys and primaries included."""
        hue, saturation, exposure = change
        pixels = np.concatenate([rng.rand(60, 3), np.eye(3), 1 - np.eye(3), np.full((1, 3), 0.4), np.zeros((1, 3)),
                                 [[0.5, 0.5, 0.2], [0.2, 0.5, 0.5], [0.5, 0.2, 0.5]]]).astype("float32")
        expected = []
        for pixel in pixels.astype(float):
            h, s, v = colorsys.rgb_to_hsv(*pixel)
            expected.append(np.clip(colorsys.hsv_to_rgb((h + hue) % 1, s * saturation, v * exposure), 0, 1))
        got = distort(pixels.T.reshape(3, 1, -1), hue, saturation, exposure)
        np.testing.assert_allclose(got[:, 0].T, expected, atol=1e-5)

    def test_grey_images(self, rng):
        image = rng.rand(1, 5, 5).astype("float32")
        np.testing.assert_allclose(distort(image, 0.1, 1.5, 1.2), np.clip(image * 1.2, 0, 1), rtol=1e-6)

    def test_its_input_stays(self, rng):
        image = rng.rand(3, 5, 5).astype("float32")
        before = image.copy()
        for hue in (0, 0.1):
            distort(image, hue, 1.5, 1.5)
        np.testing.assert_array_equal(image, before)


@pytest.mark.skipif(not native.loaded(), reason="needs the native library")
@pytest.mark.parametrize("channels", [1, 3])
def test_the_native_library_samples_the_bits_of_numpy(channels, monkeypatch, rng):
    """Images are enlarged, shrunk, cropped on either side, beside the canvas, or a view."""
    image = rng.randint(0, 256, (40, 62, channels)).astype("uint8")[:, ::2]
    cases = [((90, 70), (3, -5)), ((20, 31), (7, 9)), ((31, 40), (0, 0)), ((1, 1), (63, 47)), ((20, 20), (-30, 0))]
    for new, offset in cases:
        monkeypatch.undo()
        found = place(image, new, offset, (64, 48))
        monkeypatch.setattr(native, "loaded", lambda: False)
        np.testing.assert_array_equal(found, place(image, new, offset, (64, 48)))
