"""Darknet's resize and letterbox: as recorded, as described, and boxes there and back."""
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

RECORDED = np.load(pathlib.Path(__file__).parents[2] / "golden" / "darknet" / "letterbox.npz")
CASES = sorted(set(RECORDED) - {"image"})
F = np.float32


def case(name):
    """(function, width, height, what Darknet computed)."""
    kind, size = name.split("_")
    return (getattr(gops.data, kind), *map(int, size.split("x")), RECORDED[name])


@pytest.mark.parametrize("name", CASES)
def test_every_bit_is_darknets(name):
    function, width, height, expected = case(name)
    found = function(RECORDED["image"], width, height)
    assert found.dtype == np.float32 and found.shape == (3, height, width)
    np.testing.assert_array_equal(found[:, ::13, ::7] if width == 416 else found, expected)


def test_darknets_dark_row_is_kept():
    """Where rounding puts the last row a little above the image's last one, Darknet leaves it almost black."""
    found = gops.data.resize(RECORDED["image"], 20, 140)
    assert found[:, -1].max() < 1e-5 and found[:, -2].mean() > 0.3


def resized(image, width, height):
    """The description in loops: float32, rows first, corners on corners."""
    old_height, old_width, channels = image.shape
    at = [F(F(old - 1) / F(new - 1)) if new > 1 else F(0) for old, new in ((old_width, width), (old_height, height))]
    part = np.empty((old_height, width, channels), "float32")
    for y, x in np.ndindex(old_height, width):
        if x == width - 1 or old_width == 1:
            part[y, x] = image[y, -1]
            continue
        where = F(F(x) * at[0])
        left, weight = int(where), F(where - F(int(where)))
        part[y, x] = F(1 - weight) * image[y, left] + weight * image[y, left + 1]
    out = np.empty((channels, height, width), "float32")
    for y, x in np.ndindex(height, width):
        where = F(F(y) * at[1])
        above, weight = int(where), F(where - F(int(where)))
        value = F(1 - weight) * part[above, x]
        if y != height - 1 and old_height > 1:
            value = value + weight * part[above + 1, x]
        out[:, y, x] = value
    return out


@pytest.mark.parametrize("old, new", [((7, 5), (5, 7)), ((3, 11), (24, 4)), ((1, 9), (6, 6)), ((9, 1), (6, 6)),
                                      ((4, 4), (1, 8)), ((6, 8), (13, 2)), ((5, 5), (5, 5)), ((2, 3), (41, 42))])
def test_resize_by_the_description(old, new, rng):
    image = rng.rand(old[1], old[0], 2).astype("float32")
    np.testing.assert_array_equal(gops.data.resize(image, *new), resized(image, *new))


def test_a_height_of_one_is_the_first_row(rng):
    """Darknet divides by zero there."""
    image = rng.rand(5, 4, 3).astype("float32")
    np.testing.assert_array_equal(gops.data.resize(image, 4, 1)[:, 0], image[0].T)


def test_letterbox_lies_in_grey(rng):
    image = rng.randint(0, 256, (20, 50, 3)).astype("uint8")
    found = gops.data.letterbox(image, 64, 96)
    inner = gops.data.resize(image, 64, 25)
    np.testing.assert_array_equal(found[:, 35:60], inner)
    assert (found[:, :35] == 0.5).all() and (found[:, 60:] == 0.5).all()


def test_kinds_and_transforms(rng):
    """NumPy in, NumPy out; NDArray in, NDArray out; integers are divided by 255; they work in a data set."""
    image = rng.randint(0, 256, (20, 50, 3)).astype("uint8")
    pairs = ((gops.data.Letterbox(32, 64), gops.data.letterbox), (gops.data.Resize(32, 64), gops.data.resize))
    for transform, function in pairs:
        expected = function(image, 32, 64)
        found = transform(mx.nd.array(image, dtype="uint8"))
        assert isinstance(found, mx.nd.NDArray)
        np.testing.assert_array_equal(found.asnumpy(), expected)
        np.testing.assert_array_equal(function(image.astype("float64") / 255, 32, 64), expected)
        loader = gluon.data.DataLoader(gluon.data.ArrayDataset([image] * 2, [0, 1]).transform_first(transform), 2)
        (batch, _), = loader
        np.testing.assert_array_equal(batch.asnumpy(), np.stack([expected] * 2))


@pytest.mark.parametrize("size", [(53, 37), (37, 53), (64, 64), (500, 333)])
@pytest.mark.parametrize("field", [(416, 416), (96, 32), (320, 480)])
def test_boxes_there_and_back(size, field, rng):
    boxes = (rng.rand(2, 6, 6) * [*size, *size, 9, 9]).astype("float32")
    boxes[0, 3:, :4] = -1
    there = gops.data.letterbox_boxes(boxes, size, field)
    (netw, neth), (w, h) = field, size
    nw, nh = (netw, h * netw // w) if netw / w < neth / h else (w * neth // h, neth)
    back = gops.data.unletterbox_boxes(mx.nd.array(there), size, field)
    np.testing.assert_allclose(back, boxes, rtol=1e-4, atol=1e-3)
    # spec/region.md: x = (x - (netw - nw) / 2 / netw) / (nw / netw), w *= netw / nw, of centres in shares.
    left, top, right, bottom = there[1, :, :4].T.astype("float64")
    x = ((left + right) / 2 / netw - (netw - nw) / 2 / netw) / (nw / netw) * w
    y = ((top + bottom) / 2 / neth - (neth - nh) / 2 / neth) / (nh / neth) * h
    half = (right - left) / netw * netw / nw * w / 2, (bottom - top) / neth * neth / nh * h / 2
    expected = np.stack([x - half[0], y - half[1], x + half[0], y + half[1]], 1)
    np.testing.assert_allclose(back[1, :, :4], expected, rtol=1e-4, atol=1e-3)
    assert (there[0, 3:, :4] == -1).all() and (back[0, 3:, :4] == -1).all()
    np.testing.assert_array_equal(back[..., 4:], boxes[..., 4:])


@pytest.mark.parametrize("call, text", [
    (lambda: gops.data.letterbox(np.zeros((8, 8), "uint8"), 32, 32), "data.letterbox: image has shape (8, 8)"),
    (lambda: gops.data.resize(np.zeros((0, 8, 3), "uint8"), 32, 32), "data.resize: image has shape (0, 8, 3)"),
    (lambda: gops.data.resize(np.zeros((8, 8, 3), "int32"), 32, 32), "image is int32; expected uint8, 0 to 255"),
    (lambda: gops.data.resize(np.zeros((8, 8, 3), "uint8"), 0, 32), "width is 0; expected an integer of at least 1"),
    (lambda: gops.data.Letterbox(32, 1.5), "height is 1.5; expected an integer"),
    (lambda: gops.data.letterbox(np.zeros((500, 3, 3), "uint8"), 32, 32),
     "image of 3 x 500 would be reduced to 0 x 32"),
    (lambda: gops.data.unletterbox_boxes(np.zeros((2, 3)), (8, 8), (32, 32)), "boxes has shape (2, 3); expected (..."),
    (lambda: gops.data.letterbox_boxes(np.zeros((2, 4)), (0, 8), (32, 32)), "width is 0")])
def test_refusals(call, text):
    with pytest.raises(gops.OpError) as caught:
        call()
    assert text in str(caught.value)
