"""An exported network in torch: the same layers with the same weights, for inference."""
from __future__ import annotations

import ast

import torch
from gluonops.export.constants import evaluate, parameter_only
from gluonops.export.files import load
from torch import nn


def in_torch(prefix: str) -> TorchNet:
    """The network of files exported with ``backend="custom"``."""
    graph, values, _ = load("benchmarks.networks.deploy", prefix)
    return TorchNet(graph, values).eval().requires_grad_(False)


class TorchNet(nn.Module):
    """Layers in a row, each reading the outputs of earlier ones by number; 0 is the image."""

    def __init__(self, graph, values):
        super().__init__()
        fixed, numbers = parameter_only(graph, values), {}
        self.layers, self.sources = nn.ModuleList(), []
        for node in graph.nodes():
            if node.is_variable and node not in fixed:
                numbers[node] = 0
            elif node not in fixed:
                arrays = evaluate([entry for entry in node.inputs if entry[0] in fixed], values, graph.attrs)
                self.layers.append(LAYERS[node.attrs.get("op_type", node.op)](node, *map(torch.from_numpy, arrays)))
                self.sources.append([numbers[source] for source, _ in node.inputs if source not in fixed])
                numbers[node] = len(self.layers)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        outputs = [data]
        for layer, sources in zip(self.layers, self.sources):
            outputs.append(layer(*[outputs[source] for source in sources]))
        return outputs[-1]


class Concat(nn.Module):
    """Side by side in channels."""

    def forward(self, *data: torch.Tensor) -> torch.Tensor:
        return torch.cat(data, 1)


class Cut(nn.Module):
    """Without the first row and column, as Darknet's MaxPool with a stride of 1 ends."""

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return data[:, :, 1:, 1:]


class Reorg(nn.Module):
    """``gops.nn.Reorg(2)``, in Darknet's order."""

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = data.shape
        blocks = data.reshape(batch, channels * height // 4, 2, 2, width // 2, 2)
        return blocks.permute(0, 2, 5, 1, 3, 4).reshape(batch, channels * 4, height // 2, width // 2)


def _convolution(node, weight, bias=None):
    layer = nn.Conv2d(weight.shape[1], weight.shape[0], tuple(weight.shape[2:]), _numbers(node, "stride"),
                      _numbers(node, "pad"), bias=bias is not None)
    return _filled(layer, weight=weight, **({} if bias is None else {"bias": bias}))


def _batch_norm(node, gamma, beta, mean, variance):
    layer = nn.BatchNorm2d(len(gamma), eps=float(node.attrs["eps"]))
    return _filled(layer, weight=gamma, bias=beta, running_mean=mean, running_var=variance)


def _pooling(node):
    if node.flag("global_pool"):
        return nn.AdaptiveAvgPool2d(1)
    return nn.MaxPool2d(_numbers(node, "kernel"), _numbers(node, "stride"), _numbers(node, "pad"))


def _filled(layer, **values):
    with torch.no_grad():
        for name, value in values.items():
            getattr(layer, name).copy_(value)
    return layer


def _numbers(node, name):
    return ast.literal_eval(node.attrs[name])


LAYERS = {"BatchNorm": _batch_norm, "Concat": lambda _: Concat(), "Convolution": _convolution,
          "Flatten": lambda _: nn.Flatten(), "LeakyReLU": lambda node: nn.LeakyReLU(float(node.attrs["slope"])),
          "Pooling": _pooling, "gluonops_reorg": lambda _: Reorg(), "slice": lambda _: Cut()}
