"""Tiny data sets on disk, in every layout that gluonops.data reads, with the boxes in them; and checks of such sets."""
import io
import json

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.data import detection
from PIL import Image

# (width, height) and boxes: xmin, ymin, xmax, ymax in whole pixels, class.
SCENES = [((64, 48), [(4, 6, 20, 30, 1), (32, 12, 64, 48, 0)]), ((32, 64), [(0, 0, 16, 32, 0)]), ((48, 48), [])]
NAMES = ("cat", "dog")


def picture(size, boxes, rng):
    """Noise, with a plain rectangle per box."""
    image = rng.randint(0, 100, (size[1], size[0], 3)).astype("uint8")
    for left, top, right, bottom, number in boxes:
        image[top:bottom, left:right] = (255, 40 * number, 0)
    return image


def save(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)


def annotation(size, boxes, names=NAMES):
    """VOC's XML; its coordinates count from 1."""
    objects = "".join(f"""
  <object>
    <name>{names[number]}</name>
    <difficult>{int(place == 1)}</difficult>
    <bndbox>
      <xmin>{left + 1}</xmin><ymin>{top + 1}</ymin><xmax>{right + 1}</xmax><ymax>{bottom + 1}</ymax>
    </bndbox>
  </object>""" for place, (left, top, right, bottom, number) in enumerate(boxes))
    return f"<annotation>\n  <size><width>{size[0]}</width><height>{size[1]}</height></size>{objects}\n</annotation>\n"


def make_voc(root, rng, lists=("train", "val"), names=NAMES):
    for place, (size, boxes) in enumerate(SCENES):
        save(root / "JPEGImages" / f"{place:06}.jpg", picture(size, boxes, rng))
        path = root / "Annotations" / f"{place:06}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(annotation(size, boxes, names))
    for name in lists:
        path = root / "ImageSets" / "Main" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{place:06}\n" for place in range(len(SCENES))))


def make_coco(root, rng, urls=False):
    images, annotations = [], []
    for place, (size, boxes) in enumerate(SCENES):
        name = f"{place:012}.png"
        save(root / ("train2017" if urls else "images") / name, picture(size, boxes, rng))
        images.append({"id": 10 + place, "file_name": name, "width": size[0], "height": size[1]})
        if urls:
            images[-1]["coco_url"] = f"http://images.invalid/train2017/{name}"
        for left, top, right, bottom, number in boxes:
            width, height = right - left, bottom - top
            annotations.append({"id": len(annotations), "image_id": 10 + place, "category_id": 7 - 4 * number,
                                "bbox": [left, top, width, height], "area": width * height, "iscrowd": 0})
    content = {"images": images, "annotations": annotations,
               "categories": [{"id": 7, "name": NAMES[0]}, {"id": 3, "name": NAMES[1]}]}
    path = root / "annotations" / "instances_train2017.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content, indent=1))
    (path.parent / "instances_val2017.json").write_text(json.dumps(content))
    return path, content


def shares(size, box):
    """centre x, centre y, width, height as shares of the image's size."""
    (left, top, right, bottom), (width, height) = box[:4], size
    return (left + right) / 2 / width, (top + bottom) / 2 / height, (right - left) / width, (bottom - top) / height


def make_yolo(root, rng, lists=True):
    """The set has lists of paths, or a folder per split."""
    folder = "" if lists else "train"
    for place, (size, boxes) in enumerate(SCENES):
        save(root / "images" / folder / f"{place}.png", picture(size, boxes, rng))
        path = root / "labels" / folder / f"{place}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{box[4]} {' '.join(map(repr, shares(size, box)))}\n" for box in boxes))
    (root / "my.names").write_text("".join(f"{name}\n" for name in NAMES))
    if lists:
        for split in ("train", "val"):
            (root / f"{split}.txt").write_text("".join(f"images/{place}.png\n" for place in range(len(SCENES))))


def make_records(root, rng, labels=None, images=None, split="train"):
    """train.rec and train.idx; ``labels`` takes the place of the boxes', ``images`` of the encoded images."""
    root.mkdir(parents=True, exist_ok=True)
    file = mx.recordio.MXIndexedRecordIO(str(root / f"{split}.idx"), str(root / f"{split}.rec"), "w")
    for place, (size, boxes) in enumerate(SCENES):
        rows = [[number, left / size[0], top / size[1], right / size[0], bottom / size[1]]
                for left, top, right, bottom, number in boxes]
        label = np.float32([2, 5] + sum(rows, [])) if labels is None else labels[place]
        content = encoded(picture(size, boxes, rng)) if images is None else images[place]
        file.write_idx(place + 5, mx.recordio.pack(mx.recordio.IRHeader(0, label, place, 0), content))
    file.close()


def encoded(image, kind="png", **options):
    """The file of an image: pixels, or Pillow's."""
    out = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(out, kind, **options)
    return out.getvalue()


def photograph(image, orientation, kind="jpeg"):
    """The file of an image as a camera writes it: with EXIF's orientation, in a JPEG in front of all else."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    if kind == "png":
        return encoded(image, kind, exif=exif)
    content, segment = encoded(image, kind), exif.tobytes()
    return content[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + content[2:]


OTHERS = {"voc": {"classes": NAMES}, "coco": {}, "yolo": {}, "rec": {"classes": NAMES}}
MAKERS = {"voc": make_voc, "coco": make_coco, "yolo": make_yolo, "rec": make_records}


def check(dataset, scenes=SCENES, difficult=False):
    """Shapes, classes and boxes agree; and an image has its rectangles where the label says."""
    assert dataset.classes == NAMES and len(dataset) == len(scenes)
    for place, (size, boxes) in enumerate(scenes):
        image, label = dataset[place]
        assert image.dtype == np.uint8 and image.shape == (size[1], size[0], 3)
        assert label.dtype == np.float32 and label.shape == (len(boxes), 6)
        np.testing.assert_allclose(label[:, :5], np.reshape(boxes, (-1, 5)), atol=1e-4)
        np.testing.assert_array_equal(label[:, 5], [difficult and box > 0 for box in range(len(boxes))])
        np.testing.assert_array_equal(dataset.label(place), label)
        assert dataset.size(place) == size
        for left, top, right, bottom, number in boxes:
            inside = image[top + 2:bottom - 2, left + 2:right - 2].reshape(-1, 3).mean(0)
            np.testing.assert_allclose(inside, (255, 40 * number, 0), atol=12)   # JPEG
    with pytest.raises(IndexError):
        dataset[len(scenes)]


def refused(text, *arguments, **options):
    with pytest.raises(gops.OpError) as caught:
        detection(*arguments, **options)
    assert text in str(caught.value), str(caught.value)
