"""The bytes of an ONNX file. The large arrays are written from where they are: protobuf would copy each twice."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import OpError

if TYPE_CHECKING:
    import onnx

# Numbers of the fields in onnx.proto.
GRAPH = 7         # of a ModelProto
INITIALIZER = 5   # of a GraphProto
RAW_DATA = 9      # of a TensorProto
LENGTH_DELIMITED = 2   # the wire type of messages and bytes
MOST_BYTES = 2**31 - 1   # of a protobuf message


def content(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The parts of the file, one after the other.

    - ``model``: without these initializers.
    - ``arrays``: initializers by name.

    An OpError if the file would be larger than a protobuf message can be.
    """
    from onnx import ModelProto
    graph = model.graph.SerializeToString()
    initializers = [_opening(name, array) for name, array in arrays.items()]
    length = len(graph) + sum(map(len, initializers)) + sum(array.nbytes for array in arrays.values())
    rest = ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("graph")
    head = rest.SerializeToString() + _field(GRAPH, length) + graph
    size = len(head) + length - len(graph)
    if size > MOST_BYTES:
        raise OpError("export.onnx", f"the file would have {size} bytes; expected at most {MOST_BYTES}, which is "
                      "protobuf's limit", "Export float16, or an 8-bit net")
    yield head
    for opening, array in zip(initializers, arrays.values()):
        yield opening
        yield np.ascontiguousarray(array).data


def _opening(name: str, array: np.ndarray) -> bytes:
    """What stands in front of the bytes of an initializer."""
    tensor = declared(name, array).SerializeToString() + _field(RAW_DATA, array.nbytes)
    return _field(INITIALIZER, len(tensor) + array.nbytes) + tensor


def declared(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A tensor without its values."""
    from onnx import TensorProto
    return TensorProto(name=name, dims=array.shape, data_type=onnx_type(array.dtype))


def onnx_type(dtype: Any) -> int:
    """ONNX's number of a NumPy type."""
    from onnx import helper
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


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
