"""The operators, one folder each. Every function takes NDArrays or Symbols, and returns the same kind.

``gluonops.ops.list()`` returns their names. ``help(gluonops.ops.reorg)`` describes an operator.
"""
import builtins as _builtins
import importlib as _importlib
import pathlib as _pathlib

from ..contract import registry as _registry
from ..runtime import importing as _importing

__all__ = ["list"]

_folders = _registry.folders(_pathlib.Path(__file__).parent)
if _importing.is_imported():
    from ..backends import block as _block
    from ..backends import custom as _custom
else:   # gluonops.export reads graphs with these operators
    for _folder in _folders:
        _registry.register_contract(_folder)
    __getattr__ = _importing.refuser(__name__, [_folder.name for _folder in _folders])
    _folders = []

for _folder in _folders:
    _registered = _registry.register(_folder)
    _custom.register(_registered)
    # The function replaces its module: gluonops.ops.reorg(data) instead of gluonops.ops.reorg.reorg(data).
    globals()[_folder.name] = getattr(_importlib.import_module(f"{__name__}.{_folder.name}"), _folder.name)
    _block.complete(globals()[_folder.name], _registered.op)
    __all__.append(_folder.name)


def list() -> _builtins.list[str]:   # pylint: disable=redefined-builtin
    """Return the names of the operators, sorted."""
    return sorted(_registry.entries())
