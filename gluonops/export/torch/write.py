"""Writes a net as PyTorch source with its weights, after a comparison with MXNet."""
from __future__ import annotations

import contextlib
import copy
import functools
import importlib.util
import json
import keyword
import os
import pathlib
import re
import tempfile
import warnings
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...contract.errors import OpError
from ...io import params
from ...io.files import check_name, check_writable, made_folder, replace
from ...runtime import importing
from ...version import __version__
from ..graph import Graph, Node
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.forms import Form
from ..operators.node_attributes import attributes_of
from ..operators.normalization import COUNTER
from ..sizes import DataShape, Shapes, Sizes, known_shapes
from ..training_parts import example_shape
from ..warning import ExportWarning
from . import fixed, loss_functions, origin  # noqa: F401  (each but origin fills the table)
from .build import Builder
from .classes import classes_of
from .converters import WHERE, TorchCall, refusal, snippets
from .free_axes import compared_inputs, free_axes
from .image_functions import image_functions
from .prepare import join, prepared, with_constants
from .repeats import group_repeats
from .scopes import Recorder, tree_of
from .source import net_source, parameter_groups
from .statements import IMPORTED

if importing.is_imported() or TYPE_CHECKING:
    import mxnet as mx

    from ..recording import calls
if TYPE_CHECKING:
    from ..compare import Difference
    from .step import Port

__all__ = ["torch"]

# Tests with recorded numbers of MXNet's, and without.
RECORDED, ALONE = (pathlib.Path(__file__).with_name(name) for name in ("test_net.txt", "test_alone.txt"))


def torch(net: mx.gluon.Block | str | os.PathLike, folder: str | os.PathLike,
          data_shape: DataShape | None = None, epoch: int | None = None, training: bool = False,
          force: bool = False, outputs: Iterable[str] = (), inputs: Any = None) -> list[str]:
    """Write a net as PyTorch: source that can be read, weights, and a test.

    ``net.py`` has ``class Net(nn.Module)`` and ``load()``, and needs torch only. ``net.safetensors`` has the weights,
    ``names.json`` the name in MXNet of each of them, and ``test_net.py`` compares the net with recorded outputs and
    gradients of MXNet's. ``origin-symbol.json`` is the graph in MXNet: with it :func:`gluonops.export.from_port` brings
    the weights home after a training in PyTorch. If the net has the attributes ``classes`` and ``preprocessing``, or
    the file has them, ``net.py`` has ``preprocess``, and ``detect`` or ``classify``.

    Where torch is installed, the net is compared with MXNet in float32 before a file is written: outputs in evaluation
    and training mode, and in training mode the gradient of each parameter and the states after a step. Numbers may
    differ as in :func:`gluonops.export.compare`. Where gradients need more memory than there is, or MXNet fails to run
    the net, a warning says what was not compared. Where MXNet is not installed, files are written without it, and the
    test runs the net only.

    ``load(dtype)`` of the written net gives all its inputs and parameters one type. A cast to the type that they have
    in MXNet is one to that type; a cast to another one, such as float16 in a net of float32, stays what it is.

    Parameters
    ----------
    net : HybridBlock, Block, str or os.PathLike
        An initialized net, or the path of an exported one without ``-symbol.json``.
    folder : str or os.PathLike
        Where the files are written. It is made if it does not exist.
    data_shape : tuple of int, or dict of str to tuple of int
        As in :func:`gluonops.export.onnx`. The net takes other batches, and other images wherever the graph does.
    epoch : int, optional
        Number of the parameter file if ``net`` is a path. The default is the highest number.
    training : bool, default False
        Keep losses and labels: the written net takes the labels as well, and returns the losses. If False, they are
        removed, as by :func:`gluonops.export.onnx`. ``net`` may be a block that has nothing but a loss.
    force : bool, default False
        Write the files although the comparison shows a difference, with an ExportWarning.
    outputs : iterable of str, optional
        As in :func:`gluonops.export.onnx`.
    inputs : NDArray, tuple, list or dict, optional
        As in :func:`gluonops.export.symbol`: for a Block that cannot be hybridized.

    Returns
    -------
    list of str
        The paths.

    Raises
    ------
    OpError
        An operator has no converter, every output is a loss and ``training`` is False, the package safetensors is not
        installed, or the comparison shows a difference; the message names it.
    """
    paths, _ = port(net, folder, data_shape, epoch, training, force, outputs, inputs)
    return paths


