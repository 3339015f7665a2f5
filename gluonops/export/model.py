"""ExportedModel: a graph with its parameters, its inputs and the metadata that programs need to run it."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract.errors import OpError
from ..io import params
from ..runtime import importing
from .cut import OF_WHOLE_NET, HeadError, cut, remaining
from .graph import FLOATS_NEEDED, OF_8_BITS, Graph, kind
from .legacy_names import write_legacy_names
from .locate import check_epoch, located, paths_of
from .metadata import read_metadata, with_origin
from .operators.eight_bits import is_of_8_bits
from .sizes import Arrays, DataShape, Shapes, refused, type_mismatch, type_name
from .symbol_files import load, misfit, shapes_of_inputs, write
from .training_parts import independent_part, labels

if importing.is_imported():
    import mxnet as mx

    from .recording import record
    from .trace import trace
elif TYPE_CHECKING:
    import mxnet as mx

WRITTEN_ON_SAVE = ("inputs", "parameters", "version", "needs")   # these metadata are made when a file is saved


@dataclasses.dataclass
class ExportedModel:
    """A net between Gluon and a file. The passes of an export make other models of it.

    Attributes
    ----------
    graph : Graph
        Canonical if it comes from a net or a file; see :func:`gluonops.export.passes.canonicalize`.
    parameters : dict of str to NDArray
        Parameters and auxiliary states, by the names of their variables.
    inputs : dict of str to tuple of int
        The known shapes of the inputs. In a model from a net all of them are known.
    metadata : dict
        Values that JSON can store, for the programs that run the net: ``dtype`` of the inputs, ``classes``,
        ``anchors``, ``preprocessing``, ``training``, ``task``, ``output``, and ``threshold``, ``nms`` and ``topk`` of a
        detector.
    notes : list of str
        What a pass has removed, in words. They are not saved.
    epoch : int
        The number of the parameter file that was read.
    """

    graph: Graph
    parameters: Arrays
    inputs: Shapes = dataclasses.field(default_factory=dict)
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    epoch: int = 0

    @classmethod
    def from_net(cls, net: mx.gluon.Block, data_shape: DataShape | None = None, dtype: str | None = None,
                 head: str | None = None, where: str = "export", inputs: Any = None,
                 numpy: bool = False) -> ExportedModel:
        """Trace a net, or record runs of it.

        Parameters
        ----------
        net, data_shape, dtype, head, inputs, numpy
            As in :func:`gluonops.export.symbol`. The net is not changed, except that parameters of unknown shape are
            initialized.
        where : str, default 'export'
            The caller, for errors.

        Raises
        ------
        OpError
            The net is not a HybridBlock or not initialized, refuses ``data_shape``, or ``head`` does not fit it. With
            ``inputs``: what :func:`.recording.record` raises.
        """
        if inputs is None:
            return cls(*trace(where, net, data_shape, dtype, head, numpy))
        if data_shape is not None or head is not None:
            other = "head" if data_shape is None else "data_shape"
            raise OpError(where, f"inputs and {other} were both passed; expected one of them", f"Leave {other} out")
        model = cls(*record(where, net, inputs, dtype))
        if not numpy:
            model.write_legacy_names()
        return model

    @classmethod
    def from_files(cls, prefix: str | os.PathLike, epoch: int | None = None, where: str = "export",
                   outputs: Iterable[str] = ()) -> ExportedModel:
        """Read ``prefix-symbol.json`` and ``prefix-NNNN.params``.

        Parameters
        ----------
        prefix : str or os.PathLike
            Or the name of one of the two files, or a folder or an archive (``.tar.gz``, ``.zip``) with one net.
            Classes, shapes and hyperparameters that a hosted service has put beside the net become metadata.
        epoch : int, optional
            Number of the parameter file. The default is the highest number.
        where : str, default 'export'
            The caller, for errors.
        outputs : iterable of str, optional
            Names of nodes. The graph is cut at them before MXNet sees it, so that it may have operators behind them
            that are not here. ``NAME_output1`` is the second output of a node.

        Raises
        ------
        OpError
            A file is missing or damaged, the parameters do not fit the graph, there is no node of an output's name, or
            this gluonops lacks an operator; then the message names the nodes below it.
        """
        with located(where, prefix) as files:
            graph, parameters, epoch = load(where, files.prefix, files.epoch if epoch is None else epoch, outputs)
        stored = {**files.facts, **read_metadata(graph)}
        if outputs:
            stored = _without_outputs(stored)
        variables = set(graph.variables())
        inputs = {name: tuple(shape) for name, shape in stored.get("inputs", {}).items() if name in variables}
        metadata = {name: value for name, value in stored.items() if name not in WRITTEN_ON_SAVE}
        for dtype in (np.float16, np.float64):   # other people's files do not say it
            if any(value.dtype == dtype for value in parameters.values()):
                metadata.setdefault("dtype", dtype.__name__)
        return cls(graph, parameters, inputs, metadata, epoch=epoch)

    @classmethod
    def of(cls, where: str, net: mx.gluon.HybridBlock | str | os.PathLike, data_shape: DataShape | None = None,
           epoch: int | None = None, dtype: str | None = None, outputs: Iterable[str] = (),
           converts: bool = False, inputs: Any = None) -> ExportedModel:
        """The model of a net or of files, with the shapes of all inputs and their ``dtype``.

        Parameters
        ----------
        where : str
            The caller, for errors.
        net, data_shape, epoch, dtype, outputs, inputs
            As in :func:`gluonops.export.onnx`.
        converts : bool, default False
            Whether the caller needs a converter for each operator, so that a user's own CustomOp is an error.
        """
        if isinstance(net, (str, os.PathLike)):
            if inputs is not None:
                raise OpError(where, "inputs was passed for exported files; expected a net in Python, because it has "
                              "to be run",
                              "Pass data_shape in place of inputs")
            model = cls.from_files(net, epoch, where, outputs)
            if converts:
                model.check_convertible(where)
            model.inputs = shapes_of_inputs(where, model.graph, model.parameters, model.inputs, data_shape)
            model.metadata["dtype"] = type_name(where, dtype or model.metadata.get("dtype", "float32"))
            model.write_legacy_names()
            return model
        if data_shape is None and inputs is None and isinstance(net, mx.gluon.HybridBlock):
            raise OpError(where, "data_shape is missing", "Pass the shape of the net's input, such as (1, 3, 224, 224)")
        model = cls.from_net(net, data_shape, dtype, where=where, inputs=inputs)
        if outputs:
            model = model.below(where, outputs)
        if converts:
            model.check_convertible(where)
        return model

    def save(self, prefix: str | os.PathLike, epoch: int = 0) -> tuple[str, str]:
        """Write ``prefix-symbol.json`` and ``prefix-NNNN.params``, both or none.

        Parameters
        ----------
        prefix : str or os.PathLike
        epoch : int, default 0
            The number in the name of the parameter file.

        Returns
        -------
        tuple of str
            The paths of the JSON and of the parameters.

        Raises
        ------
        OpError
            A file cannot be written, or MXNet refuses the graph.
        """
        check_epoch("export", epoch)
        graph = self.graph.copy()
        names = set(graph.variables())
        metadata = dict(self.metadata)
        if self.inputs:
            metadata["inputs"] = {name: list(shape) for name, shape in self.inputs.items() if name in names}
        parameters = {name: value for name, value in self.parameters.items() if name in names}
        metadata["parameters"] = {"epoch": epoch, "sha256": params.digest(parameters)}
        graph.attrs["gluonops"] = with_origin(graph, metadata)
        return write(graph, parameters, paths_of(os.fspath(prefix), epoch))

    def write_legacy_names(self) -> None:
        """Replace operators of MXNet's NumPy mode by legacy ones that mean the same, in place."""
        types = dict.fromkeys(self.inputs, np.dtype(self.metadata.get("dtype", "float32")))
        types.update((name, np.dtype(value.dtype)) for name, value in self.parameters.items())
        write_legacy_names(self.graph, self.shapes(), types, self.inputs)

    def copy(self) -> ExportedModel:
        """A model with its own graph and dicts. The arrays are shared."""
        return ExportedModel(self.graph.copy(), dict(self.parameters), dict(self.inputs), dict(self.metadata),
                             list(self.notes), self.epoch)

    def shapes(self, inputs: Shapes | None = None) -> Shapes:
        """The known shapes of the graph's variables, by default with those of the known inputs."""
        shape_of = {name: array.shape for name, array in self.parameters.items()}
        shape_of.update(self.inputs if inputs is None else inputs)
        return {name: shape_of[name] for name in self.graph.variables() if name in shape_of}

    def below(self, where: str, outputs: Iterable[str]) -> ExportedModel:
        """The model cut at nodes, with the parameters and inputs that are left.

        An OpError is raised if there is no such node.
        """
        graph = self.graph.copy()
        cut(where, graph, outputs)
        used = set(graph.variables())
        return dataclasses.replace(
            self, graph=graph, metadata=_without_outputs(self.metadata),
            parameters={name: value for name, value in self.parameters.items() if name in used},
            inputs={name: shape for name, shape in self.inputs.items() if name in used})

    def check_convertible(self, where: str) -> None:
        """Raise an OpError if the model computes with 8 bits, and a HeadError if it has a user's own CustomOp."""
        quantized = next((node for node in self.graph.nodes() if is_of_8_bits(node.op)), None)
        if quantized:
            raise OpError(where, f"the node {quantized.name!r} is the operator {quantized.op}, {OF_8_BITS}",
                          FLOATS_NEEDED)
        foreign = [node for node in self.graph.nodes() if node.is_foreign]
        if foreign:
            target = "torch" if where.endswith("torch") else "ONNX"
            raise HeadError(where, f"the node {foreign[0].name!r} is the operator {kind(foreign[0])}, which has no "
                            f"converter to {target}", "Replace it in the net, or export symbol JSON",
                            remaining(self.graph, foreign))

    def known_part(self) -> Graph | None:
        """What the graph computes without the labels whose shapes are not known; None if that is nothing."""
        unknown = self.labels() - self.inputs.keys()
        return independent_part(self.graph, unknown) if unknown else self.graph

    def check_shapes(self, where: str) -> None:
        """Raise an OpError if the graph refuses the shapes or the type of the inputs. ``where`` is the caller.

        Labels may have any shapes that fit, where the graph takes them unknown.
        """
        shapes, names = self.shapes(), self.labels()
        reason = misfit(self.graph, shapes, names)
        if reason:
            raise refused(where, self.inputs, reason)
        dtype = self.metadata.get("dtype", "float32")
        types = {name: self.parameters[name].dtype if name in self.parameters else dtype
                 for name in (*shapes, *names)}
        reason = type_mismatch(self.graph, types)
        if reason:
            raise OpError(where, f"the net refuses inputs of {dtype}: {reason}", "Pass another dtype")

    def labels(self) -> set[str]:
        """The names of the inputs that are labels: everything that is computed from them ends in losses."""
        return labels(self.graph, self.parameters)

    def types(self) -> set[str]:
        """The types of floats that inputs and parameters have."""
        types = [np.dtype(self.metadata.get("dtype", "float32")),
                 *(np.dtype(value.dtype) for value in self.parameters.values())]
        return {each.name for each in types if each.kind == "f"}

    def in_type(self, dtype: str) -> ExportedModel:
        """The model with another type of floats for those that inputs and parameters have. Casts to others stay."""
        own = self.types() - {dtype}
        if not own:
            return self
        model = self.copy()
        for node in model.graph.nodes():
            node.attrs = {name: dtype if name == "dtype" and value in own else value
                          for name, value in node.attrs.items() if not (node.is_variable and name == "__dtype__")}
        model.parameters = {name: value.astype(dtype) if np.dtype(value.dtype).name in own else value
                            for name, value in model.parameters.items()}
        if model.metadata.get("dtype", "float32") in own:
            model.metadata["dtype"] = dtype
        return model

    def fixed_batch(self) -> int | None:
        """The batch size that a recorded net is fixed to; None if it takes any."""
        return next(iter(self.inputs.values()))[0] if self.graph.has_fixed_batch() else None

    def has_label(self) -> bool:
        """Whether an input is a label. Then the graph is for training."""
        return bool(self.labels())


def _without_outputs(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a net that is cut, without those that are of its outputs."""
    return {name: value for name, value in metadata.items() if name not in OF_WHOLE_NET}
