"""What MXNet 1.9.1 says of its operators: names, inputs, and attributes with types and defaults. Needs no MXNet.

``schema.json`` has a line for each operator, which ``python -m gluonops.export.operators.generate`` writes from
MXNet's registry. Operators of gluonops are described by their contracts, under the name ``gluonops_gelu``.
"""
from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from typing import Any

from ...contract import registry
from ...contract.op import PREFIX

PATH = pathlib.Path(__file__).with_name("schema.json")
# Nodes that the passes of a backend make, and the operators of MXNet whose inputs and attributes they have.
ALIKE = {"darknet_batch_norm": "BatchNorm"}


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute of an operator.

    - ``type``: ``int``, ``count`` (an int from 0), ``float`` (which MXNet holds in float32), ``double``, ``bool``,
      ``string``, ``choice``, ``shape`` (a tuple of ints, of which some may be None), ``shapes`` (a tuple of those),
      ``floats`` or ``doubles`` (tuples).
    - ``default``: its value where a node does not have it; None for a required attribute, too.
    - ``choices``: the words that a ``choice`` may be.
    - ``none``: whether it may be None.
    """
    type: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    none: bool = False


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of MXNet.

    - ``inputs``: the names of its inputs, parameters and states included. Some attributes leave out the last ones.
    - ``variadic``: whether the only name is that of any number of inputs.
    - ``open``: whether MXNet lets a node have attributes that it does not read.
    - ``outputs``: how many outputs a node without attributes has; 1 where attributes decide it.
    """
    name: str
    inputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    aliases: tuple[str, ...] = ()
    variadic: bool = False
    open: bool = False
    outputs: int = 1


def find(name: str) -> Operator | None:
    """The operator of MXNet, or of gluonops as ``gluonops_<name>``, that has this name or alias; None if none has."""
    if name.startswith(PREFIX):
        return _of_contract(name)
    own = own_name(ALIKE.get(name, name))
    return _read(own) if own in _content() else None


def own_name(name: str) -> str:
    """MXNet's own name of an operator, of which ``name`` may be an alias; ``name`` itself if it has no such operator.

    ``elemwise_add`` for ``_Plus``.
    """
    return _owners().get(name, name)


@functools.cache
def names() -> frozenset[str]:
    """The names of all operators of MXNet, aliases included."""
    return frozenset(_content()) | frozenset(_owners())


@functools.cache
def _content() -> dict[str, dict[str, Any]]:
    return json.loads(PATH.read_text(encoding="ascii"))


@functools.cache
def _owners() -> dict[str, str]:
    """Alias -> MXNet's own name."""
    return {alias: name for name, operator in _content().items() for alias in operator.get("aliases", ())}


@functools.cache
def _read(name: str) -> Operator:
    content = dict(_content()[name])
    attributes = {key: Attribute(**{word: _frozen(value) for word, value in attribute.items()})
                  for key, attribute in content.pop("attributes", {}).items()}
    return Operator(name, attributes=attributes, **{word: _frozen(value) for word, value in content.items()})


def _frozen(value: Any) -> Any:
    """A value of JSON with tuples in place of lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _of_contract(name: str) -> Operator | None:
    """An operator of gluonops, whose contract parses its attributes: their type here is ``contract``."""
    if name[len(PREFIX):] not in registry.entries():
        return None
    op = registry.get(name[len(PREFIX):]).op
    attributes = {attr.name: Attribute("contract", attr.default) for attr in op.attrs}
    return Operator(name, tuple(tensor.name for tensor in op.inputs), attributes, outputs=len(op.outputs))
