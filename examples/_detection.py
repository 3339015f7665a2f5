"""What finetune_yolov2.py needs around its loop: a net to start from, mAP, and a page of detections."""
import math
import pathlib

import _checkpoint
import gluonops as gops
import mxnet as mx
import numpy as np
from _pictures import save
from gluonops.core.optional import require
from gluonops.data import Augment, letterbox, unletterbox_boxes
from gluonops.data.base import class_names
from matplotlib.figure import Figure
from mxnet import gluon

voc = require("gluoncv.utils.metrics.voc_detection", "examples")
plot_bbox = require("gluoncv.utils.viz", "examples").plot_bbox


def make(args, classes, anchors):
    """(net, names of the classes it knew before): --model for the classes, started from --pretrained."""
    path = args.pretrained and pathlib.Path(args.pretrained)
    old = _old_classes(args, path)
    options = {"head_channels": args.head_channels} if args.model == "tiny_yolov2" else {}
    net = gops.models.get_model(args.model, classes=old or list(classes), anchors=anchors, **options)
    net.initialize(mx.init.Xavier())
    if path is None:
        return net, ()
    if path.suffix == ".checkpoint":
        tensors, _ = _checkpoint.read(path)
        _checkpoint.restore_net(tensors, net, path)
    elif path.suffix == ".params":
        tensors = {f"param:net.{name}": value for name, value in _checkpoint.parameters(path).items()}
        _checkpoint.restore_net(tensors, net, path)
    elif ".conv." in path.name:   # a file of Darknet's first layers, such as darknet19_448.conv.23
        gops.darknet.load_weights(net.backbone, str(path))
    else:
        net.load_darknet(str(path))
    reused = [name for name in classes if name in old]
    if tuple(old or classes) != tuple(classes):
        net.reset_class(list(classes), reuse_weights=reused or None)
    return net, reused


def _old_classes(args, path):
    if path is None or ".conv." in path.name:
        return []
    if path.suffix == ".checkpoint":
        return _checkpoint.read(path)[1]["classes"]
    if not args.pretrained_names:
        raise gops.OpError("examples", f"{path} does not hold the names of its classes",
                           "Name them with --pretrained-names, a file such as Darknet's data/voc.names")
    return list(class_names(args.pretrained_names, "examples"))


def augment(args):
    """How training images change: as in Darknet; scenes of digits have all colours as they are."""
    if args.dataset == "digits":
        return Augment(jitter=0.1, scale=(0.9, 1.15), flip=args.flip, hue=0, saturation=1, exposure=1)
    return Augment(flip=args.flip)


def detections(net, loader, size, device):
    """For every image: ids (N,), scores (N,), boxes (N, 4) in its own pixels, and its label (T, 6)."""
    detector = net.detector(threshold=0.01, topk=100)
    detector.hybridize(static_alloc=True)
    for images, _, labels, shapes in loader:
        outputs = [array.asnumpy() for array in detector(images.as_in_context(device))]
        for ids, scores, boxes, label, shape in zip(*outputs, labels.asnumpy(), shapes.asnumpy()):
            real = ids[:, 0] >= 0
            boxes = unletterbox_boxes(boxes[real], tuple(shape), size)
            yield ids[real, 0], scores[real, 0], boxes, label[label[:, 4] >= 0]


def mean_average_precision(net, loader, size, device, classes):
    """mAP at an IoU of 0.5 by gluoncv's two metrics: the area under the curve, and VOC 2007's eleven points."""
    metrics = {"mAP": voc.VOCMApMetric(0.5, list(classes)), "mAP_voc07": voc.VOC07MApMetric(0.5, list(classes))}
    for ids, scores, boxes, label in detections(net, loader, size, device):
        for metric in metrics.values():
            metric.update([boxes[None]], [ids[None]], [scores[None]], [label[None, :, :4]], [label[None, :, 4]],
                          [label[None, :, 5]])
    return {name: _number(metric.get()[1]) for name, metric in metrics.items()}


def _number(value):
    """The metric's last value is the mean; NaN if no class has an object."""
    mean = float(value[-1] if isinstance(value, (list, tuple)) else value)
    return 0.0 if math.isnan(mean) else mean


def page(net, dataset, size, device, path, count=12, threshold=0.25):
    """Validation images with predicted boxes, and ground truth in dashes."""
    count = min(count, len(dataset))
    columns = min(4, count)
    figure = Figure(figsize=(3.6 * columns, 3.7 * -(-count // columns)), layout="constrained")
    panels = np.ravel(figure.subplots(-(-count // columns), columns))
    detector = net.detector(threshold=threshold)
    for index, axes in enumerate(panels):
        axes.axis("off")
        if index >= count:
            continue
        image, label = dataset[index]
        image = image.asnumpy() if isinstance(image, mx.nd.NDArray) else image
        images = mx.nd.array(letterbox(image, *size)[None], ctx=device)
        ids, scores, boxes = (array.asnumpy()[0] for array in detector(images))
        real = (ids[:, 0] >= 0) & ~np.isnan(boxes).any(1)
        # Within the image: a side is the exponential of an output, and infinite in a net that is far off.
        boxes = np.clip(unletterbox_boxes(boxes[real], image.shape[1::-1], size), 0, [*image.shape[1::-1]] * 2)
        for left, top, right, bottom in label[:, :4]:
            axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], "w--", linewidth=1.2)
        plot_bbox(image, boxes, scores[real, 0], ids[real, 0], thresh=threshold, class_names=dataset.classes, ax=axes,
                  linewidth=1.5, fontsize=8)
        axes.set_title(f"{len(label)} to find, {real.sum()} found", fontsize=9)
    save(figure, path)


class Cached(gluon.data.Dataset):
    """A dataset's items, kept in memory after the first read; for items that are costly to make."""

    def __init__(self, data):
        self.data, self.items = data, {}
        self.classes = data.classes

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        if index not in self.items:
            self.items[index] = self.data[index]
        return self.items[index]

    def fingerprint(self):
        """Of the dataset."""
        return self.data.fingerprint()

    def label(self, index):
        """The boxes alone."""
        return self[index][1]

    def size(self, index):
        """(width, height)"""
        return self[index][0].shape[1::-1]

    def name(self, index):
        """What an error calls the image."""
        return self.data.name(index)
