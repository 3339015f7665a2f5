"""Writes ``schema.json`` from the registry of the installed MXNet: ``python -m gluonops.export.operators.generate``.

MXNet describes an attribute in words, such as ``float, optional, default=9.99999975e-05``. The schema has it as JSON,
with the default as an engineer writes it: the shortest number that MXNet's type holds as the same one.
"""
from __future__ import annotations

import ast
import ctypes
import json
import re
from typing import Any

import mxnet as mx
import numpy as np

from ...contract.op import PREFIX
from .admission import REFUSED
from .schema import PATH

# What MXNet calls a type -> its name in the schema.
KINDS = {"int": "int", "int (non-negative)": "count", "long": "int", "long (non-negative)": "count", "float": "float",
         "real_t": "float", "double": "double", "boolean": "bool", "string": "string", "Shape(tuple)": "shape",
         "Shape": "shape", "tuple of <Shape(tuple)>": "shapes", "tuple of <double>": "doubles",
         "tuple of <float>": "floats", "tuple of <long>": "shape", "ptr": "string", "": "string"}
INPUT = re.compile(r"NDArray|Symbol")
# What MXNet's registry says otherwise, or not at all, of operators that read these attributes.
CORRECTED = {
    "_npi_concatenate": {"num_args": {"type": "int", "required": True},
                         "axis": {"type": "int", "none": True, "default": 0}},
    "_npi_norm": {"ord": {"type": "double", "default": 2.0}, "axis": {"type": "shape", "none": True, "default": None},
                  "flag": {"type": "int", "default": -1}, "keepdims": {"type": "bool", "default": False}},
    "smooth_l1": {"scalar": {"type": "double", "default": 1.0}},
}
UNKNOWN = "gluonops_unknown"   # no operator has an attribute of this name
NO_SUCH_ATTRIBUTE = "Cannot find argument"


def described() -> dict[str, dict[str, Any]]:
    """The schema: operator -> what :mod:`gluonops.export.operators.schema` says."""
    operators = {}
    for alias in sorted(_names()):
        handle = mx.base.OpHandle()
        mx.base.check_call(mx.base._LIB.NNGetOpHandle(alias.encode(), ctypes.byref(handle)))
        name, arguments = _information(handle)
        if name not in operators:
            operators[name] = _operator(name, handle, arguments)
        if alias != name:
            operators[name].setdefault("aliases", []).append(alias)
    return dict(sorted(operators.items()))


def text() -> str:
    """The content of ``schema.json``: a line for each operator."""
    lines = [f"{json.dumps(name)}: {json.dumps(operator)}" for name, operator in described().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _names() -> list[str]:
    """The names of all operators of MXNet's, aliases included, without gradients and libraries that are loaded."""
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    every = [names[place].decode() for place in range(count.value)]
    return [name for name in every if PREFIX not in name and "backward" not in name]


def _information(handle: ctypes.c_void_p) -> tuple[str, dict[str, str]]:
    """MXNet's own name of an operator, and its arguments: inputs and attributes, with their types in words."""
    name, text, key, returned = (ctypes.c_char_p() for _ in range(4))
    count = ctypes.c_uint()
    names, types, descriptions = (ctypes.POINTER(ctypes.c_char_p)() for _ in range(3))
    mx.base.check_call(mx.base._LIB.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, (
        name, text, count, names, types, descriptions, key, returned))))
    return name.value.decode(), {names[i].decode(): types[i].decode() for i in range(count.value)}


def _operator(name: str, handle: ctypes.c_void_p, arguments: dict[str, str]) -> dict[str, Any]:
    """What the schema says of an operator, without its aliases."""
    inputs = [name for name, words in arguments.items() if INPUT.match(words)]
    attributes = CORRECTED.get(name) or {key: _attribute(words) for key, words in arguments.items()
                                         if key not in inputs}
    operator = {"inputs": inputs}
    if any("[]" in arguments[name] for name in inputs):
        operator["variadic"] = True
    if attributes:
        operator["attributes"] = attributes
    if not REFUSED.fullmatch(name):
        if NO_SUCH_ATTRIBUTE not in _refusal(handle, {UNKNOWN: "1"}):
            operator["open"] = True
        outputs = _outputs(handle)
        if outputs not in (None, 1):
            operator["outputs"] = outputs
    return operator


def _attribute(words: str) -> dict[str, Any]:
    """What the schema says of an attribute, from MXNet's words for it."""
    choices = re.match(r"\{(.*?)\}", words)
    kind = "choice" if choices else re.split(", ?(?:required|optional)", words)[0].strip()
    attribute = {"type": kind}
    if choices:
        values = [ast.literal_eval(value) for value in choices[1].split(", ")]
        attribute["choices"] = [value for value in values if value not in (None, "None")]
        if len(attribute["choices"]) < len(values):
            attribute["none"] = True
    else:
        attribute["type"] = KINDS[kind.replace(" or None", "")]
        if kind.endswith(" or None"):
            attribute["none"] = True
    default = re.search("default=(.*)$", words)
    if default:
        attribute["default"] = _default(attribute["type"], default[1].strip("'") if kind != "string" else default[1])
    elif "required" in words:
        attribute["required"] = True
    return attribute


def _default(kind: str, text: str) -> Any:
    """A default as JSON has it."""
    if kind == "string":
        return text.strip("'")
    if text == "None":
        return None
    if kind == "bool":
        return text == "1"
    if kind == "choice":
        return text
    if kind in ("float", "double"):
        return float(str(np.float32(text))) if kind == "float" else float(text)
    if kind == "floats":
        return [float(str(np.float32(number))) for number in ast.literal_eval(text)]
    return ast.literal_eval(text)


def _refusal(handle: ctypes.c_void_p, attrs: dict[str, str]) -> str:
    """Why MXNet does not make a node of these attributes; empty if it makes one."""
    made = mx.base.SymbolHandle()
    keys, values = mx.base.c_str_array(list(attrs)), mx.base.c_str_array(list(attrs.values()))
    try:
        mx.base.check_call(mx.base._LIB.MXSymbolCreateAtomicSymbol(
            handle, ctypes.c_uint(len(attrs)), keys, values, ctypes.byref(made)))
    except mx.MXNetError as error:
        return str(error)
    mx.base.check_call(mx.base._LIB.MXSymbolFree(made))
    return ""


def _outputs(handle: ctypes.c_void_p) -> int | None:
    """How many outputs a node without attributes has; None if it needs some."""
    made, count = mx.base.SymbolHandle(), ctypes.c_uint()
    try:
        mx.base.check_call(mx.base._LIB.MXSymbolCreateAtomicSymbol(
            handle, ctypes.c_uint(0), mx.base.c_str_array([]), mx.base.c_str_array([]), ctypes.byref(made)))
    except mx.MXNetError:
        return None
    mx.base.check_call(mx.base._LIB.MXSymbolGetNumOutputs(made, ctypes.byref(count)))
    mx.base.check_call(mx.base._LIB.MXSymbolFree(made))
    return count.value


if __name__ == "__main__":
    PATH.write_text(text(), encoding="ascii")
    print(f"{PATH} describes {len(described())} operators")
