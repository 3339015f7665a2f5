"""A checkpoint: parameters, the optimizer's state and the state of training, in one file. Copy it with the scripts.

One file, because a rename is atomic: whenever the process is killed, the folder holds one checkpoint whose parts belong
together. It is written by ``mx.nd.save``; everything that is no tensor is JSON in a tensor of bytes.
"""
import json

import gluonops as gops
import mxnet as mx
import numpy as np
from _common import write_params

FORMAT = 1
STATE_TENSOR = "standing"   # holds the state of training as JSON; the name belongs to format 1


def save(path, blocks, trainer, train_state):
    """Write ``path``.

    Parameters
    ----------
    path : pathlib.Path
        The file. An existing one is replaced when the new one is complete.
    blocks : dict of str to gluon.Block
        The net, and a loss that has parameters; names the tensors.
    trainer : gluon.Trainer
        Its optimizer's states and counts are saved, unless they live on a parameter server.
    train_state : dict
        JSON: epoch, batch, seed, seen, history, ...
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
    tensors[STATE_TENSOR] = mx.nd.array(np.frombuffer(json.dumps(header).encode(), np.uint8), dtype="uint8")
    write_params(path, lambda name: mx.nd.save(name, tensors))


def read(path):
    """(tensors, train_state) of a checkpoint, so that its options can be looked at before a net is built."""
    try:
        tensors = mx.nd.load(str(path))
        train_state = json.loads(tensors.pop(STATE_TENSOR).asnumpy().tobytes().decode())
        version = train_state["format"]
    except (mx.MXNetError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise gops.OpError("checkpoint", f"{path} is no checkpoint of these scripts",
                           "Name one that --resume can continue, such as out/last.checkpoint; a .params file is what "
                           "--pretrained takes") from error
    if version != FORMAT:
        raise gops.OpError("checkpoint", f"{path} has format {version}; expected {FORMAT}",
                           "Continue it with the version of the scripts that wrote it")
    return tensors, train_state


def parameters(path):
    """The tensors, by name, of a file that net.save_parameters wrote."""
    try:
        tensors = mx.nd.load(str(path))
    except (mx.MXNetError, OSError) as error:
        raise gops.OpError("checkpoint", f"{path} cannot be read as parameters of a net",
                           "Name a file that net.save_parameters wrote") from error
    if not isinstance(tensors, dict):
        raise gops.OpError("checkpoint", f"{path} has tensors without names; expected a net's parameters",
                           "Name a file that net.save_parameters wrote")
    return tensors


def restore(tensors, train_state, blocks, trainer):
    """Put the tensors of :func:`read` into the blocks and the trainer, whose parameters are initialized."""
    parameters_by_name = _named(blocks)
    saved = {name[len("param:"):] for name in tensors if name.startswith("param:")}
    if saved != set(parameters_by_name):
        different = sorted(saved ^ set(parameters_by_name))
        raise gops.OpError("checkpoint", f"the checkpoint and the net differ in {len(different)} parameters, first "
                           f"{different[0]}", "Continue with the options the run was started with")
    for name, parameter in parameters_by_name.items():
        parameter.set_data(tensors[f"param:{name}"])
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
            template = optimizer.create_state_multi_precision(index, trainer._params[index].data(context))
            updater.states[index] = _filled(template, iter(range(1 << 30)), tensors, f"state:{name}", context)
            updater.states_synced[index] = True
    optimizer._set_current_context(trainer._contexts[0].device_id)


def restore_net(tensors, net, path):
    """Put the net's parameters alone into a net of the same shapes."""
    for name, parameter in net._collect_params_with_prefix().items():
        value = tensors.get(f"param:net.{name}")
        if value is None or value.shape != parameter.shape:
            has = "lacks" if value is None else f"has the shape {value.shape} for"
            raise gops.OpError("checkpoint", f"{path} {has} {name}; expected {parameter.shape}",
                               "Choose the --model and options it was made with")
        parameter.set_data(value)


def _named(blocks):
    """Every parameter by a name that is the same in every process: its place in the net."""
    return {f"{block}.{name}": parameter for block, net in blocks.items()
            for name, parameter in net._collect_params_with_prefix().items()}


def _tensors(state):
    """The tensors of an optimizer's state (None, a tensor, or a nested tuple), depth first."""
    if isinstance(state, (tuple, list)):
        return [tensor for part in state for tensor in _tensors(part)]
    return [] if state is None else [state]


def _filled(template, numbers, tensors, name, context):
    """The template with its tensors replaced by the saved ones."""
    if isinstance(template, (tuple, list)):
        return type(template)(_filled(part, numbers, tensors, name, context) for part in template)
    return None if template is None else tensors[f"{name}:{next(numbers)}"].copyto(context)
