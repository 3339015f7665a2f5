"""The registry of the operators. Each folder of ``gluonops/ops`` contains one operator."""
from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pathlib
import types

from ..runtime.near import perhaps
from .errors import OpError
from .op import Op

_ops = {}


@dataclasses.dataclass(frozen=True)
class RegisteredOp:
    """A registered operator: its contract, its reference and its folder. Without MXNet the reference is None."""
    op: Op
    reference: types.ModuleType | None
    folder: pathlib.Path


def folders(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the operator folders below ``root``, sorted."""
    return sorted(path for path in pathlib.Path(root).iterdir() if path.is_dir() and not path.name.startswith("_"))


def register(folder: pathlib.Path) -> RegisteredOp:
    """Import the contract and the reference of an operator and register it."""
    package = f"gluonops.ops.{folder.name}"
    op = importlib.import_module(f"{package}.contract").OP
    if op.name != folder.name:
        raise OpError(f"ops.{folder.name}", f"the contract is named {op.name!r}; expected {folder.name!r}",
                      "Give the folder and the contract the same name")
    if op.name in _ops:
        raise OpError(f"ops.{folder.name}", "two contracts register this operator; expected one",
                      "Rename one of the two")
    registered = RegisteredOp(op, importlib.import_module(f"{package}.reference"), folder)
    _ops[op.name] = registered
    return registered


def register_contract(folder: pathlib.Path) -> None:
    """Register the contract of an operator alone, in a process without MXNet. Nothing else of the folder is run."""
    name = f"gluonops.ops.{folder.name}.contract"
    spec = importlib.util.spec_from_file_location(name, folder / "contract.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _ops[folder.name] = RegisteredOp(module.OP, None, folder)


def get(name: str) -> RegisteredOp:
    """Return an operator by name. Raise an OpError if there is none, with the name that is most like it."""
    if name not in _ops:
        raise OpError("ops", f"there is no operator {name!r}; there are {', '.join(sorted(_ops))}",
                      perhaps(name, _ops) or "Check the spelling")
    return _ops[name]


def entries() -> dict[str, RegisteredOp]:
    """Return all registered operators by name, sorted."""
    return dict(sorted(_ops.items()))
