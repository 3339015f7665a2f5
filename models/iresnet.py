"""iresnet: a small residual net from images to embeddings, as InsightFace trains them on faces.

Shapes for the defaults and images of 32 x 32, batch B:

=====================================  ================
data                                   (B, C, 32, 32)
conv 3x3, BN, PReLU                    (B, 32, 32, 32)
residual blocks, the first strides 2   (B, 32, 16, 16)
residual blocks, the first strides 2   (B, 64, 8, 8)
residual blocks, the first strides 2   (B, 128, 4, 4)
BN, fully connected, BN                (B, 128)
=====================================  ================

A block is BN, conv 3x3, BN, PReLU, conv 3x3, BN, beside the identity, or beside a convolution of 1 x 1 and BN if the
shape changes. The last BN has no factor. IResNet-50 has blocks of this kind: 3, 4, 14 and 3 in stages of 64, 128, 256
and 512 channels, for faces of 112 x 112.

Sources: Deng et al., "ArcFace" (2019), section 3.1: the improved residual unit, and the setting E of the output;
deepinsight/insightface, ``recognition/arcface_torch/backbones/iresnet.py``.
"""
from collections.abc import Sequence

from gluonops.backends.layer import EitherModeBlock
from gluonops.contract.attributes import Int, parsed
from gluonops.contract.errors import OpError
from mxnet.gluon import nn

from .weights import network

WHERE = "models.iresnet"
OPTIONS = {"embedding": Int(1), "blocks": Int(1)}


class IResNet(EitherModeBlock):
    """A small net from images to embeddings, for :class:`gluonops.nn.ArcFaceHead`.

    Parameters
    ----------
    embedding : int, default 128
        Length of an embedding.
    channels : sequence of int, default (32, 64, 128)
        Channels of each stage. A stage halves height and width.
    blocks : int, default 1
        Residual blocks of each stage.
    **kwargs
        ``prefix`` and ``params`` of ``gluon.HybridBlock``.

    Inputs:
        - **data**: images, (B, C, H, W). The first call fixes C, H and W.

    Outputs:
        - **out**: embeddings, (B, embedding). Their length is not 1.

    Raises
    ------
    OpError
        An argument is below 1.
    """

    def __init__(self, embedding: int = 128, channels: Sequence[int] = (32, 64, 128), blocks: int = 1, **kwargs):
        super().__init__(**kwargs)
        embedding, blocks = parsed(WHERE, OPTIONS, embedding=embedding, blocks=blocks).values()
        if not channels or any(count < 1 for count in channels):
            raise OpError(WHERE, f"channels is {tuple(channels)}; expected a number of at least 1 for each stage",
                          "Pass numbers such as (32, 64, 128)")
        with self.name_scope():
            self.features = nn.HybridSequential()
            self.features.add(_convolution(channels[0]), nn.BatchNorm(), nn.PReLU())
            before = channels[0]
            for count in channels:
                for number in range(blocks):
                    self.features.add(_Residual(count, before, 2 if number == 0 else 1))
                    before = count
            self.features.add(nn.BatchNorm(), nn.Flatten(), nn.Dense(embedding, use_bias=False),
                              nn.BatchNorm(scale=False))

    def hybrid_forward(self, F, data):
        return self.features(data)


class _Residual(EitherModeBlock):
    """The improved residual unit of ArcFace's paper."""

    def __init__(self, channels: int, before: int, strides: int, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.BatchNorm(), _convolution(channels), nn.BatchNorm(), nn.PReLU(),
                          _convolution(channels, strides), nn.BatchNorm())
            self.shortcut = nn.HybridSequential()
            if strides > 1 or channels != before:
                self.shortcut.add(nn.Conv2D(channels, 1, strides, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, data):
        return self.body(data) + self.shortcut(data)


def _convolution(channels, strides=1):
    return nn.Conv2D(channels, 3, strides, padding=1, use_bias=False)


iresnet = network("iresnet", IResNet, "Train the network with examples/finetune_classifier.py")
