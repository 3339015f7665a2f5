"""The Python instance of a graph's node.

A graph holds strings only. A node stores a token, the class's name and the constructor's arguments. If the instance no
longer exists, or the graph is loaded in another process, the instance is created again from these. That is not possible
for a copied instance, whose state does not come from the constructor. Only nodes keep their instances alive.
"""
from __future__ import annotations

import ast
import contextlib
import uuid
import weakref

from ..contract.errors import OpError

_alive = weakref.WeakValueDictionary()     # instances by token
_classes = weakref.WeakValueDictionary()   # classes by full name, the newest if one is defined twice


def register_class(cls: type) -> None:
    """Register a class of operators by its full name."""
    _classes[_full_name(cls)] = cls


def register(instance: object, args: tuple, kwargs: dict) -> None:
    """Give a new instance its token. ``args`` and ``kwargs`` are the arguments of its constructor."""
    _set_token(instance, uuid.uuid4().hex)
    instance._stored_arguments, arguments = None, (args, kwargs)
    with contextlib.suppress(ValueError, SyntaxError):
        if ast.literal_eval(repr(arguments)) == arguments:
            instance._stored_arguments = repr(arguments)


def strings(instance: object) -> dict[str, str]:
    """Return the attributes of an instance's node, by which :func:`find` finds the instance."""
    if _alive.get(instance._token) is not instance:   # a copy, which has the original's token
        _set_token(instance, uuid.uuid4().hex)
        instance._stored_arguments = None
    arguments = {} if instance._stored_arguments is None else {"given": instance._stored_arguments}
    return {"instance": instance._token, "operator": _full_name(type(instance)), **arguments}


def find(operator: str, instance: str, given: str | None = None) -> object:
    """Return the instance with these attributes. It is created again if it no longer exists.

    Raise an OpError if its class is not defined here, or its constructor's arguments cannot be stored in a graph.
    """
    existing = _alive.get(instance)
    if existing is None:
        cls = _class(operator)
        if given is None:
            raise OpError(f"legacy.{cls.__name__}", "a node of a loaded graph needs an instance that does not exist in "
                          "this process and cannot be made again, because it was a copy, or its constructor took other "
                          "arguments than numbers and strings",
                          "Build the graph again, and load the parameters only")
        args, kwargs = ast.literal_eval(given)
        existing = cls(*args, **kwargs)
        _set_token(existing, instance)
    return existing


def _set_token(instance: object, token: str) -> None:
    instance._token = token
    _alive[token] = instance


def _class(operator: str) -> type:
    """Return the class with this full name, or else the only one with its last part.

    The modules may differ, because the classes of a script are in ``__main__``.
    """
    last = operator.rpartition(".")[2]
    if operator in _classes:
        return _classes[operator]
    candidates = [cls for cls in _classes.values() if cls.__name__ == last]
    if len(candidates) != 1:
        reason = f"there are {len(candidates)} classes {last} here" if candidates else "there is no such class here"
        raise OpError(f"legacy.{last}", f"a node of a loaded graph is an instance of {operator}; {reason}",
                      "Import the module that defines it before you load the graph")
    return candidates[0]


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
