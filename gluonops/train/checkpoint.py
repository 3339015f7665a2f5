"""A checkpoint: parameters, the optimizer's state and the state of training, in one file.

All of it is in one file, because renaming a file is atomic. Whenever the process is killed, the folder holds one
checkpoint whose parts belong together. ``mx.nd.save`` writes the file. Everything that is not a tensor is stored as
JSON in a tensor of bytes, so reading a checkpoint runs no code.
"""
from __future__ import annotations

import json
import os
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..contract.errors import OpError, plural
from ..io.params import load_arrays
from .interrupting import CHECKPOINTS
from .parameters import ParameterAverage
from .run_files import save_tensors

__all__ = ["find_checkpoint", "net_tensors", "read_checkpoint", "read_parameters", "restore_checkpoint", "restore_net",
           "save_checkpoint"]

FORMAT = 2
STATE_TENSOR = "standing"   # holds the state of training as JSON
CHECKSUM = "checksum"       # it covers all other tensors
WHERE = "train.checkpoint"


def find_checkpoint(out: str | os.PathLike, resume: str | os.PathLike | None,
                    name: str = "last") -> pathlib.Path | None:
    """The checkpoint that ``--resume`` means.

    Parameters
    ----------
    out : str or os.PathLike
        Folder for the results.
    resume : str or os.PathLike, optional
        The path of a checkpoint. ``auto`` means the last checkpoint in ``out``, if there is one.
    name : {"last", "pretraining"}, default "last"
        Which part of the run is asked for. A file called ``pretraining.checkpoint`` belongs to the pretraining.

    Returns
    -------
    pathlib.Path or None
        The file, or None if there is nothing to resume.
    """
    if resume is None:
        return None
    if resume == "auto":
        path, pretraining = (pathlib.Path(out) / f"{part}.checkpoint" for part in (name, "pretraining"))
        if not path.exists() or (pretraining.exists() and _order(path) < _order(pretraining)):
            return None   # the last one of a run in the same folder whose pretraining is not over
        return path
    is_pretraining = pathlib.Path(resume).name == "pretraining.checkpoint"
    return pathlib.Path(resume) if is_pretraining == (name == "pretraining") else None


def next_order(path: pathlib.Path) -> int:
    """The order number of a checkpoint that a run begins to write now, one above the others in its folder."""
    return 1 + max(_order(path.with_name(name)) for name in CHECKPOINTS if name != path.name)


def _order(path):
    """The order number of a checkpoint. It is 0 if there is no file, or if no run has written it."""
    return read_checkpoint(path)[1].get("order", 0) if path.exists() else 0


def save_checkpoint(path: str | os.PathLike, blocks: Mapping[str, gluon.Block], trainer: gluon.Trainer,
                    train_state: Mapping[str, Any], average: ParameterAverage | None = None) -> None:
    """Write a checkpoint. If it cannot be written, an OpError is raised and the old file is unchanged.

    Parameters
    ----------
    path : str or os.PathLike
        The file. An existing one is replaced when the new one is complete.
    blocks : mapping of str to gluon.Block
        ``net``, and a loss that has parameters; the keys are part of the tensors' names.
    trainer : gluon.Trainer
        Its optimizer's states and counts are saved, unless they live on a parameter server.
    train_state : mapping
        JSON: epoch, batch, options, history, ...
    average : ParameterAverage, optional
        The average of the parameters, if the run has one.
    """
    tensors = {f"param:{name}": parameter._reduce() for name, parameter in _named(blocks).items()}
    names = {parameter.name: name for name, parameter in _named(blocks).items()}
    optimizer, counts = trainer.optimizer, {}
    if not trainer._update_on_kvstore:
        for index, state in trainer._updaters[0].states.items():
            name = names[trainer._params[index].name]
            counts[name] = optimizer._index_update_count[index]
            for i, tensor in enumerate(_tensors(state)):
                tensors[f"state:{name}:{i}"] = tensor.as_in_context(mx.cpu())
    header = {"format": FORMAT, "updates": optimizer.num_update, "counts": counts, **train_state}
    if average is not None:
        header["average_updates"] = average.updates
        for name, value in average.values.items():
            tensors[f"average:net.{name}"] = value.as_in_context(mx.cpu())
    tensors[STATE_TENSOR] = mx.nd.array(np.frombuffer(json.dumps(header).encode(), np.uint8), dtype="uint8")
    tensors[CHECKSUM] = mx.nd.array([_checksum(tensors)], dtype="int64")
    save_tensors(path, lambda name: mx.nd.save(name, tensors), "train.save_checkpoint")


