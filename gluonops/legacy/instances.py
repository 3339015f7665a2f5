"""Which Python object a node of a graph stands for.

A graph holds strings. A node names its instance by a token, the class, and what the constructor was given: where the
instance is no longer there, or in another process, that is enough to make it again; but for a copy, whose state is not
the constructor's. A node keeps its instance alive, and nothing else here does.
"""
import ast
import uuid
import weakref

from ..core.errors import OpError

_alive = weakref.WeakValueDictionary()     # token -> instance
_classes = weakref.WeakValueDictionary()   # full name -> class; defined again, the newer one


def know(cls):
    """Remember a class of operators."""
    _classes[_full_name(cls)] = cls


def enter(instance, args, kwargs):
    """Give a new instance its token; ``args`` and ``kwargs`` are what its constructor gets."""
    _call(instance, uuid.uuid4().hex)
    instance._given = repr((args, kwargs))
    if not _is_literal(instance._given, (args, kwargs)):
        instance._given = None


def strings(instance):
    """The attributes by which a node finds it again."""
    if _alive.get(instance._token) is not instance:   # a copy: the token came with the state
        _call(instance, uuid.uuid4().hex)
        instance._given = None
    given = {} if instance._given is None else {"given": instance._given}
    return {"instance": instance._token, "operator": _full_name(type(instance)), **given}


def find(operator, instance, given=None):
    """The instance of these attributes; made anew where it is not alive.

    Raises
    ------
    OpError
        Its class is not defined here, or its constructor was given what a graph cannot hold.
    """
    found = _alive.get(instance)
    if found is None:
        cls = _class(operator)
        if given is None:
            raise OpError(f"legacy.{cls.__name__}", "a node of a loaded graph needs an instance that is not here: it "
                          "is a copy, or its constructor was given more than numbers and strings",
                          "Build the graph anew, and load the parameters only")
        args, kwargs = ast.literal_eval(given)
        found = cls(*args, **kwargs)
        _call(found, instance)
    return found


def _call(instance, token):
    instance._token = token
    _alive[token] = instance


def _class(operator):
    """The class of that full name; else the only one of that name: a script's classes are in ``__main__``."""
    last = operator.rpartition(".")[2]
    found = [_classes[operator]] if operator in _classes else [c for c in _classes.values() if c.__name__ == last]
    if len(found) != 1:
        raise OpError(f"legacy.{last}", f"a node of a loaded graph is an instance of {operator}; "
                      + (f"there are {len(found)} classes {last} here" if found else "there is no such class here"),
                      "Import the module that defines it before you load the graph")
    return found[0]


def _full_name(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_literal(text, value):
    try:
        return ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        return False
