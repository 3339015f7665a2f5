"""Darknet's ``.weights`` files, read and written bit for bit.

All numbers are little endian. The header is three int32, major, minor and revision, and the number of images seen in
training, which has 8 bytes if major*10 + minor is at least 2, else 4 bytes. Then the numbers of each layer with weights
follow, in float32 and in the layers' order:

- A convolution has its biases, with batch norm also scales, means and variances, and then weights of shape (channels,
  in_channels / groups, size, size). A convolution that shares the weights of another has no numbers of its own.
- A connected layer has its biases, weights of shape (outputs, inputs), and with batch norm also scales, means and
  variances. In files with major or minor above 1000, the weights are (inputs, outputs).
- A local layer has its biases, (channels, positions), and weights of shape (positions, channels, in_channels * size *
  size).
- A shortcut with weights has these weights, (layers, channels or 1).

Nothing marks where a layer ends, so only the length of a file can be checked.

Source: ``src/parser.c``.
"""
from __future__ import annotations

import collections
import math
import os
import struct
from collections.abc import Callable
from typing import BinaryIO

import mxnet as mx
import numpy as np
from mxnet.gluon.parameter import Constant

from ..backends import numpy_mode
from ..contract.errors import OpError, plural
from ..io.files import check_downloaded, opened, replace
from .blocks import Weighted

FLOAT = np.dtype("<f4")


class Header(collections.namedtuple("Header", "major minor revision seen")):
    """The header of a weights file."""

    __slots__ = ()

    @property
    def layout(self) -> str:
        """The format of ``seen`` for ``struct``."""
        eight_bytes = self.major * 10 + self.minor >= 2 and self.major < 1000 and self.minor < 1000
        return "<Q" if eight_bytes else "<i"

    @property
    def transposed(self) -> bool:
        """Whether the matrices of connected layers are transposed."""
        return self.major > 1000 or self.minor > 1000


NEW = Header(0, 2, 0, 0)   # a net that was not loaded from a file has it


def load_weights(net: mx.gluon.HybridBlock, path: str | os.PathLike, ctx: mx.Context | None = None,
                 progress: Callable | None = None, layers: int | None = None) -> Header:
    """Load a Darknet weights file into a net's convolutions.

    The file must fit exactly. To start from the first layers of another network (``darknet19_448.conv.23``), pass
    ``layers``, or the block that consists of them: ``load_weights(net.backbone, path)``.

    Parameters
    ----------
    net : HybridBlock
        Initialized or not. All its parameters are in ``gluonops.darknet.Convolution`` blocks of known input channels,
        as in the nets of ``gluonops.darknet.load`` and the Darknet networks in ``gluonops.models``.
    path : str or os.PathLike
        The file.
    ctx : Context, optional
        Context of the parameters that are not initialized. The default is the current context.
    progress : callable, optional
        Wraps the sequence of layers, as ``tqdm.tqdm`` does.
    layers : int, optional
        Load only the first ``layers`` children of the net, such as the layers of a net of ``gluonops.darknet.load``.
        The net has to be initialized. The file may go on with other layers.

    Returns
    -------
    Header
        The file's version and the number of images seen. It is also ``net.darknet_header``, for ``save_weights``.

    Raises
    ------
    OpError
        The file cannot be read, is too short or has bytes left over: the message has the layer's name and the counts.
        Or the net has parameters outside of its ``Convolution`` blocks. In all these cases the net is unchanged.
    """
    where = "darknet.load_weights"
    blocks = _weighted(where, net, layers)
    with opened(where, path, "Pass the path of a weights file", "the weights") as file:
        check_downloaded(where, path)
        header = _read_header(file, path)
        _check_length(blocks, file.tell(), os.path.getsize(path), path, layers is not None)
        if layers is None:
            for parameter in net.collect_params().values():
                if parameter._data is None:   # the file overwrites the zeros
                    initial = parameter.init if isinstance(parameter, Constant) else mx.init.Zero()
                    parameter.initialize(initial, ctx=ctx)
        for block in (progress or iter)(blocks):
            for parameter in block.file_parameters():
                transposed = header.transposed and parameter is block.matrix()
                shape = parameter.shape[::-1] if transposed else parameter.shape
                values = np.fromfile(file, FLOAT, math.prod(shape)).reshape(shape)
                parameter.set_data(numpy_mode.array(values.T if transposed else values, "float32"))
    net.darknet_header = header
    return header


