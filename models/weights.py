"""Where the weights of a network come from.

The package has one file of weights: the backbone of ``tiny_yolov2`` at half its width, in float16. It was trained on
images that ``tools/pretrain_backbone.py`` makes: outlines, and places in photographs.
"""
from __future__ import annotations

import pathlib
from typing import Any

import mxnet as mx
from gluonops.core.errors import OpError
from mxnet import gluon

__all__ = ["BACKBONE", "BACKBONE_WIDTH", "fits_backbone", "load_backbone", "without_pretrained"]

BACKBONE = pathlib.Path(__file__).parent / "pretrained" / "tiny_yolov2_backbone.params"
BACKBONE_WIDTH = 0.5   # tiny_yolov2's


def fits_backbone(block: gluon.Block | None) -> bool:
    """Whether a block has the layers of the backbone in the package."""
    parameters = {} if block is None else block._collect_params_with_prefix()
    expected = {name: value.shape for name, value in mx.nd.load(str(BACKBONE)).items()}
    return {name: parameter.shape for name, parameter in parameters.items()} == expected


def load_backbone(block: gluon.Block | None, where: str) -> None:
    """Load the backbone in the package into a block.

    ``block``: initialized, with the layers of ``tiny_yolov2(width=0.5).backbone``. An OpError if the block has other
    layers.
    """
    if not fits_backbone(block):
        raise OpError(where, "the net has another backbone than that in the package; expected tiny_yolov2's with "
                      f"width={BACKBONE_WIDTH}", "Make such a net, or start from a file of weights")
    block.load_parameters(str(BACKBONE), cast_dtype=True)


def without_pretrained(where: str, options: dict[str, Any], remedy: str) -> dict[str, Any]:
    """The options of a network without ``pretrained``, which model zoos with weights to download have.

    ``remedy``: where the weights come from. An OpError if ``pretrained`` is true.
    """
    if options.get("pretrained"):
        raise OpError(where, f"pretrained is {options['pretrained']!r}; expected False, because gluonops downloads no "
                      "weights", remedy)
    return {name: value for name, value in options.items() if name != "pretrained"}
