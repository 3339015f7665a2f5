"""An ONNX file as a function of NDArrays, run by onnxruntime on the CPU."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from ...io.files import check_downloaded

if TYPE_CHECKING:
    import onnxruntime

DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64"}


class OnnxNet:
    """Call it with a batch: NDArray to a list of NDArrays.

    - ``metadata``: what the file says of the net.
    - ``shape``: shape of the input. A batch size that is not fixed counts as 1.
    - ``dtype``: dtype of the input.
    - ``outputs``: their number.

    Raises OpError: onnxruntime is not installed, or cannot read the file; or the file has several inputs.
    """

    def __init__(self, path: str, where: str):
        self._session = session(path, where)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in DTYPES:
            described = ", ".join(f"{one.name} ({one.type})" for one in inputs)
            raise OpError(where, f"{path} has the inputs {described}; expected one input of floats, the images",
                          "Export a net that takes only images")
        batch, *sides = inputs[0].shape
        if not all(isinstance(side, int) for side in sides):
            raise OpError(where, f"{path} takes data of shape {tuple(inputs[0].shape)}; expected fixed sizes, except "
                          "for the batch", "Export the net with gluonops.export.onnx")
        self._name = inputs[0].name
        self._batch = batch if isinstance(batch, int) else None   # None: any
        self.shape = (self._batch or 1, *sides)
        self.dtype = DTYPES[inputs[0].type]
        self.outputs = len(self._session.get_outputs())
        try:
            properties = self._session.get_modelmeta().custom_metadata_map
        except UnicodeDecodeError as error:
            raise OpError(where, f"{path} has metadata that is not text ({error})", "Export the net again") from error
        self.metadata = {name: _value(text) for name, text in properties.items()}

    def __call__(self, data: mx.nd.NDArray) -> list[mx.nd.NDArray]:
        """The outputs for a batch of any size. Batches for a file with a fixed size are filled up with zeros."""
        images = data.asnumpy()
        step = self._batch or len(images)
        results = []
        for start in range(0, len(images), step):
            part = images[start:start + step]
            missing = np.zeros((step - len(part), *part.shape[1:]), part.dtype)
            outputs = self._session.run(None, {self._name: np.concatenate([part, missing])})
            results.append([output[:len(part)] for output in outputs])
        return [mx.nd.array(np.concatenate(parts)) for parts in zip(*results)]


def session(path: str | bytes, where: str) -> onnxruntime.InferenceSession:
    """A file, or the content of one, in onnxruntime.

    An OpError is raised if that is not installed or cannot read it.
    """
    name = path if isinstance(path, str) else "the model"
    if path is name and not os.path.isfile(path):
        raise OpError(where, f"there is no file {path}", "Pass the path of an exported net")
    try:
        import onnxruntime
    except ImportError as error:
        raise OpError(where, "the package onnxruntime, which runs .onnx files, is not installed",
                      "Run: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3   # errors only
    try:
        # It would try again, and print that, for errors of some classes.
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:   # onnxruntime raises several classes
        if path is name:
            check_downloaded(where, path)
        reason, *_ = str(error).splitlines() or [type(error).__name__]   # some have no message
        raise OpError(where, f"onnxruntime cannot read {name}: {reason}", "Export the net again") from error


def _value(text: str) -> Any:
    """Strings are stored as they are, and all else as JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
