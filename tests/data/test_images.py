"""Image files: a cut one is refused by name, and the size comes from the head of the file."""
import io

import gluonops as gops
import numpy as np
import pytest
from gluonops.data.images import decode_image, image_size, read_image
from PIL import Image

KINDS = [("jpeg", {}), ("jpeg", {"progressive": True}), ("jpeg", {"thumbnail": True}), ("png", {}), ("bmp", {})]


def encoded(rng, kind, options):
    """An image's file; with ``thumbnail`` a small one, whole, is in a segment before it, as cameras put it there."""
    image, out = Image.fromarray(rng.randint(0, 255, (40, 60, 3)).astype("uint8")), io.BytesIO()
    options = dict(options)
    thumbnail = options.pop("thumbnail", False)
    image.save(out, kind, **options)
    content = out.getvalue()
    if thumbnail:
        small = io.BytesIO()
        image.resize((6, 4)).save(small, "jpeg")
        segment = b"Exif\0\0" + small.getvalue()
        content = content[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + content[2:]
    return content


@pytest.mark.parametrize("kind, options", KINDS)
def test_a_cut_one_is_refused(tmp_path, rng, kind, options):
    """Wherever it is cut: OpenCV makes an image with a grey end of the first kind."""
    content = encoded(rng, kind, options)
    path = tmp_path / "image"
    for length in (*range(1, len(content) - 1, len(content) // 20), len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(gops.OpError, match=f"{path} has {length} bytes .*; expected an image"):
            read_image(path, "test")


@pytest.mark.parametrize("kind, options", KINDS)
def test_a_whole_one_may_have_more_behind_it(rng, kind, options):
    """As telephones append to photographs."""
    content = encoded(rng, kind, options)
    whole = decode_image(content, "image", "test")
    assert whole.shape == (40, 60, 3)
    np.testing.assert_array_equal(decode_image(content + bytes(5000), "image", "test"), whole)


def test_the_size_is_in_the_head(tmp_path, rng):
    path = tmp_path / "image.jpg"
    path.write_bytes(encoded(rng, "jpeg", {})[:700])
    assert image_size(path, "test") == (60, 40)
