"""Where the weights of a network come from."""
from __future__ import annotations

from typing import Any

from gluonops.core.errors import OpError

__all__ = ["without_pretrained"]


def without_pretrained(where: str, options: dict[str, Any], remedy: str) -> dict[str, Any]:
    """The options of a network without ``pretrained``, which model zoos with weights to download have.

    Parameters
    ----------
    where : str
        The network's function.
    options : dict
    remedy : str
        Where the weights come from.

    Returns
    -------
    dict

    Raises
    ------
    OpError
        ``pretrained`` is true.
    """
    if options.get("pretrained"):
        raise OpError(where, f"pretrained is {options['pretrained']!r}; expected False, because gluonops downloads no "
                      "weights", remedy)
    return {name: value for name, value in options.items() if name != "pretrained"}
