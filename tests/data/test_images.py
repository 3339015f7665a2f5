"""Image files: a cut one is refused by name, and the size comes from the head of the file."""
import io
import os
import struct
import warnings
import zlib

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


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_the_orientation_of_exif_is_ignored(mode, orientation):
    """In CMYK as well, which MXNet decodes with another decoder. The labels are of the image as it is stored."""
    image = np.zeros((40, 60, 3), "uint8")
    image[:10, :20] = 255
    out, stored = io.BytesIO(), Image.fromarray(image).convert(mode)
    exif = stored.getexif()
    exif[0x112] = orientation
    stored.save(out, "jpeg", exif=exif)
    decoded = decode_image(out.getvalue(), "image", "test")
    assert decoded.shape == image.shape
    np.testing.assert_allclose(decoded[[2, -3], [2, -3]], image[[2, -3], [2, -3]], atol=3)


def test_too_large(tmp_path, rng, monkeypatch):
    """Refused by the size in the head, before anything is decoded. The limit can be set."""
    def header(width, height):
        content = bytearray(encoded(rng, "png", {}))
        content[16:24] = struct.pack(">II", width, height)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
        return bytes(content)

    for size, text in (((25000, 25000), "image is too large for Pillow"), ((20, 1 << 24), "image is too large for Pi"),
                       ((0, 40), "image has a size of 0 x 40|image has [0-9]+ bytes that do not decode")):
        with warnings.catch_warnings(), pytest.raises(gops.OpError, match=text):
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            decode_image(header(*size), "image", "test")
    monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "1")
    assert decode_image(encoded(rng, "png", {}), "image", "test").shape == (40, 60, 3)
    with pytest.raises(gops.OpError, match="image takes 2 MiB of memory or more; the limit is 1 MiB. Replace"):
        decode_image(header(1000, 600), "image", "test")
    monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "much")
    with pytest.raises(gops.OpError, match="GLUONOPS_MAX_DECODED_MIB is 'much'; expected a positive integer"):
        decode_image(encoded(rng, "png", {}), "image", "test")


def test_a_fifo_is_refused(tmp_path):
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "image.png")
    with pytest.raises(gops.OpError, match="image.png cannot be read: it is not a regular file"):
        read_image(str(tmp_path / "image.png"), "test")
