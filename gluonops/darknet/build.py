"""Builds a HybridBlock from a Darknet cfg."""
from __future__ import annotations

import os
import re
from collections.abc import Callable

import mxnet as mx

from ..core.attributes import Attr, Choice
from . import sections as _sections  # noqa: F401  (their modules fill the registry)
from .builder import Builder, check_shape
from .cfg import Section, read_cfg
from .net import DarknetNet
from .options import EPSILON, IGNORED, dialect_of
from .weights import load_weights

__all__ = ["load"]

DIALECT = Attr("dialect", Choice(*EPSILON), "pjreddie")


def load(cfg: str | os.PathLike, weights: str | os.PathLike | None = None, ctx: mx.Context | None = None,
         epsilon: float | None = None, progress: Callable | None = None, dialect: str | None = None) -> DarknetNet:
    """Build a Darknet cfg's network as a HybridBlock, and load its weights.

    It knows every section and option of the networks that pjreddie's and AlexeyAB's Darknet ship, but the recurrent
    ones. Options that only concern training, speed or tracking are ignored. Any other section or option is refused,
    because a network without it computes something else.

    Parameters
    ----------
    cfg : str or os.PathLike
        Path of the cfg.
    weights : str or os.PathLike, optional
        Path of the weights. Without them the net is returned uninitialized.
    ctx : Context, optional
        Context of the parameters. The default is the current context.
    epsilon : float, optional
        Batch norms divide by ``sqrt(variance + epsilon)``. The default is the dialect's: AlexeyAB's Darknet does
        so with 1e-5. pjreddie's does so on a GPU. On a CPU it divides by ``sqrt(variance) + 1e-6``, and so does the
        net by default.
    progress : callable, optional
        Wraps the sequence of layers while weights are loaded, as ``tqdm.tqdm`` does.
    dialect : {'pjreddie', 'alexeyab'}, optional
        The program that the net is for. The default is 'alexeyab' if only his program knows a section or an option of
        the cfg, else 'pjreddie'. It matters to batch norms, xnor layers, the classes of a tree, and to
        ``net.preprocessing`` of a detector: AlexeyAB's stretches images to its size, unless the cfg has
        ``letter_box=1``; pjreddie's letterboxes them.

    Returns
    -------
    DarknetNet
        It takes images, (B, channels, H, W) in RGB from 0 to 1, and returns the last layer's output, or a tuple of maps
        if there are several detecting layers. ``net.detector()`` returns detections.

    Raises
    ------
    OpError
        A file cannot be read. A section or an option is not supported or does not fit; the message names the file, the
        line and the section. The weights are of another network; the message names the layer and the counts.
    """
    net_section, *sections = read_cfg(cfg)
    if dialect is None:
        dialect = dialect_of([net_section, *sections])
    DIALECT.parse("darknet.load", dialect)
    if epsilon is None:
        epsilon = EPSILON[dialect]
    letter_box = net_section.flag("letter_box")
    builder = Builder(_empty_net(net_section, cfg), os.path.dirname(os.fspath(cfg)), dialect, epsilon, letter_box)
    for section in sections:
        builder.add(section)
    builder.finish()
    if weights is not None:
        load_weights(builder.net, weights, ctx or mx.current_context(), progress)
    return builder.net


def _empty_net(section: Section, cfg: str | os.PathLike) -> DarknetNet:
    """A net without layers, from the section ``[net]``."""
    shape = tuple(section.integer(key, low=1) for key in ("channels", "height", "width"))
    check_shape(section, "input", shape)
    section.refuse("time_steps", "recurrent networks", neutral=1)
    section.skip(*IGNORED["net"])
    section.close()
    name = os.path.splitext(os.path.basename(os.fspath(cfg)))[0]
    return DarknetNet(shape, prefix=re.sub(r"\W", "_", name) + "_")