def read_checkpoint(path: str | os.PathLike) -> tuple[dict[str, mx.nd.NDArray], dict[str, Any]]:
    """Read a checkpoint, so that its options can be looked at before a net is built.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    tensors : dict of str to NDArray
        Parameters and the optimizer's states by name.
    train_state : dict
        The state of training, such as epoch, batch, options and history.

    Raises
    ------
    OpError
        The file is not a checkpoint, is damaged, or has a newer format.
    """
    remedy = "Name a file such as out/last.checkpoint; a .params file is what --pretrained takes"
    tensors = load_arrays(WHERE, path, remedy)
    if not {CHECKSUM, STATE_TENSOR} <= tensors.keys():
        raise OpError(WHERE, f"{path} is not a checkpoint of gluonops", remedy)
    if tensors.pop(CHECKSUM).asnumpy().tolist() != [_checksum(tensors)]:
        raise OpError(WHERE, f"{path} is damaged: its values do not fit its checksum",
                      "Copy it again, or continue from another checkpoint")
    train_state = json.loads(tensors.pop(STATE_TENSOR).asnumpy().tobytes())
    if train_state["format"] != FORMAT:
        raise OpError(WHERE, f"{path} has format {train_state['format']}; expected {FORMAT}",
                      "Continue it with the version of gluonops that wrote it")
    return tensors, train_state


def read_parameters(path: str | os.PathLike) -> dict[str, mx.nd.NDArray]:
    """The tensors of a file that ``net.save_parameters`` wrote, by name.

    An OpError is raised if the file cannot be read, or has tensors without names.
    """
    return load_arrays(WHERE, path, "Name a file that net.save_parameters wrote")


def check_train_state(where: str, path: pathlib.Path, train_state: Mapping[str, Any], kinds: Mapping[str, type],
                      options: Mapping[str, Any], data: str) -> None:
    """Raise an OpError if a checkpoint lacks a part of a run's state, or has other options or training images."""
    kinds = {**kinds, "updates": int, "counts": dict, "options": dict}
    missing = [name for name, kind in kinds.items() if not isinstance(train_state.get(name), kind)]
    if missing:
        raise OpError(where, f"{path} does not say where the run stood: it lacks {missing[0]}, or it is damaged",
                      "Resume from another checkpoint, or start from the beginning")
    saved = train_state["options"]
    for key, value in options.items():
        if key in saved and saved[key] != value:   # an older version lacks options, and did without them
            raise OpError(where, f"{key} is {value!r}; the run in {path} was started with {saved[key]!r}",
                          "Resume with the options that it was started with")
    before = train_state.get("data")
    if before not in (None, data):
        raise OpError(where, f"the training images or labels (fingerprint {data}) differ from those of the run in "
                      f"{path} ({before})",
                      f"Put those back, or start again with --pretrained {path} and another --out")


def all_finite(blocks: Mapping[str, gluon.Block]) -> bool:
    """Whether no parameter is NaN or infinite. The last update can make one so, although the loss was finite."""
    arrays = [parameter._reduce() for parameter in _named(blocks).values()]
    arrays = [array for array in arrays if array.dtype == np.float32]
    return bool(mx.nd.multi_all_finite(*arrays, num_arrays=len(arrays)).asscalar())


def restore_checkpoint(tensors: Mapping[str, mx.nd.NDArray], train_state: Mapping[str, Any],
                       blocks: Mapping[str, gluon.Block], trainer: gluon.Trainer,
                       average: ParameterAverage | None = None) -> None:
    """Put the result of :func:`read_checkpoint` into the blocks and the trainer. Their parameters are initialized.

    Parameters
    ----------
    tensors, train_state
        From :func:`read_checkpoint`.
    blocks, trainer, average
        As :func:`save_checkpoint` takes them.

    Raises
    ------
    OpError
        The checkpoint belongs to another net, or has no average.
    """
    parameters_by_name = _named(blocks)
    _check_tensors(tensors, "param:", parameters_by_name)
    for name, parameter in parameters_by_name.items():
        parameter.set_data(tensors[f"param:{name}"])
    if average is not None:
        _check_tensors(tensors, "average:net.", average.values)
        average.updates = train_state["average_updates"]
        for name, value in average.values.items():
            tensors[f"average:net.{name}"].copyto(value)
    _restore_optimizer(tensors, train_state, parameters_by_name, trainer)