def port(net: mx.gluon.HybridBlock | str | os.PathLike, folder: str | os.PathLike, data_shape: DataShape | None,
         epoch: int | None, training: bool, force: bool,
         outputs: Iterable[str] = (), inputs: Any = None) -> tuple[list[str], list[Difference]]:
    """Do what :func:`torch` does, and return the paths and what the comparison shows."""
    if not _is_installed("safetensors"):
        raise OpError(WHERE, "the package safetensors is not installed", "Run: pip install 'gluonops[torch]'")
    check_name(WHERE, folder)
    folder = os.path.abspath(folder)
    with made_folder(WHERE, os.path.join(folder, "net.py")):
        converted = Converted(net, data_shape, epoch, training, outputs, inputs)
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".torch-") as temporary:
                written, differences = _write(pathlib.Path(temporary), converted, force)
                made = {os.path.join(folder, path.name): functools.partial(os.replace, path) for path in written}
                check_writable(WHERE, *made)
                replace(WHERE, made)
        except OSError as error:
            raise OpError(WHERE, f"cannot write in the folder {folder}: {error.strerror}",
                          "Choose another folder") from error
    return list(made), differences


class Converted:
    """A net as PyTorch.

    - ``user``: the model as it was read, with all labels if it is for training; ``model``: with operators that have a
      converter only.
    - ``source``: of net.py. ``keys``: name in torch -> name in MXNet.
    - ``inputs``: the shapes of its arguments with which it is compared.
    - ``computed``: the names of the nodes that it computes.
    - ``multipliers``: of the rate and the decay of each parameter that is trained.
    """

    def __init__(self, net: mx.gluon.HybridBlock | str | os.PathLike, data_shape: DataShape | None, epoch: int | None,
                 training: bool, outputs: Iterable[str] = (), inputs: Any = None):
        self.net, self.training = net, training
        self.user, self.recorder = _read(net, data_shape, epoch, outputs, inputs)
        if training:
            self.user.inputs.update(_label_shapes(self.user))
        self.own = self.user.types()
        self.model = with_constants(prepared(fixed.with_one_input(self.user), training))
        self._convert(self.model.copy())

    def _convert(self, drawn: ExportedModel) -> None:
        """Write the source of a model, in which nodes are joined."""
        forms, self.inputs = _forms(drawn, self.own)
        parameters = {name: tuple(value.shape) for name, value in drawn.parameters.items()}
        self.computed = {node.name for node in forms}
        tree = tree_of(drawn.graph, self.recorder, set(parameters), forms)
        group_repeats(tree, drawn.graph, set(parameters))
        frozen, self.multipliers = _training(self.net, drawn.graph, parameters)
        of_layers = {node.source(index).name for node, form in forms.items() for index in form.state.values()}
        block = Builder(drawn.graph, forms, parameters, frozen - of_layers, list(self.model.inputs)).net(tree)
        classes = classes_of(block)
        self.keys = dict(block.variables())
        grouped = self.multipliers.keys() | frozen & of_layers
        groups = parameter_groups({key: self.multipliers.get(name) for key, name in self.keys.items()
                                   if name in grouped})
        inputs = _arguments(self.model.inputs) if len(self.model.inputs) > 1 else ["x"]
        functions = [*groups, *([] if self.training else image_functions(self.model))]
        self.source = net_source(block, classes, inputs, _docstring(self.net, self.model), functions)

    def save(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write the source and the weights to a folder. Returns the paths."""
        from safetensors.numpy import save
        (folder / "net.py").write_text(self.source, encoding="utf-8")
        (folder / "net.safetensors").write_bytes(save(values_of(self.model, self.keys)))
        (folder / "names.json").write_text(json.dumps(self.keys, indent=2) + "\n", encoding="utf-8")
        return [folder / name for name in ("net.py", "net.safetensors", "names.json")]

    def port(self, keys: dict[str, str]) -> Port:
        """Return what is compared of a written net, whose weights have the names ``keys``."""
        from .step import Port
        return Port(self.user, self.training, list(self.model.inputs), keys, self.multipliers.keys(), self.inputs,
                    self.computed, self.save_inside)

    def save_inside(self, folder: pathlib.Path, names: list[str]) -> None:
        """Write a net like this one, which returns the first outputs of some nodes, to a folder."""
        other = copy.copy(self)
        other.recorder = None   # It knows the nodes of one graph.
        other.model = self.model.copy()
        nodes = {node.name: node for node in other.model.graph.nodes() if not node.is_variable}
        other.model.graph.outputs = [(nodes[name], 0) for name in names]
        used = set(other.model.graph.variables())
        other.model.parameters = {name: value for name, value in self.model.parameters.items() if name in used}
        other._convert(other.model.copy())
        other.save(folder)


def _write(folder: pathlib.Path, converted: Converted, force: bool) -> tuple[list[pathlib.Path], list[Difference]]:
    """Write the files, and compare them with MXNet where torch is installed. Returns their paths, and what differs."""
    from safetensors.numpy import save
    paths, differences, recorded = converted.save(folder), [], {}
    paths += origin.save(folder, converted.user, converted.training, converted.keys)
    missing = [name for name, is_there in (("MXNet", importing.is_imported()), ("torch", _is_installed("torch")))
               if not is_there]
    if missing:
        warnings.warn(f"net.py is not compared with MXNet, because {' and '.join(missing)} "
                      f"{'is' if len(missing) == 1 else 'are'} not installed", ExportWarning,
                      stacklevel=4)
    else:
        from .verify import compare
        recorded, differences = compare(converted.port(converted.keys), folder, force)
    if recorded:
        (folder / "test_net.safetensors").write_bytes(save(recorded))
        paths.append(folder / "test_net.safetensors")
        test = RECORDED.read_text(encoding="utf-8")
    else:
        model = converted.model
        shape = Sizes(model.graph, converted.inputs, model.parameters, model.metadata["dtype"], False, WHERE).shape
        outputs = [shape[output] for output in model.graph.outputs]
        if missing == ["MXNet"]:
            from .verify import check_shapes
            check_shapes(folder, converted.inputs, outputs)
        test = _test_alone(model, converted.inputs, outputs)
    (folder / "test_net.py").write_text(test, encoding="utf-8")
    return [*paths, folder / "test_net.py"], differences


def _test_alone(model: ExportedModel, inputs: Shapes, outputs: list[tuple[int, ...]]) -> str:
    """Return a test that the net computes and trains, without numbers of MXNet's. Indices and labels are zeros."""
    whole = {node.source().name for node in model.graph.nodes() if node.op == "Embedding"} | model.labels()
    lines = [f"    ({shape}, torch.{'zeros' if name in whole else 'rand'}),"
             for name, shape in inputs.items()]
    text = ALONE.read_text(encoding="utf-8")
    return text.replace("INPUTS = []", "\n".join(["INPUTS = [", *lines, "]"])).replace(
        "OUTPUTS = []", "\n".join(["OUTPUTS = [", *(f"    {shape}," for shape in outputs), "]"]))


def values_of(model: ExportedModel, keys: dict[str, str]) -> dict[str, np.ndarray]:
    """Return the parameters and states by their names in torch, with 1 for the gammas that MXNet does not read.

    Whole numbers are floats, as in constants.
    """
    fixed = _fixed_gammas(model.graph)
    values = {key: params.as_numpy(model.parameters[name]) for key, name in keys.items()}
    return {key: np.ones_like(value) if keys[key] in fixed else
            np.asarray(value, np.float32 if value.dtype.kind in "iu" else None, order="C")
            for key, value in values.items()}


def _fixed_gammas(graph: Graph) -> set[str]:
    return {node.source(1).name for node in graph.nodes()
            if traits_of(node).uses_statistics and attributes_of(node)["fix_gamma"]}


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _read(net: mx.gluon.HybridBlock | str | os.PathLike, data_shape: DataShape | None, epoch: int | None,
          outputs: Iterable[str], inputs: Any) -> tuple[ExportedModel, Recorder | None]:
    """Return the model of a net or of files, and which block each node of a net belongs to."""
    is_block = not isinstance(net, (str, os.PathLike))
    if is_block and not importing.is_imported():
        raise OpError(WHERE, f"net is {net!r}; expected the path of an exported net, because MXNet is not installed",
                      "Pass the path without -symbol.json")
    collecting = contextlib.nullcontext() if not is_block else Recorder() if inputs is None else calls()
    with collecting as recorder:
        model = ExportedModel.of(WHERE, net, data_shape, epoch, outputs=outputs, converts=True, inputs=inputs)
    if is_block and inputs is not None:
        recorder = Recorder.of_run(recorder)
    return model, recorder


def _label_shapes(model: ExportedModel) -> Shapes:
    """Return the shapes of the labels, which follow from those of the other inputs, or raise an OpError."""
    shapes = {node.name: shape for (node, _), shape in known_shapes(model.graph, model.shapes()).items()}
    label_names = model.labels()
    names = [name for name in model.graph.variables() if name in label_names]
    for name in names:
        if name not in shapes:
            example = example_shape(model.graph, name, next(iter(model.inputs.values()), (1,))[0])
            sizes = ",".join(map(str, example))
            raise OpError(WHERE, f"the shape of the label {name} does not follow from those of the inputs",
                          f"Name it in data_shape, such as {{'{name}': {example}}}, or --data-shape {name}={sizes}")
    return {name: shapes[name] for name in names}


def _forms(model: ExportedModel, own: Collection[str]) -> tuple[dict[Node, Form], Shapes]:
    """Return what each node is in torch, and the shapes of the inputs with which it is compared.

    Nodes that torch computes as one are joined in place. ``own`` are the types of the net's inputs
    and parameters.
    """
    graph, values = model.graph, model.parameters
    sizes = Sizes(graph, model.inputs, values, model.metadata["dtype"], False, WHERE)
    free, compared = free_axes(model, sizes), compared_inputs(model, sizes)
    join(graph, sizes, values, own)
    forms = {}
    for node in graph.nodes():
        if not node.is_variable:
            form = TorchCall(node, sizes, free, own).form()
            is_stored = all(node.source(position).name in values for position in form.state.values())
            if not is_stored and form.text is None:
                raise refusal(node, "computes a parameter; expected a parameter that is stored in the file")
            forms[node] = form if is_stored else Form(form.text)
    return forms, compared


def _training(net: object, graph: Graph, parameters: Shapes) -> tuple[set[str], dict[str, tuple[float, float]]]:
    """Return the parameters that are not trained, and the multipliers of rate and decay of each other one."""
    first = {COUNTER: 1}   # A batch norm's states begin at its input 3.
    states = {source.name for node in graph.nodes() if traits_of(node).uses_statistics or node.op == COUNTER
              for source, _ in node.inputs[first.get(node.op, 3):]}
    if not isinstance(net, (str, os.PathLike)):
        multipliers = {name: (parameter.lr_mult, parameter.wd_mult) for name, parameter in net.collect_params().items()
                       if parameter.grad_req != "null"}
    else:
        multipliers = {node.name: (node.attrs.get("__lr_mult__", 1), node.attrs.get("__wd_mult__", 1))
                       for node in graph.nodes() if node.is_variable
                       and not node.attrs.get("__init__", "").lower().lstrip('["').startswith("constant_")}   # Gluon's
    trained = parameters.keys() - states - _fixed_gammas(graph)
    used = {name: tuple(map(float, multipliers[name])) for name in trained & multipliers.keys()}
    return trained - multipliers.keys(), used


def _arguments(names: Iterable[str]) -> list[str]:
    """Return the names of inputs as those of arguments, which all differ."""
    arguments = []
    for name in names:
        argument = re.sub(r"\W", "_", name)
        if not argument.isidentifier() or keyword.iskeyword(argument) or argument in (*IMPORTED, *snippets(), "self"):
            argument = f"x_{argument}"
        while argument in arguments:
            argument += "_"
        arguments.append(argument)
    return arguments


def _docstring(net: object, model: ExportedModel) -> str:
    origin = f"the files {os.path.basename(os.fspath(net))}" if isinstance(net, (str, os.PathLike)) else \
        type(net).__name__
    inputs = "".join(f"    {name} {shape}\n" for name, shape in model.inputs.items())
    return f"Written by gluonops {__version__} from {origin} of MXNet, for inputs like these:\n\n{inputs}"


