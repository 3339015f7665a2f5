"""Writes the ONNX file of a net, or of files that were exported before."""
from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from ...io.files import check_writable, replace
from .. import passes
from ..metadata import plain_metadata
from ..model import ExportedModel
from ..sizes import DataShape
from ..warning import ExportWarning, warn_of_losses
from .builder import onnx_type, opset_of, whole
from .conversion import convert
from .qdq import Quantization

if TYPE_CHECKING:
    from onnx import ModelProto

WHERE = "export.onnx"
OPSETS = range(13, 22)
# Numbers of the fields in onnx.proto.
GRAPH = 7         # the field of a ModelProto
INITIALIZER = 5   # the field of a GraphProto
RAW_DATA = 9      # the field of a TensorProto
LENGTH_DELIMITED = 2   # the wire type of messages and bytes
MOST_BYTES = 2**31 - 1   # A protobuf message has no more.


def onnx(net: mx.gluon.Block | str | os.PathLike, path: str | os.PathLike, data_shape: DataShape | None = None,
         dynamic_batch: bool | None = None, dtype: str | None = None, fold_batch_norm: bool = False,
         epoch: int | None = None, metadata: dict[str, Any] | None = None, opset: int | None = None,
         outputs: Iterable[str] = (), inputs: Any = None) -> str:
    """Write an ONNX file.

    The package onnx is needed: run ``pip install 'gluonops[onnx]'``. ``onnx.checker`` checks the model before it
    is written.

    Parameters
    ----------
    net : HybridBlock, Block, str or os.PathLike
        An initialized net, or the path of an exported one without ``-symbol.json``. It may return several outputs.
    path : str or os.PathLike
        The file. Its folder must exist.
    data_shape : tuple of int, or dict of str to tuple of int
        As in :func:`gluonops.export.symbol`. It may be left out for files that gluonops exported, because they store
        it. For files, a single shape is that of the only input, whatever its name is.
    dynamic_batch : bool, optional
        Whether the file takes any batch size. If False, it takes the one in ``data_shape``. By default it takes any
        where the net does, and an ExportWarning says why if the net does not. Other sizes are fixed.
    dtype : str, optional
        Type of the inputs. The default is the type in the files' metadata, or that of the net's parameters.
    fold_batch_norm : bool, default False
        As in :func:`gluonops.export.symbol`. onnxruntime also folds when it loads a file.
    epoch : int, optional
        Number of the parameter file if ``net`` is a path. The default is the highest number.
    metadata : dict, optional
        Further properties to store in the file. It always has the net's ``classes``, ``anchors`` and
        ``preprocessing``, and the shapes of the ``inputs``, as JSON.
    opset : int, optional
        Version of ONNX's operators, 13 to 21. The program that reads the file must know it. The default is 17, or 19
        for a net with deformable convolutions.
    outputs : iterable of str, optional
        Names of nodes at which the net is cut, so that it returns what they compute: the net below a head. Of files,
        what is behind them is not loaded, and may have operators that are not here. ``NAME_output1`` is the second
        output of a node.
    inputs : NDArray, tuple, list or dict, optional
        The arrays that the net is called with, in place of ``data_shape``, as in :func:`gluonops.export.symbol`: for a
        Block that cannot be hybridized. The file takes inputs of the types that these arrays have.

    Returns
    -------
    str
        The path.

    Raises
    ------
    OpError
        Every output is a loss, an operator has no converter, the net does not take any batch size although
        ``dynamic_batch`` is True, or the package onnx is not installed.
    """
    check_onnx(opset)
    metadata = plain_metadata(WHERE, metadata)
    path = os.fspath(path)
    check_writable(WHERE, path)
    if isinstance(net, mx.gluon.loss.Loss):
        raise OpError(WHERE, f"{type(net).__name__} is a loss; expected a net that predicts",
                      "Export the net without its loss")
    model = passes.inference(ExportedModel.of(WHERE, net, data_shape, epoch, dtype, outputs, True, inputs))
    model.check_shapes(WHERE)
    warn_of_losses(model.notes)
    if fold_batch_norm:
        model = passes.fold_batch_norm(model)
    model.metadata = {**model.metadata, **metadata, "dtype": model.metadata["dtype"]}
    opset = opset_of(model.graph, opset)
    model = passes.lower(passes.describe(model), "builtin", keep=whole(opset))
    save(path, _content(model, dynamic_batch, opset, metadata))
    return path


