"""The net of MXNet that a port was written from, kept in its folder so that trained weights can come home.

``origin-symbol.json`` is the graph. Its metadata say how the port was written, and the type and the shape of each
parameter. ``origin.safetensors`` has the parameters that the port does not have, if there are any. The others are the
port's weights. Writing needs no MXNet.
"""
from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...contract.errors import OpError, naming
from ...io import params
from ...io.files import read_lines
from ..canonical import canonicalize_graph
from ..graph import Graph
from ..metadata import read_metadata, with_origin
from ..model import WRITTEN_ON_SAVE, ExportedModel
from ..sizes import Shapes, known_shapes
from .prepare import Packed, packed_parts

SYMBOL, REST, NAMES = "origin-symbol.json", "origin.safetensors", "names.json"
KEY = "port"   # the entry of the metadata
AGAIN = ("Export the net to this folder again, with gluonops export IN --torch FOLDER: the names of the weights stay "
         "the same")
Arrays = dict[str, np.ndarray]


class Origin(NamedTuple):
    """What a folder says of the net that its port was written from.

    - ``model``: without parameters. ``training``: whether the port has the losses.
    - ``types``: name of a parameter in MXNet -> its type. ``shapes``: name -> its shape.
    - ``rest``: the parameters that the port does not have.
    - ``keys``: name in torch -> name in MXNet, which may be that of a part of a parameter, or of a constant.
    """
    model: ExportedModel
    training: bool
    types: dict[str, str]
    shapes: Shapes
    rest: Arrays
    keys: dict[str, str]

    def parts(self) -> dict[str, Packed]:
        """Return the parts of the vectors of recurrent layers. See :func:`.prepare.packed_parts`."""
        return _parts(self.model.graph, {**self.shapes, **self.model.inputs}, self.shapes)

    def weights(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the weights that come home: name in torch -> their type and shape. Constants do not."""
        parts = self.parts()
        described = {}
        for key, name in self.keys.items():
            if name in self.shapes:
                described[key] = self.types[name], self.shapes[name]
            elif name in parts:
                described[key] = self.types[parts[name].vector], parts[name].shape
        return described

    def parameters(self, weights: Mapping[str, np.ndarray]) -> Arrays:
        """Return the parameters of the net, from weights by their names in torch."""
        arrays, parts = dict(self.rest), self.parts()
        for key, value in weights.items():
            name = self.keys[key]
            if name in parts:
                vector, begin, shape = parts[name]
                packed = arrays.setdefault(vector, np.zeros(self.shapes[vector], self.types[vector]))
                packed[begin:begin + math.prod(shape)] = value.reshape(-1)
            else:
                arrays[name] = value
        return arrays


def save(folder: pathlib.Path, model: ExportedModel, training: bool, keys: Mapping[str, str]) -> list[pathlib.Path]:
    """Write the files of a model, whose port has these ``keys``, to a folder. Returns the paths."""
    from safetensors.numpy import save as serialize
    graph = model.graph.copy()
    variables = set(graph.variables())
    arrays = {name: params.as_numpy(value) for name, value in model.parameters.items() if name in variables}
    parameters = {name: [value.dtype.name, list(value.shape)] for name, value in arrays.items()}
    metadata = {**model.metadata, "inputs": {name: list(shape) for name, shape in model.inputs.items()},
                KEY: {"training": training, "parameters": parameters}}
    graph.attrs["gluonops"] = with_origin(graph, metadata)
    (folder / SYMBOL).write_text(graph.text(), encoding="utf-8")
    parts = _parts(graph, model.shapes(), arrays)
    ported = {name for key in keys.values() for name in (key, parts[key].vector if key in parts else key)}
    rest = {name: np.asarray(value, order="C") for name, value in arrays.items() if name not in ported}
    if not rest:
        return [folder / SYMBOL]
    (folder / REST).write_bytes(serialize(rest))
    return [folder / SYMBOL, folder / REST]


def read(where: str, folder: pathlib.Path) -> Origin:
    """Read the files in a folder. An OpError is raised if one is missing or damaged."""
    if not (folder / NAMES).is_file():
        raise OpError(where, f"there is no file {folder / NAMES}; expected a folder that gluonops export --torch, or "
                      "gluonops.export.torch, has written", "Pass that folder")
    if not (folder / SYMBOL).is_file():
        raise OpError(where, f"there is no file {folder / SYMBOL}, which has the net of MXNet: an older gluonops wrote "
                      f"{folder}", AGAIN)
    graph = Graph.read(where, folder / SYMBOL)
    with naming(folder / SYMBOL):
        canonicalize_graph(graph)
    stored = read_metadata(graph)
    try:
        noted = stored.pop(KEY)
        training = bool(noted["training"])
        types = {name: np.dtype(dtype).name for name, (dtype, _) in noted["parameters"].items()}
        shapes = {name: tuple(map(int, shape)) for name, (_, shape) in noted["parameters"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OpError(where, f"{folder / SYMBOL} is damaged: it does not say what parameters the net has",
                      AGAIN) from error
    keys, rest = _names(where, folder / NAMES), _rest(where, folder / REST)
    inputs = {name: tuple(shape) for name, shape in stored.get("inputs", {}).items()}
    metadata = {name: value for name, value in stored.items() if name not in WRITTEN_ON_SAVE}
    missing = sorted(shapes.keys() - rest.keys() - _homes(graph, {**shapes, **inputs}, shapes, keys))
    if missing:
        raise OpError(where, f"{folder} has no value for the parameter {missing[0]}: {REST} or {NAMES} is another "
                      "net's", AGAIN)
    return Origin(ExportedModel(graph, {}, inputs, metadata), training, types, shapes, rest, keys)


def _parts(graph: Graph, input_shapes: Shapes, parameters: Mapping) -> dict[str, Packed]:
    if not any(node.op == "RNN" for node in graph.nodes()):
        return {}
    return packed_parts(graph, known_shapes(graph, input_shapes), parameters)


def _homes(graph: Graph, input_shapes: Shapes, shapes: Shapes, keys: Mapping[str, str]) -> set[str]:
    """Return the names of the parameters that a port's weights fill."""
    parts = _parts(graph, input_shapes, shapes)
    return {parts[name].vector if name in parts else name for name in keys.values()}


def _names(where: str, path: pathlib.Path) -> dict[str, str]:
    try:
        keys = json.loads("\n".join(read_lines(where, path, AGAIN)))
    except ValueError as error:
        raise OpError(where, f"{path} is not JSON: {error}", AGAIN) from error
    is_sound = isinstance(keys, dict) and all(isinstance(name, str) for name in keys.values())
    if not is_sound:
        raise OpError(where, f"{path} is damaged; expected a name in MXNet for each weight", AGAIN)
    return keys


def _rest(where: str, path: pathlib.Path) -> Arrays:
    from safetensors.numpy import load
    if not path.is_file():
        return {}
    try:
        return load(path.read_bytes())
    except Exception as error:   # safetensors raises several classes
        raise OpError(where, f"{path} cannot be read: {error}", AGAIN) from error
