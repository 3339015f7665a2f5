"""How a block is printed."""
from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from mxnet.gluon import Block
from mxnet.initializer import Initializer


class Signature:
    """The signature of a class whose ``__new__`` takes anything.

    ``help`` and the pages show that of its constructor.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None:   # An instance has the signature of its call.
            raise AttributeError("__signature__")
        _, *arguments = inspect.signature(owner.__init__).parameters.values()
        return inspect.Signature(arguments)


class Printed:
    """A block that is printed as the call that made it, such as ``Softmax(axis=1, temperature=1.0)``.

    ``_options`` has the arguments that the constructor has changed, as numbers of another type.
    """

    _options: Mapping[str, Any] = {}
    __signature__ = Signature()

    def __new__(cls, *args: Any, **kwargs: Any):
        block = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind_partial(block, *args, **kwargs)
        bound.apply_defaults()
        block._arguments = {name: value for name, value in bound.arguments.items() if name not in ("self", "kwargs")}
        return block

    def __repr__(self):
        return call_text(self, {name: self._options.get(name, value) for name, value in self._arguments.items()})


def call_text(block: Block | Initializer, arguments: Mapping[str, Any]) -> str:
    """Return the class of a block and the arguments it was made with."""
    values = ", ".join(f"{name}={_text(value)}" for name, value in arguments.items())
    return f"{type(block).__name__}({values})"


def _text(value: object) -> str:
    """Return the text of a value. For an initializer, which MXNet prints as an address, it is the call that made it."""
    return call_text(value, value._kwargs) if isinstance(value, Initializer) else str(value)