def _content(model: ExportedModel, dynamic_batch: bool | None, opset: int, metadata: dict[str, Any]) -> Iterator:
    """The parts of the file, for any batch size where nothing else is asked for and the net takes it."""
    if dynamic_batch is None and model.graph.has_fixed_batch():
        dynamic_batch = False   # A warning has said it.
    if dynamic_batch is not None:
        return serialized(model, dynamic_batch, opset, metadata)
    try:
        return serialized(model, True, opset, metadata)
    except OpError as error:
        reason = error.what
    parts = serialized(model, False, opset, metadata)
    batch = next(iter(model.inputs.values()))[0]
    warnings.warn(f"the file takes a batch of {batch} only: {reason}", ExportWarning, stacklevel=3)
    return parts


def serialized(model: ExportedModel, dynamic_batch: bool, opset: int, metadata: dict[str, Any],
               quantization: Quantization | None = None) -> Iterator[bytes | memoryview]:
    """The content of an ONNX file, in parts. The arguments are those of :func:`.convert.convert`.

    The shapes of the inputs are stored as well. An OpError is raised if ``onnx.checker`` refuses the model.
    """
    inputs = {name: list(shape) for name, shape in model.inputs.items()}
    proto, arrays = convert(model, dynamic_batch, opset, {**model.metadata, "inputs": inputs, **metadata}, quantization)
    _check_model(proto, arrays)
    return content(proto, arrays)


def content(model: ModelProto, arrays: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The parts of the file: of a model, and of the initializers that it lacks, by name.

    The large arrays are written from where they are: protobuf would copy each twice. An OpError is raised if the file
    would be larger than a protobuf message can be.
    """
    from onnx import ModelProto, TensorProto

    graph = model.graph.SerializeToString()
    initializers = []   # what stands in front of the bytes of each
    for name, array in arrays.items():
        tensor = TensorProto(name=name, dims=array.shape, data_type=onnx_type(array.dtype)).SerializeToString()
        tensor += _field(RAW_DATA, array.nbytes)
        initializers.append(_field(INITIALIZER, len(tensor) + array.nbytes) + tensor)
    length = len(graph) + sum(map(len, initializers)) + sum(array.nbytes for array in arrays.values())
    rest = ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("graph")
    head = rest.SerializeToString() + _field(GRAPH, length) + graph
    size = len(head) + length - len(graph)
    if size > MOST_BYTES:
        raise OpError(WHERE, f"the file would have {size} bytes; expected at most {MOST_BYTES}, which is "
                      "protobuf's limit", "Export float16, or an 8-bit net")
    yield head
    for opening, array in zip(initializers, arrays.values()):
        yield opening
        yield np.ascontiguousarray(array).data


def _field(number: int, length: int) -> bytes:
    """The tag of a field of bytes, and their number."""
    return _varint(number << 3 | LENGTH_DELIMITED) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits in each byte, the lowest first; the highest bit says that another byte follows."""
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def save(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file whole, or raise an OpError and leave what was there."""
    def write(temporary: str) -> None:
        with open(temporary, "wb") as file:
            file.writelines(parts)

    replace(WHERE, {path: write})


def check_onnx(opset: int | None) -> None:
    """Raise an OpError if onnx is not installed, or does not know an opset."""
    try:
        import onnx
    except ImportError as error:
        raise OpError(WHERE, "the package onnx is not installed", "Run: pip install 'gluonops[onnx]'") from error
    if opset is None:
        return
    if type(opset) is not int or opset not in OPSETS:
        raise OpError(WHERE, f"opset is {opset!r}; expected {OPSETS[0]} to {OPSETS[-1]}",
                      "Choose the newest that the program which reads the file knows")
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise OpError(WHERE, f"opset is {opset}; the package onnx that is installed knows up to {newest}",
                      "Run: pip install --upgrade onnx; or choose another opset")


def _check_model(model: ModelProto, arrays: dict[str, np.ndarray]) -> None:
    """Raise an OpError if onnx.checker or its shape inference refuses the model, to which arrays are inputs."""
    from onnx import ModelProto, checker, helper
    checked = ModelProto()
    checked.CopyFrom(model)
    for name, array in arrays.items():
        checked.graph.input.append(helper.make_tensor_value_info(name, onnx_type(array.dtype), array.shape))
    try:
        checker.check_model(checked, full_check=True)
    except Exception as error:   # onnx raises several classes
        # The names of ONNX's nodes begin with those of MXNet's.
        lacking = re.search(r"op_type:(\w+), node name: (.*)/.*has unsupported type: tensor\((\w+)\)", str(error))
        if lacking is None:
            raise OpError(WHERE, f"the model does not pass onnx.checker: {error}", "Report it with the net") from error
        op, node, kind = lacking.groups()
        raise OpError(WHERE, f"the node {node!r} computes {op} of {kind}, which ONNX does not have",
                      "Cast its inputs to float32 in the net") from error

