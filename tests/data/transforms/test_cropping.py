"""AlexeyAB's crops and mosaics, and both programs' pictures of classifiers."""
import gluonops as gops
import numpy as np
import pytest
from gluonops.data import Augmented, Crop, Turn
from gluonops.data.transforms.augment import turned

PLAIN = {"hue": 0, "saturation": 1, "exposure": 1}
RED, GREEN = (255, 0, 0), (0, 255, 0)


def scene(width=40, height=30, box=(10, 6, 26, 20)):
    """A red box on black."""
    image = np.zeros((height, width, 3), "uint8")
    left, top, right, bottom = box
    image[top:bottom, left:right] = RED
    return image, np.float32([[*box, 1, 0]])


def assert_boxes_are_where_the_red_is(image, boxes, slack=1.01):
    red = image[0] > 0.5
    rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))
    if not len(boxes):   # a box of less than a pixel is left out
        assert min(len(rows), len(columns)) <= 1
    else:
        edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        np.testing.assert_allclose([boxes[:, 0].min(), boxes[:, 1].min(), boxes[:, 2].max(), boxes[:, 3].max()], edges,
                                   atol=slack)


class TestCrop:
    def test_nothing_random_is_a_stretch(self):
        image, boxes = scene()
        out, moved = Crop(jitter=0, flip=0, **PLAIN)(image, boxes, (80, 90), np.random.RandomState(0))
        assert out.shape == (3, 90, 80) and out.dtype == np.float32
        np.testing.assert_allclose(moved, [[20, 18, 52, 60, 1, 0]], atol=1e-4)
        assert_boxes_are_where_the_red_is(out, moved)

    @pytest.mark.parametrize("options", [{"jitter": 0.3}, {"jitter": 0, "resize": 1.5}, {"jitter": 0, "resize": 0.6},
                                         {"jitter": 0.2, "letter_box": True}], ids=str)
    def test_boxes_move_with_the_image(self, options):
        augment, (image, boxes), sizes = Crop(flip=0.5, **PLAIN, **options), scene(), []
        for seed in range(30):
            out, moved = augment(image, boxes, (64, 96), np.random.RandomState(seed))
            assert_boxes_are_where_the_red_is(out, moved)
            sizes += [row[2:4] - row[:2] for row in moved if (row[:2] > 0).all() and (row[2:4] < (64, 96)).all()]
        widths = np.array(sizes)[:, 0] / (16 * 64 / 40)
        assert widths.min() < 0.95
        assert (widths.max() > 1.05) == (options.get("resize", 1) >= 1)

    def test_a_letterbox_keeps_the_aspect(self):
        image, boxes = scene()
        _, moved = Crop(jitter=0, letter_box=True, flip=0, **PLAIN)(image, boxes, (80, 80), np.random.RandomState(0))
        np.testing.assert_allclose(moved, [[20, 22, 52, 50, 1, 0]], atol=1.01)

    def test_beyond_the_image_is_its_mean(self):
        image = np.full((20, 20, 3), (50, 100, 150), "uint8")
        out, _ = Crop(jitter=0.4, flip=0, **PLAIN)(image, np.zeros((0, 6)), (32, 32), np.random.RandomState(1))
        np.testing.assert_allclose(out, np.broadcast_to(np.float32([[[50]], [[100]], [[150]]]) / 255, out.shape),
                                   atol=1e-6)

    def test_a_pixel_is_enough(self):
        image, boxes = scene(box=(0, 0, 3, 30))
        augment = Crop(jitter=0.3, flip=0, **PLAIN)
        widths = [moved[0, 2] - moved[0, 0] for moved in (
            augment(image, boxes, (40, 30), np.random.RandomState(seed))[1] for seed in range(200)) if len(moved)]
        assert 1 < min(widths) < 1.5

    def test_errors(self):
        with pytest.raises(gops.OpError, match="resize is 0; expected"):
            Crop(resize=0)


