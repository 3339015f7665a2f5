"""Image files: a damaged one is refused by name, and size, orientation and pixels are those of one decoder."""
import io
import os
import struct
import warnings
import zlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import encoded, photograph
from gluonops.data.images import decode_image, encoded_size, image_size, read_header, read_image
from PIL import Image, ImageFile, ImageOps

KINDS = [("jpeg", {}), ("jpeg", {"progressive": True}), ("jpeg", {"thumbnail": True}), ("png", {}), ("bmp", {})]
REFUSED = "image has [0-9]+ bytes that do not decode; expected an image in JPEG, PNG, BMP"


def noise(rng, kind, options):
    """An image's file; with ``thumbnail`` a small one, whole, is in a segment before it, as cameras put it there."""
    image = rng.randint(0, 255, (40, 60, 3)).astype("uint8")
    options = dict(options)
    thumbnail = options.pop("thumbnail", False)
    content = encoded(image, kind, **options)
    if thumbnail:
        segment = b"Exif\0\0" + encoded(image[:4, :6], "jpeg")
        content = content[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + content[2:]
    return content


def refused(content, text=REFUSED):
    with pytest.raises(gops.OpError, match=text):
        decode_image(content, "image", "test")


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("kind, options", KINDS)
def test_a_cut_one_is_refused(tmp_path, rng, monkeypatch, kind, options, lenient):
    """It may be cut anywhere, and also after gluoncv has asked Pillow to take cut ones."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    content = noise(rng, kind, options)
    path = tmp_path / "image"
    for length in (*range(1, len(content) - 1, len(content) // 20), len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(gops.OpError, match=f"{path} has {length} bytes .*; expected an image"):
            read_image(path, "test")


@pytest.mark.parametrize("kind, options", KINDS)
def test_a_whole_one_may_have_more_behind_it(rng, kind, options):
    """Telephones append such to photographs."""
    content = noise(rng, kind, options)
    whole = decode_image(content, "image", "test")
    assert whole.shape == (40, 60, 3)
    np.testing.assert_array_equal(decode_image(content + bytes(5000), "image", "test"), whole)


def test_the_size_is_in_the_head(tmp_path, rng):
    path = tmp_path / "image.jpg"
    path.write_bytes(noise(rng, "jpeg", {})[:700])
    assert image_size(path, "test") == (60, 40)


@pytest.mark.parametrize("mode, kind", [("RGB", "jpeg"), ("L", "jpeg"), ("CMYK", "jpeg"), ("RGB", "png"), ("P", "png")])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_upright(rng, mode, kind, orientation):
    """EXIF tells in every format, and in front of all else in a JPEG, where cameras write it."""
    image = rng.randint(0, 255, (40, 60, 3)).astype("uint8")
    content = photograph(Image.fromarray(image).convert(mode), orientation, kind)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    np.testing.assert_array_equal(decode_image(content, "image", "test"), expected)
    assert encoded_size(content, "image", "test") == expected.size == ((60, 40) if orientation < 5 else (40, 60))


NONE = ["12010300 01000000 00000000", "12010300 01000000 09000000", "12010200 02000000 36000000",
        "12010300 00000000 06000000", "12010300 ffffff7f 06000000", "12", ""]


@pytest.mark.parametrize("kind", ["jpeg", "png"])
@pytest.mark.parametrize("entry", NONE)
def test_no_orientation(rng, kind, entry):
    """It is 0, 9, a text, not there, out of the file, or the EXIF data is damaged: the image is as it is stored."""
    image = rng.randint(0, 255, (40, 60, 3)).astype("uint8")
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + bytes.fromhex(entry) + bytes(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # Pillow's, of the damage
        found = decode_image(encoded(image, kind, exif=exif), "image", "test")
    np.testing.assert_array_equal(found, decode_image(encoded(image, kind), "image", "test"))


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_damaged_header(rng, kind):
    """The image is refused, or it is what OpenCV makes of it: it never is another one's memory.

    MXNet's decoder, which gluonops had, returned its uninitialized output for every eighth change of a JPEG.
    """
    cv2 = pytest.importorskip("cv2")
    content = noise(rng, kind, {})
    places = range(content.index(b"\xff\xda") + 14 if kind == "jpeg" else 60)
    accepted = 0
    for place in places:
        damaged = content[:place] + bytes([13 if content[place] != 13 else 0]) + content[place + 1:]
        try:
            image = decode_image(damaged, "image", "test")
        except gops.OpError:
            continue
        other = cv2.imdecode(np.frombuffer(damaged, "uint8"), cv2.IMREAD_COLOR)
        np.testing.assert_array_equal(image, other[:, :, ::-1], f"byte {place}")
        accepted += 1
    assert (accepted > 300) == (kind == "jpeg")
    if kind == "jpeg":   # the number of bits of a quantization table
        refused(content[:24] + b"\r" + content[25:])


def chunk(kind, data):
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.parametrize("size", [(10, 10), (60, 41), (9000, 9000)])
@pytest.mark.parametrize("is_first", [True, False])
def test_two_headers(rng, size, is_first):
    """The limit holds for the one, and the decoder might take the other."""
    jpeg, png = (noise(rng, kind, {}) for kind in ("jpeg", "png"))
    start = jpeg.index(b"\xff\xc0\0\x11")
    end = start + 19
    frame = jpeg[start:start + 5] + struct.pack(">HH", *size[::-1]) + jpeg[start + 9:end]
    header = chunk(b"IHDR", struct.pack(">II", *size) + png[24:29])
    for content, other, place in ((jpeg, frame, start if is_first else end), (png, header, 8 if is_first else 33)):
        refused(content[:place] + other + content[place:])


@pytest.mark.parametrize("lenient", [False, True])
def test_a_png_without_its_last_rows(rng, monkeypatch, lenient):
    """Its checksums are right. Pillow would make them black."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    content = noise(rng, "png", {})
    for interlaced in (0, 1):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60, 40, 8, 2, 0, 0, interlaced))
        for rows in (bytes(181 * 39), bytes(181 * 1000)):
            refused(content[:8] + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.mark.parametrize("kind", ["gif", "tiff", "webp", "ppm", "dds", "tga", "jpeg2000", "pcx"])
def test_other_formats(tmp_path, rng, kind):
    """They are read, whatever the name says."""
    path = tmp_path / "image.jpg"
    pixels = np.full((40, 60, 3), (200, 100, 0), "uint8")
    Image.fromarray(pixels).save(path, kind)
    assert image_size(str(path), "test") == read_header(str(path), "test").size == (60, 40)
    np.testing.assert_allclose(read_image(str(path), "test").astype(int), pixels, atol=4)


@pytest.mark.parametrize("kind", ["tiff", "png", "ppm", "jpeg2000"])
def test_grey_of_16_bits(rng, kind):
    """The upper 8 of them stay."""
    grey = (np.arange(40 * 60).reshape(40, 60) * 27 % 65536).astype("uint16")
    np.testing.assert_array_equal(decode_image(encoded(grey, kind), "image", "test")[..., 1], grey >> 8)


@pytest.mark.parametrize("kind", ["eps", "pdf", "psd", "mpeg"])
def test_formats_that_are_no_pictures(tmp_path, kind):
    """An EPS is a program, which another program would run."""
    path = tmp_path / "image.jpg"
    if kind in ("eps", "pdf"):
        Image.new("RGB", (60, 40)).save(path, kind)
    else:
        path.write_bytes({"psd": b"8BPS", "mpeg": b"\0\0\1\xb3"}[kind] + bytes(100))
    for read in (read_image, image_size):
        with pytest.raises(gops.OpError, match="bytes that do not decode; expected an image in JPEG, PNG, BMP"):
            read(str(path), "test")


@pytest.mark.parametrize("kind", ["jpeg", "png", "gif", "webp", "bmp", "tiff", "ppm"])
def test_the_end_of_a_file_is_looked_at(tmp_path, rng, kind, monkeypatch):
    """A download that was interrupted is known before anything is trained, also beside gluoncv, which allows them."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = tmp_path / "image"
    content = encoded(rng.randint(0, 255, (40, 60, 3)).astype("uint8"), kind)
    path.write_bytes(content + bytes(5000 * (kind == "jpeg")))
    assert read_header(str(path), "test") == ((60, 40), 1)
    path.write_bytes(content[:len(content) // 2])
    with pytest.raises(gops.OpError, match="image has [0-9]+ bytes that do not decode"):
        read_header(str(path), "test")


MODES = [("jpeg", "RGB", 0), ("jpeg", "L", 0), ("jpeg", "CMYK", 1), ("png", "RGB", 0), ("png", "RGBA", 0),
         ("png", "L", 0), ("png", "LA", 0), ("png", "P", 0), ("png", "1", 0), ("png", "I;16", 0), ("bmp", "RGB", 0),
         ("bmp", "L", 0), ("bmp", "P", 0), ("bmp", "1", 0)]


@pytest.mark.parametrize("kind, mode, tolerance", MODES)
def test_modes(rng, kind, mode, tolerance):
    """RGB of every kind of pixels, as MXNet decodes them: alpha is left out, and of 16 bits the upper 8 stay."""
    image = Image.fromarray(rng.randint(0, 255, (40, 60, 4)).astype("uint8"))
    if mode == "I;16":
        image = Image.fromarray(rng.randint(0, 65536, (40, 60)).astype("uint16"))
    content = encoded(image.convert("RGB").convert(mode) if mode in ("P", "CMYK") else image.convert(mode), kind)
    found = decode_image(content, "image", "test")
    np.testing.assert_allclose(found.astype(int), mx.image.imdecode(content).asnumpy(), atol=tolerance)
    assert found.flags.writeable and found.shape == (40, 60, 3)


@pytest.mark.parametrize("name", ["astronaut", "camera", "coffee", "rocket"])
@pytest.mark.parametrize("kind, options", [("png", {}), ("jpeg", {}), ("jpeg", {"quality": 95, "subsampling": 0}),
                                           ("jpeg", {"progressive": True})])
def test_photographs(name, kind, options):
    """They are decoded as MXNet does, to the bit."""
    photographs = pytest.importorskip("skimage.data")   # it has no wheel for Python 3.15 yet
    content = encoded(getattr(photographs, name)(), kind, **options)
    np.testing.assert_array_equal(decode_image(content, "image", "test"), mx.image.imdecode(content).asnumpy())


def test_too_large(tmp_path, rng, monkeypatch):
    """The size in the head decides, before anything is decoded. The limit can be set."""
    def header(width, height):
        content = bytearray(noise(rng, "png", {}))
        content[16:24] = struct.pack(">II", width, height)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
        return bytes(content)

    for size, text in (((25000, 25000), "image is too large for Pillow"), ((20, 1 << 24), "image is too large for Pi"),
                       ((0, 40), "image has a size of 0 x 40|image has [0-9]+ bytes that do not decode")):
        for action in ("ignore", "error"):
            with warnings.catch_warnings():
                warnings.simplefilter(action, Image.DecompressionBombWarning)
                refused(header(*size), text)
    monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "1")
    assert decode_image(noise(rng, "png", {}), "image", "test").shape == (40, 60, 3)
    with pytest.raises(gops.OpError, match="image takes 2 MiB of memory or more; expected at most 1 MiB. Replace"):
        decode_image(header(1000, 600), "image", "test")
    monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "much")
    with pytest.raises(gops.OpError, match="GLUONOPS_MAX_DECODED_MIB is 'much'; expected an integer of at least 1"):
        decode_image(noise(rng, "png", {}), "image", "test")


def test_a_fifo_is_refused(tmp_path):
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "image.png")
    with pytest.raises(gops.OpError, match="image.png cannot be read: it is not a regular file"):
        read_image(str(tmp_path / "image.png"), "test")


def test_a_file_beyond_the_limit(tmp_path, monkeypatch):
    """It is not read."""
    monkeypatch.setenv("GLUONOPS_MAX_DECODED_MIB", "1")
    with open(tmp_path / "image.png", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(gops.OpError, match="image.png takes 1,048,576 MiB of memory or more; expected at most 1 MiB"):
        read_image(str(tmp_path / "image.png"), "test")


@pytest.mark.parametrize("name", ["a\0.png", "\ud800.png"])
def test_a_name_that_no_file_has(name):
    for read in (read_image, image_size):
        with pytest.raises(gops.OpError, match="cannot be read: no file can have this name"):
            read(name, "test")
