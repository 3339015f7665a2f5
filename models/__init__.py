"""Whole networks, each with its layers visible, to train as they are or to copy from.

``gluonops.models.get_model(name, **kw)`` makes one by name; ``help(gluonops.models.lenet_reorg)`` is a network's page.
"""
from gluonops.core.errors import OpError

from .lenet_reorg import LeNetReorg, lenet_reorg
from .mlp import MLP, mlp

__all__ = ["LeNetReorg", "MLP", "get_model", "lenet_reorg", "mlp"]

_MODELS = {"lenet_reorg": lenet_reorg, "mlp": mlp}


def get_model(name, **kwargs):
    """Make a network by name.

    Parameters
    ----------
    name : {'lenet_reorg', 'mlp'}
        The network's function in this package.
    **kwargs
        That function's arguments.

    Returns
    -------
    HybridBlock
        Not initialized.

    Raises
    ------
    OpError
        There is no network of that name.
    """
    if name not in _MODELS:
        raise OpError("models.get_model", f"name is {name!r}; expected {' or '.join(map(repr, _MODELS))}",
                      "Choose one of them")
    return _MODELS[name](**kwargs)