class TestMosaic:
    @pytest.mark.parametrize("bound, letter_box", [(False, False), (True, False), (True, True)])
    @pytest.mark.parametrize("corner", range(4))
    def test_boxes_move_with_each_image(self, corner, bound, letter_box):
        """One of the four images has the red box, the others are green."""
        augment = Crop(jitter=0.3, resize=1.4, letter_box=letter_box, mosaic=True, mosaic_bound=bound, **PLAIN)
        green = np.full((24, 36, 3), GREEN, "uint8"), np.zeros((0, 6), "float32")
        found = 0
        for seed in range(25):
            items = [green] * 4
            items[corner] = scene()
            out, boxes = augment.mosaic_of(items, (64, 48), np.random.RandomState(seed))
            assert out.shape == (3, 48, 64)
            if not (out[0] > 0.5).any():   # cut off
                continue
            found += 1
            assert (boxes[:, :2] >= 0).all() and (boxes[:, 2:4] <= (64, 48)).all()
            assert_boxes_are_where_the_red_is(out, boxes, slack=1.6)
        assert found > 8

    def test_quarters(self):
        """Without jitter the images end in the corners: left parts show the right side, upper ones the lower side."""
        def ramp(number):
            image = np.zeros((64, 64, 3), "uint8")
            image[..., 0], image[..., 1], image[..., 2] = np.arange(64), np.arange(64)[:, None], 50 * number
            return image, np.zeros((0, 6), "float32")

        augment = Crop(jitter=0, mosaic=True, flip=0, **PLAIN)
        out, _ = augment.mosaic_of([ramp(number) for number in range(4)], (64, 64), np.random.RandomState(3))
        x, y, number = np.rint(out * 255)
        cut_x, cut_y = (number[0] == 0).sum(), (number[:, 0] == 0).sum()
        assert 12 <= cut_x <= 51 and 12 <= cut_y <= 51
        column, row = np.arange(64), np.arange(64)[:, None]
        np.testing.assert_array_equal(number, 50 * ((column >= cut_x) + 2 * (row >= cut_y)))
        across = np.where(column < cut_x, 64 - cut_x, -cut_x) + column
        down = np.where(row < cut_y, 64 - cut_y, -cut_y) + row
        np.testing.assert_array_equal(x, np.broadcast_to(across, x.shape))
        np.testing.assert_array_equal(y, np.broadcast_to(down, y.shape))

    def test_every_second_picture(self):
        """Augmented makes them; each is the same for a key, whatever was read before."""
        dataset = [(np.full((8, 8, 3), 40 * number, "uint8"), np.zeros((0, 6), "float32")) for number in range(6)]
        augmented = Augmented(dataset * 20, 32, Crop(mosaic=True, **PLAIN))
        colours = [len(np.unique(augmented[index][0].round(2))) for index in range(120)]
        assert 0.3 < np.mean(np.array(colours) > 1) < 0.6
        np.testing.assert_array_equal(augmented[3][0], augmented[3][0])


class TestTurn:
    def test_turned(self):
        """It is Darknet's rotate_crop_image, pixel by pixel."""
        rng = np.random.RandomState(0)
        image = rng.randint(0, 256, (7, 9, 1)).astype("uint8")
        size, radians, scale, aspect, offset = (6, 5), 0.3, 1.7, 1.2, (0.6, -0.4)
        found = turned(image, size, radians, scale, aspect, offset)

        def pixel(x, y):
            return image[y, x, 0] / 255 if 0 <= x < 9 and 0 <= y < 7 else 0

        for y in range(5):
            for x in range(6):
                across = (x - 3) / scale * aspect + offset[0] / scale * aspect
                down = (y - 2.5) / scale + offset[1] / scale
                rx = np.cos(radians) * across - np.sin(radians) * down + 4.5
                ry = np.sin(radians) * across + np.cos(radians) * down + 3.5
                left, top = int(np.floor(rx)), int(np.floor(ry))
                dx, dy = rx - left, ry - top
                expected = ((1 - dy) * (1 - dx) * pixel(left, top) + dy * (1 - dx) * pixel(left, top + 1)
                            + (1 - dy) * dx * pixel(left + 1, top) + dy * dx * pixel(left + 1, top + 1))
                assert found[0, y, x] == pytest.approx(expected, abs=1e-6)

    def test_items(self):
        augmented = Augmented([(np.full((20, 30, 3), 100, "uint8"), 7)], 16, Turn(angle=7, aspect=1.3, crops=(1.5, 2)))
        image, label = augmented[0]
        assert image.shape == (3, 16, 16) and image.dtype == np.float32 and label == 7 and image.min() > 0.2