def save_weights(net: mx.gluon.HybridBlock, path: str | os.PathLike, seen: int | None = None) -> None:
    """Write a net's convolutions as a Darknet weights file.

    If the net was only loaded and not trained, the written file is the loaded one, byte for byte. The file is written
    under a temporary name and renamed when it is complete.

    Parameters
    ----------
    net : HybridBlock
        As for ``load_weights``, and initialized.
    path : str or os.PathLike
        The file.
    seen : int, optional
        Number of images seen in training. The default is the number in the loaded file, or 0.

    Raises
    ------
    OpError
        The net is not initialized or has parameters outside of its ``Convolution`` blocks, ``seen`` does not fit the
        header, or the file cannot be written.
    """
    where = "darknet.save_weights"
    blocks = _weighted(where, net)
    header = getattr(net, "darknet_header", NEW)
    if seen is not None:
        header = header._replace(seen=seen)
    packed_header = _pack_header(where, header)
    for block in blocks:
        if any(parameter._data is None for parameter in block.file_parameters()):
            raise OpError(where, f"{block.name} is not initialized",
                          "Call net.initialize() and run the net once, or load weights")

    def write(temporary: str) -> None:
        with open(temporary, "wb") as file:
            file.write(packed_header)
            for block in blocks:
                for parameter in block.file_parameters():
                    # Inference that is still running may store a weight in oneDNN's order. asnumpy() would read what is
                    # half stored; a copy waits.
                    value = parameter.data(parameter.list_ctx()[0]).copyto(mx.cpu()).asnumpy()
                    if header.transposed and parameter is block.matrix():
                        value = value.T
                    value.astype(FLOAT, copy=False).tofile(file)

    replace(where, {os.fspath(path): write})


def _weighted(where: str, net: mx.gluon.Block, layers: int | None = None) -> list[Weighted]:
    """The layers of a net that have weights, in order. An OpError is raised if the net has parameters elsewhere.

    If ``layers`` is given, only the first ``layers`` children of the net count.
    """
    if not isinstance(net, mx.gluon.Block):
        raise OpError(where, f"net is {type(net).__name__}; expected a HybridBlock", "Pass a net")
    if layers is not None and not 1 <= layers <= len(net._children):
        raise OpError(where, f"layers is {layers}; expected 1 to {len(net._children)}, the layers of the net",
                      f"Pass a number of layers from 1 to {len(net._children)}")
    parts = [net] if layers is None else list(net._children.values())[:layers]
    every, blocks, held = [], [], set()
    for part in parts:
        part.apply(every.append)
    for block in every:
        names = {parameter.name for parameter in block.file_parameters()} if isinstance(block, Weighted) else set()
        if names - held:   # otherwise it shares the weights of an earlier one
            blocks.append(block)
            held |= names
    other = [name for part in parts for name, parameter in part.collect_params().items()
             if name not in held and not isinstance(parameter, Constant)]
    if other or not blocks:
        what = f"the parameter {other[0]}" if other else "no convolution"
        raise OpError(where, f"{type(net).__name__} has {what}; a Darknet file holds the parameters of "
                      "gluonops.darknet.Convolution blocks only", "Use net.save_parameters and net.load_parameters")
    return blocks


def _pack_header(where: str, header: Header) -> bytes:
    try:
        return struct.pack("<iii", *header[:3]) + struct.pack(header.layout, header.seen)
    except struct.error:
        raise OpError(where, f"seen is {header.seen!r}; expected an integer from 0 that fits "
                      f"{struct.calcsize(header.layout)} bytes",
                      "Pass the number of images that the net has been trained on") from None


def _read_header(file: BinaryIO, path: str | os.PathLike) -> Header:
    start = file.read(12)
    if len(start) == 12:
        header = Header(*struct.unpack("<iii", start), 0)
        rest = file.read(struct.calcsize(header.layout))
        if len(rest) == struct.calcsize(header.layout):
            return header._replace(seen=struct.unpack(header.layout, rest)[0])
    raise OpError("darknet.load_weights", f"{os.path.basename(os.fspath(path))} has {os.path.getsize(path)} bytes; "
                  "expected a header of 16 or 20 bytes", "Download or copy the file again")


def _check_length(blocks: list[Weighted], start: int, size: int, path: str | os.PathLike, goes_on: bool) -> None:
    """Raise an OpError if a file ends within a layer, or has bytes behind the last layer.

    If ``goes_on`` is true, bytes behind the last layer are allowed.
    """
    file = os.path.basename(os.fspath(path))
    end = start
    for block in blocks:
        shapes = [parameter.shape for parameter in block.file_parameters()]
        if not all(shape and min(shape) > 0 for shape in shapes):
            raise OpError("darknet.load_weights", f"the input channels of {block.name} are not known yet",
                          "Make the layer with in_channels, or run the net once")
        begin = end
        end += FLOAT.itemsize * sum(map(math.prod, shapes))
        if end > size:
            raise OpError("darknet.load_weights",
                          f"{file} is too short: {block.name} takes bytes {begin} to {end}, and the file has {size}",
                          "Download or copy the whole file again, or pass the weights of this network")
    if end < size and not goes_on:
        raise OpError("darknet.load_weights", f"{file} has {plural(size - end, 'byte')} too many: the last layer, "
                      f"{block.name}, ends at byte {end} of {size}", "Pass the weights of this network")
