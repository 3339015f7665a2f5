"""The net that an export works on: a graph, its parameters, its inputs, and what a program has to know of it."""
from __future__ import annotations

import dataclasses
import os
from typing import Any

import mxnet as mx

from .files import check_epoch, load, paths_of, write
from .graph import Graph
from .metadata import read_metadata, with_origin
from .shapes import Arrays, DataShape, Shapes
from .trace import trace

WRITTEN_ON_SAVE = ("inputs", "version", "needs")   # of the metadata in a file


@dataclasses.dataclass
class ExportedModel:
    """A net on its way out of Gluon.

    Attributes
    ----------
    graph : Graph
        In canonical form as it comes from a net or a file; see :func:`gluonops.export.passes.canonicalize`.
    parameters : dict of str to NDArray
        Parameters and auxiliary states, by the names of the graph's variables.
    inputs : dict of str to tuple of int
        Shapes of the inputs, as far as they are known: all of them in a model from a net.
    metadata : dict
        What JSON can store, for the programs that run the net: ``dtype`` of the inputs, ``classes``, ``anchors``,
        ``preprocessing``, ``training``.
    notes : list of str
        What a user should know of the export, in words. It is not saved.
    """

    graph: Graph
    parameters: Arrays
    inputs: Shapes = dataclasses.field(default_factory=dict)
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def from_net(cls, net: mx.gluon.HybridBlock, data_shape: DataShape, dtype: str | None = None,
                 head: str | None = None, where: str = "export") -> ExportedModel:
        """Trace a net.

        Parameters
        ----------
        net : HybridBlock
            Initialized. It is not changed, but for parameters whose shapes are still open.
        data_shape : tuple of int, or dict of str to tuple of int
            Shape of the input ``data``, batch included; or of every input by name, in the order in which the net takes
            them.
        dtype : str, optional
            Type of the inputs. The default is the type of the parameters.
        head : {None, 'softmax_output'}
            A loss head to put on the net.
        where : str, default 'export'
            Who asks, for errors.

        Raises
        ------
        OpError
            The net is not a HybridBlock or not initialized, refuses the shapes, or ``head`` does not fit it.
        """
        return cls(*trace(where, net, data_shape, dtype, head))

    @classmethod
    def from_files(cls, prefix: str | os.PathLike, epoch: int | None = None, where: str = "export") -> ExportedModel:
        """Read ``prefix-symbol.json`` and ``prefix-NNNN.params``.

        Parameters
        ----------
        prefix : str or os.PathLike
        epoch : int, optional
            The number of the parameter file; the highest there is if left out.
        where : str, default 'export'
            Who asks, for errors.

        Raises
        ------
        OpError
            A file is missing or damaged, the two do not belong together, or this gluonops lacks an operator.
        """
        graph, parameters, _ = load(where, os.fspath(prefix), epoch)
        metadata = {name: value for name, value in read_metadata(graph).items() if name not in WRITTEN_ON_SAVE}
        inputs = {name: tuple(shape) for name, shape in read_metadata(graph).get("inputs", {}).items()}
        return cls(graph, parameters, inputs, metadata)

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
            The folder is missing or full, or MXNet refuses the graph.
        """
        check_epoch("export", epoch)
        graph, names = self.graph.copy(), set(self.graph.variables())
        metadata = dict(self.metadata)
        if self.inputs:
            metadata["inputs"] = {name: list(shape) for name, shape in self.inputs.items() if name in names}
        graph.attrs["gluonops"] = with_origin(graph, metadata)
        parameters = {name: value for name, value in self.parameters.items() if name in names}
        return write(graph, parameters, paths_of(os.fspath(prefix), epoch))

    def copy(self) -> ExportedModel:
        """Another model with a graph, and dicts, of its own; the arrays are the same."""
        return ExportedModel(self.graph.copy(), dict(self.parameters), dict(self.inputs), dict(self.metadata),
                             list(self.notes))

    def has_label(self) -> bool:
        """Whether an input's name ends in ``label``, which makes the graph one for training."""
        return any(name.endswith("label") and name not in self.parameters for name in self.graph.variables())
