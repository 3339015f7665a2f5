"""The step of ``training.py`` in torch, from the same weights, with the loss of :func:`gluonops.export.torch`."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
import torch
from gluonops.darknet import activations, layers
from gluonops.export.torch.registry import snippets

from .training import ANCHORS, CLASSES, RATE, THRESH, draw, make, step_of

LOSS = ("truths_of", "decoded", "overlaps", "last_of", "region_loss")   # Each function uses those in front of it.


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
    functions = {"torch": torch, "F": torch.nn.functional, "math": math}
    exec("\n".join(snippets()[name] for name in LOSS), functions)
    region_loss = functools.partial(functions["region_loss"], seen=1, anchors=ANCHORS, classes=CLASSES, thresh=THRESH,
                                    warmup_images=0)

    def step():
        optimizer.zero_grad()
        loss = region_loss(model(images), ground_truth).mean()
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
