"""The step of ``training.py`` in torch. A detector has the same weights, and the loss of gluonops.export.torch."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from gluonops.darknet import Convolution, activations
from gluonops.export.torch.converters import snippets
from mxnet import gluon

from .training import ANCHORS, CLASSES, RATE, THRESH, draw, make, step_of_detector

LOSS = ("truths_of", "decoded", "overlaps", "last_of", "region_loss")   # Each function uses those in front of it.


def detector_step(name: str, batch: int, size: int) -> Callable:
    """A function that trains a net for one step. The first losses of both have to agree."""
    images, ground_truth = draw(batch, size)
    net = make(name, images)
    blocks = [*net.backbone, net.pool, *net.head, net.output]
    model = torch.nn.Sequential(*[layer for block in blocks for layer in torch_layers(block)])
    functions = {"torch": torch, "F": torch.nn.functional, "math": math}
    exec("\n".join(snippets()[name] for name in LOSS), functions)
    region_loss = functools.partial(functions["region_loss"], seen=torch.tensor(1), anchors=ANCHORS, classes=CLASSES,
                                    thresh=THRESH, warmup_images=0)
    run = step_of(model, region_loss, RATE, images, ground_truth)
    ours = step_of_detector(net, images, ground_truth)
    np.testing.assert_allclose(run(), ours().asnumpy().mean(), rtol=1e-3)
    return run


def step_of(model: torch.nn.Module, loss: Callable, rate: float, images: np.ndarray, truth: np.ndarray) -> Callable:
    """A function that trains a net for one step, and returns the mean loss."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    images, truth = torch.from_numpy(images), torch.from_numpy(truth)

    def step():
        optimizer.zero_grad()
        mean = loss(model(images), truth).mean()
        mean.backward()
        optimizer.step()
        return mean.item()

    return step


def torch_layers(block: gluon.Block) -> list[torch.nn.Module]:
    """torch's layers for one of our blocks, with its weights. Behind a convolution without bias is a batch norm."""
    if not isinstance(block, Convolution):
        pool = torch.nn.MaxPool2d(*(block._kwargs[key][0] for key in ("kernel", "stride")))
        # Darknet's pooling with a stride of 1 keeps the size.
        return [torch.nn.ConstantPad2d((0, 1, 0, 1), -torch.inf), pool] if getattr(block, "_cut", False) else [pool]
    weight, norm = block.conv.weight.data().copy().asnumpy(), block.norm   # a copy waits for inference that still runs
    out, channels, size, _ = weight.shape
    convolution = torch.nn.Conv2d(channels, out, size, padding=size // 2, bias=norm is None)
    convolution.weight.data = torch.from_numpy(weight)
    if norm is None:
        convolution.bias.data = torch.from_numpy(block.conv.bias.data().copy().asnumpy())
        return [convolution]
    batch_norm = torch.nn.BatchNorm2d(out, norm._kwargs["eps"])
    return [convolution, batch_norm, torch.nn.LeakyReLU(activations.SLOPE, inplace=True)]