def restore_net(tensors: Mapping[str, mx.nd.NDArray], net: gluon.Block, path: str | os.PathLike,
                leave: str | None = None) -> None:
    """Put tensors into an initialized net whose parameters have the same names and shapes.

    An OpError is raised if a tensor is missing or has another shape.

    Parameters
    ----------
    tensors : mapping of str to NDArray
        The tensors by the parameters' indices in the net, as :func:`read_parameters` or :func:`net_tensors` returns
        them.
    net : gluon.Block
        The net, initialized.
    path : str or os.PathLike
        The file, for errors.
    leave : str, optional
        The path of a block that is left as it is.
    """
    for name, parameter in net._collect_params_with_prefix().items():
        if leave is not None and name.startswith(f"{leave}."):
            continue
        value = tensors.get(name)
        if value is None or value.shape != parameter.shape:
            has = "lacks" if value is None else f"has the shape {value.shape} for"
            raise OpError(WHERE, f"{path} {has} {name}; expected the shape {parameter.shape}",
                          "Make the net with the model and the options that the file was made with")
        parameter.set_data(value)


def net_tensors(tensors: Mapping[str, mx.nd.NDArray]) -> dict[str, mx.nd.NDArray]:
    """The net's tensors in a checkpoint, by the parameters' indices in the net. If it has averages, they count."""
    return {**_under("param:net.", tensors), **_under("average:net.", tensors)}


def _under(prefix, tensors):
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {name[len(prefix):]: value for name, value in tensors.items() if name.startswith(prefix)}


def _checksum(tensors):
    """The CRC-32 of names and values."""
    checksum = 0
    for name in sorted(tensors):
        checksum = zlib.crc32(name.encode(), checksum)
        checksum = zlib.crc32(np.ascontiguousarray(tensors[name].asnumpy()), checksum)
    return checksum


def _restore_optimizer(tensors, train_state, parameters_by_name, trainer):
    optimizer = trainer.optimizer
    optimizer.num_update = train_state["updates"]
    indices = {parameter.name: index for index, parameter in enumerate(trainer._params)}
    counts = {indices[parameters_by_name[name].name]: count for name, count in train_state["counts"].items()}
    for device, updater in enumerate(trainer._updaters):
        context = trainer._contexts[device]
        optimizer._set_current_context(context.device_id)
        optimizer._index_update_count.update(counts)
        for name in train_state["counts"]:
            index = indices[parameters_by_name[name].name]
            state = optimizer.create_state_multi_precision(index, trainer._params[index].data(context))
            _fill(state, name, tensors)
            updater.states[index] = state
            updater.states_synced[index] = True
    optimizer._set_current_context(trainer._contexts[0].device_id)


def _check_tensors(tensors, prefix, expected):
    saved, shapes = ({name: value.shape for name, value in part.items()}
                     for part in (_under(prefix, tensors), expected))
    different = sorted(name for name in {*saved, *shapes} if saved.get(name) != shapes.get(name))
    if different:
        raise OpError(WHERE, f"the checkpoint and the net differ in {plural(len(different), 'parameter')}, the first "
                      f"of which is {different[0]}: its shape is {saved.get(different[0])} in the checkpoint, and "
                      f"{shapes.get(different[0])} in the net",
                      "Continue with the options that the run was started with")


def _named(blocks):
    """All parameters by their indices in the net. Unlike Gluon's names, these are the same in every process."""
    return {f"{block}.{name}": parameter for block, net in blocks.items()
            for name, parameter in net._collect_params_with_prefix().items()}


def _tensors(state):
    """The tensors of an optimizer's state, depth first. A state is None, a tensor, or a nested tuple."""
    if isinstance(state, (tuple, list)):
        return [tensor for part in state for tensor in _tensors(part)]
    return [] if state is None else [state]


def _fill(state, name, tensors):
    """Put the saved states of a parameter into the tensors of the optimizer's state."""
    parts = _tensors(state)
    for i, part in enumerate(parts):
        saved = tensors.get(f"state:{name}:{i}")
        if saved is None or saved.shape != part.shape:
            has = "lacks" if saved is None else f"has the shape {saved.shape} for"
            raise OpError(WHERE, f"the checkpoint {has} state:{name}:{i}, a state of the optimizer; expected the shape "
                          f"{part.shape}",
                          "Continue with the options that the run was started with, or from another checkpoint")
        saved.copyto(part)
    if f"state:{name}:{len(parts)}" in tensors:
        raise OpError(WHERE, f"the checkpoint was written with another optimizer, which has more states of {name}",
                      "Continue with the optimizer that the run was started with")
