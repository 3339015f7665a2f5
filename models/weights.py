"""Loads the weights that the package contains.

The package has one file of weights: the backbone of ``tiny_yolov2`` at half its width, in float16. It was trained on
images that ``tools/pretrain_backbone.py`` makes: outlines, and places in photographs.
"""
from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

import mxnet as mx
from gluonops.contract.errors import OpError
from mxnet import gluon

BACKBONE = pathlib.Path(__file__).parent / "pretrained" / "tiny_yolov2_backbone.params"
BACKBONE_WIDTH = 0.5   # tiny_yolov2's


class BackboneOwner:
    """A net with a backbone for which the package may have weights. ``_backbone`` is the name of its attribute."""

    _backbone = "backbone"
    _where = ""   # the net's name in errors

    @property
    def has_pretrained_backbone(self) -> bool:
        """Whether the package has weights for this backbone, which it has for ``tiny_yolov2`` with a width of 0.5."""
        parameters = getattr(self, self._backbone)._collect_params_with_prefix()
        expected = {name: value.shape for name, value in mx.nd.load(str(BACKBONE)).items()}
        return {name: parameter.shape for name, parameter in parameters.items()} == expected

    def load_pretrained_backbone(self) -> None:
        """Load the backbone in the package into this net, which is initialized. See :mod:`gluonops.models.weights`.

        Raises
        ------
        OpError
            The net has another backbone.
        """
        if not self.has_pretrained_backbone:
            raise OpError(self._where, "the net has another backbone than that in the package; expected tiny_yolov2's "
                          f"with width={BACKBONE_WIDTH}", "Make such a net, or start from a file of weights")
        getattr(self, self._backbone).load_parameters(str(BACKBONE), cast_dtype=True)


def network(name: str, cls: type[gluon.Block], remedy: str) -> Callable[..., gluon.Block]:
    """A function that makes a network. It has the arguments and the docstring of the network's class.

    Like those of model zoos that download weights, it takes ``pretrained``. An OpError is raised if that is true;
    ``remedy`` says where the weights come from.
    """
    @functools.wraps(cls, updated=())
    def make(*args, pretrained=False, **kwargs):
        if pretrained:
            raise OpError(f"models.{name}", f"pretrained is {pretrained!r}; expected False, because gluonops downloads "
                          "no weights", remedy)
        return cls(*args, **kwargs)

    make.__name__ = make.__qualname__ = name
    return make
