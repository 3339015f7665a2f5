"""The step of ``training.py`` in torch, from the same weights."""
from __future__ import annotations

from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
import torch
from gluonops.darknet import activations, layers

from .training import ANCHORS, CLASSES, RATE, THRESH, draw, make, step_of


def step(name: str, batch: int, size: int) -> Callable:
    """A function that trains a net for one step. The first losses of both have to agree."""
    images, ground_truth = draw(batch, size)
    net = make(name, images)
    run = step_of_torch(net, images, ground_truth)   # copies the weights before they change
    np.testing.assert_allclose(run(), step_of(net, images, ground_truth)(), rtol=1e-3)
    return run


def step_of_torch(net: gops.models.TinyYOLOv2, images: np.ndarray, ground_truth: np.ndarray) -> Callable:
    """The same with the weights that a net has now."""
    blocks = [*net.backbone, net.pool, *net.head, net.output]
    model = torch.nn.Sequential(*[layer for block in blocks for layer in torch_layers(block)])
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9)
    images = torch.from_numpy(images)
    ground_truth = torch.from_numpy(ground_truth)
    anchors = torch.tensor(ANCHORS)

    def step():
        optimizer.zero_grad()
        loss = torch_region_loss(model(images), ground_truth, anchors).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def torch_layers(block: mx.gluon.Block) -> list[torch.nn.Module]:
    """torch's layers for one of our blocks, with its weights."""
    if isinstance(block, layers.Convolution):
        return torch_convolution(block)
    size, stride = (block._kwargs[key][0] for key in ("kernel", "stride"))
    pool = torch.nn.MaxPool2d(size, stride)
    if getattr(block, "_cut", False):   # Darknet's pooling with a stride of 1 keeps the size
        return [torch.nn.ConstantPad2d((0, 1, 0, 1), -torch.inf), pool]
    return [pool]


def torch_convolution(block: layers.Convolution) -> list[torch.nn.Module]:
    """A convolution with a bias, or without one and with batch norm and leaky ReLU behind it."""
    weight, norm = block.conv.weight.data().asnumpy(), block.norm
    out, channels, size, _ = weight.shape
    convolution = torch.nn.Conv2d(channels, out, size, padding=size // 2, bias=norm is None)
    convolution.weight.data = torch.from_numpy(weight)
    if norm is None:
        convolution.bias.data = torch.from_numpy(block.conv.bias.data().asnumpy())
        return [convolution]
    batch_norm = torch.nn.BatchNorm2d(out, norm._kwargs["eps"])
    return [convolution, batch_norm, torch.nn.LeakyReLU(activations.SLOPE, inplace=True)]


class Predictions:
    """What a raw map predicts, for every anchor and cell of every image, in functions of torch.

    ``places`` are within the cell, from 0 to 1; ``sizes`` are logarithms of the size over the anchor's; ``objectness``
    is a probability; ``logits`` are the classes'. ``corners`` are the cells' numbers, and ``cells`` how many there are.
    All but ``cells`` are (batch, anchors, height, width, ...).
    """

    def __init__(self, data, anchors):
        batch, _, height, width = data.shape
        maps = data.reshape(batch, len(anchors), 5 + CLASSES, height, width).permute(0, 1, 3, 4, 2)
        self.places = maps[..., :2].sigmoid()
        self.sizes = maps[..., 2:4]
        self.objectness = maps[..., 4].sigmoid()
        self.logits = maps[..., 5:]
        self.cells = torch.tensor([width, height], dtype=data.dtype)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        self.corners = torch.stack([columns, rows], -1).expand_as(self.places)

    def boxes(self, anchors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Centres and sizes as shares of the image, each (batch, anchors * height * width, 2)."""
        centres = (self.places + self.corners) / self.cells
        sizes = self.sizes.exp() * anchors[:, None, None] / self.cells
        return centres.flatten(1, 3), sizes.flatten(1, 3)


def torch_region_loss(data: torch.Tensor, ground_truth: torch.Tensor, anchors: torch.Tensor,
                      object_scale: float = 5.0) -> torch.Tensor:
    """The loss of every image, as the page of gluonops.ops.region_loss has it, in functions of torch.

    Parameters
    ----------
    data : torch.Tensor
        The raw map, (batch, anchors * (5 + CLASSES), height, width).
    ground_truth : torch.Tensor
        Centre x, centre y, width, height and class of every box, (batch, boxes, 5); rows of zeros are padding.
    anchors : torch.Tensor
        Width and height in cells, (anchors, 2).
    object_scale : float, default 5.0
        Weight of the objectness where there is an object.

    Returns
    -------
    torch.Tensor
        (batch,).
    """
    predicted = Predictions(data, anchors)
    with torch.no_grad():
        is_box = ground_truth[..., 2] > 0
        overlaps = overlaps_of(predicted, anchors, ground_truth) * is_box[:, None]
        owner = assign(predicted, anchors, ground_truth, is_box)
        image, slot = (owner >= 0).nonzero().unbind(1)
        box_number = owner[image, slot]
        box = ground_truth[image, box_number]
        best_anchor = anchors[slot // predicted.objectness[0, 0].numel()]
        corner = predicted.corners.flatten(1, 3)[image, slot]
        place_target = box[:, :2] * predicted.cells - corner
        size_target = (box[:, 2:4] * predicted.cells / best_anchor).log()
        objectness_target = overlaps[image, slot, box_number]
        box_weight = 2 - box[:, 2] * box[:, 3]
        background = (overlaps.amax(2) <= THRESH).to(data.dtype)

    assigned = [part.flatten(1, 3)[image, slot] for part in (predicted.places, predicted.sizes, predicted.logits)]
    place, size, logits = assigned
    all_objectness = predicted.objectness.flatten(1)
    coordinate_loss = (place - place_target).square().sum(1) + (size - size_target).square().sum(1)
    objectness_loss = (all_objectness[image, slot] - objectness_target).square()
    class_loss = torch.nn.functional.cross_entropy(logits, box[:, 4].long(), reduction="none")

    no_object_loss = (all_objectness.square() * background * (owner < 0)).sum(1) / 2
    object_loss = box_weight * coordinate_loss / 2 + object_scale / 2 * objectness_loss + class_loss
    return no_object_loss.index_add(0, image, object_loss)


def overlaps_of(predicted: Predictions, anchors: torch.Tensor, ground_truth: torch.Tensor) -> torch.Tensor:
    """The IoU of every predicted box with every box of the ground truth, (batch, predictions, boxes)."""
    centres, sizes = predicted.boxes(anchors)
    return iou(centres[:, :, None], sizes[:, :, None], ground_truth[:, None, :, :2], ground_truth[:, None, :, 2:4])


def assign(predicted: Predictions, anchors: torch.Tensor, ground_truth: torch.Tensor,
           is_box: torch.Tensor) -> torch.Tensor:
    """The number of the box that each prediction is responsible for, or -1; (batch, predictions).

    It is the prediction in the cell of the box's centre, with the anchor whose shape is most like the box's.
    """
    batch, _, height, width = predicted.objectness.shape
    centres, sizes = ground_truth[..., :2], ground_truth[..., 2:4]
    origin = torch.zeros(2)
    anchor = iou(origin, anchors, origin, (sizes * predicted.cells)[:, :, None]).argmax(2)
    column, row = (centres * predicted.cells).long().unbind(-1)
    slots = (anchor * height + row) * width + column
    owner = torch.full((batch, predicted.objectness[0].numel()), -1)
    for number in range(ground_truth.shape[1]):   # a later object replaces an earlier one
        images = is_box[:, number].nonzero()[:, 0]
        owner[images, slots[images, number]] = number
    return owner


def iou(first_centres: torch.Tensor, first_sizes: torch.Tensor, second_centres: torch.Tensor,
        second_sizes: torch.Tensor) -> torch.Tensor:
    """The intersection over union of boxes by their centres and sizes, (..., 2)."""
    low = torch.maximum(first_centres - first_sizes / 2, second_centres - second_sizes / 2)
    high = torch.minimum(first_centres + first_sizes / 2, second_centres + second_sizes / 2)
    common = (high - low).clamp(min=0).prod(-1)
    return common / (first_sizes.prod(-1) + second_sizes.prod(-1) - common)
