"""Writes symbol JSON and parameters of a net, or of files that were exported before, for any backend."""
from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import mxnet as mx

from ..backends.backend import available
from ..contract.errors import OpError
from ..io.files import check_writable
from . import passes
from .locate import check_epoch, paths_of, split
from .metadata import plain_metadata
from .model import ExportedModel
from .sizes import DataShape
from .warning import warn_of_losses


def symbol(net: mx.gluon.Block, prefix: str | os.PathLike, data_shape: DataShape | None = None,
           backend: str = "builtin",
           head: str | None = None, epoch: int = 0, dtype: str | None = None, fold_batch_norm: bool = False,
           training: bool = False, pad_channels: bool = False, split_channels: bool = False,
           metadata: dict[str, Any] | None = None, outputs: Iterable[str] = (),
           inputs: Any = None, numpy: bool = False) -> tuple[str, str]:
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``.

    ``mx.model.load_checkpoint`` (and so ``mx.mod.Module``), ``gluon.SymbolBlock.imports``, ``mx.sym.load`` and MXNet's
    C API read the files. The net itself is not changed: a net that is hybridized with one backend can be exported for
    another. Both files are written under temporary names and renamed when complete.

    Parameters
    ----------
    net : HybridBlock or Block
        Initialized. It may return several outputs, nested or not. A Block that is no HybridBlock needs ``inputs``.
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``. The folder must exist.
    data_shape : tuple of int, or dict of str to tuple of int
        Shape of the input ``data``, batch included, or of every input by name, in the order in which the net takes
        them. It completes parameters of unknown shape, and the graph is checked with it. The exported graph takes other
        batch sizes too, and other spatial sizes if the net does.
    backend : {'builtin', 'custom', 'native', 'auto'}, default 'builtin'
        ``builtin`` writes MXNet's own operators only: the file runs in a process without gluonops. ``native`` needs
        gluonops, or ``mx.library.load(gluonops.native_library_path())`` alone. ``custom`` needs gluonops.
    head : {None, 'softmax_output'}
        ``softmax_output`` puts that loss head on the net's output, with the label ``softmax_label``, so that
        ``Module.fit`` can fine-tune the file. The net must return logits. It implies ``training``.
    epoch : int, default 0
        The number in the name of the parameter file.
    dtype : str, optional
        Type of the inputs. The default is the type of the parameters.
    fold_batch_norm : bool, default False
        Fold each batch norm into the convolution or dense layer in front of it, unless something else reads that layer.
        For inference only.
    training : bool, default False
        Keep losses and labels. If False, a loss head becomes what it computes at inference (``softmax_output``:
        probabilities), outputs that are losses are removed with their labels, and an ExportWarning lists them. A label
        is an input from which nothing but losses is computed, whatever its name is.
    pad_channels : bool, default False
        Pad convolutions to a multiple of 16 output channels, and cut the padding off behind them. MXNet's CPU kernels
        take twice the time for other numbers. For inference only. Use it with ``fold_batch_norm=True``: a convolution
        whose batch norm is not folded is not padded.
    split_channels : bool, default False
        Split convolutions of many input channels into sums, so that the weights in use stay in the second-level cache.
        The outputs differ by rounding. For inference only. Use it with ``fold_batch_norm=True``, as ``pad_channels``.
    metadata : dict, optional
        Further values to store in the file, such as ``classes`` and ``preprocessing``, which :func:`load` reads. The
        net's attributes of these names are stored anyway. ``dtype`` is always that of the inputs.
    outputs : iterable of str, optional
        As in :func:`gluonops.export.onnx`. Not with ``head``.
    inputs : NDArray, tuple, list or dict, optional
        The arrays that the net is called with, in place of ``data_shape``: a tuple in the order of its ``forward``, or
        a dict with the names of its arguments. Runs of the net are recorded with them, so that it may be any Block, and
        a HybridBlock that reads shapes. The inputs have the names of the arguments. An ExportWarning names the sizes
        that the graph is fixed to. See the page *Nets that cannot be hybridized*.
    numpy : bool, default False
        Of a net of NumPy mode: keep the operators that it has. By default those that have a legacy one of the same
        meaning become it, so that ``Module`` and programs of legacy mode take the file.

    Returns
    -------
    tuple of str
        The paths of the JSON and of the parameters.

    Raises
    ------
    OpError
        The net is not a HybridBlock or not initialized, refuses ``data_shape``, returns nothing but losses, or
        ``head`` does not fit it.
    """
    where = "export.symbol"
    prefix = os.fspath(prefix)
    training = training or head is not None
    check_epoch(where, epoch)
    metadata = plain_metadata(where, metadata)
    check_writable(where, *paths_of(prefix, epoch))
    available(backend)   # an OpError if it is not
    wanted = _wanted(fold_batch_norm=fold_batch_norm, pad_channels=pad_channels, split_channels=split_channels)
    if wanted and training:
        raise OpError(where, f"{wanted[0]} is for inference only, and this export is for training",
                      f"Leave out one of {wanted[0]}, training and head")

    if outputs and head is not None:
        raise OpError(where, "outputs and head were both passed; expected one of them", "Leave one of them out")
    model = ExportedModel.from_net(net, data_shape, dtype, head, where, inputs, numpy)
    if outputs:
        model = model.below(where, outputs)
    model.metadata = {**model.metadata, **metadata, "dtype": model.metadata["dtype"]}
    if training:
        model.metadata["training"] = True   # it cannot be told from names of labels and losses
    else:
        model = passes.inference(model)
        warn_of_losses(model.notes, ". Pass training=True to keep them")
    return _finish(model, backend, wanted, inference=not training).save(prefix, epoch)


def rewrite(source: str | os.PathLike, prefix: str | os.PathLike, backend: str = "builtin",
            fold_batch_norm: bool = False, inference: bool = False, epoch: int | None = None,
            pad_channels: bool = False, split_channels: bool = False,
            data_shape: DataShape | None = None, outputs: Iterable[str] = ()) -> tuple[str, str]:
    """Write exported files again, for another backend or with folded batch norms. The net's source is not needed.

    Nodes of gluonops become those of the backend. Names, attributes, parameters and all other nodes stay.

    Parameters
    ----------
    source : str or os.PathLike
        The files to read, as in :meth:`gluonops.export.ExportedModel.from_files`.
    prefix : str or os.PathLike
        Path of the files to write, without ``-symbol.json``. It may be that of the source.
    backend, fold_batch_norm, pad_channels, split_channels
        As in :func:`symbol`.
    inference : bool, default False
        Remove losses and labels, as :func:`symbol` does without ``training``.
    epoch : int, optional
        Number of the parameter file, read and written. The default is the highest number.
    data_shape : tuple of int, or dict of str to tuple of int, optional
        As in :func:`gluonops.export.onnx`; the files store it.
    outputs : iterable of str, optional
        As in :func:`gluonops.export.onnx`.

    Returns
    -------
    tuple of str
        The paths of the JSON and of the parameters.

    Raises
    ------
    OpError
        A file is missing or damaged, or has an operator or an attribute that this gluonops lacks. The message names it
        and the version of gluonops that wrote the file.
    """
    where = "export.rewrite"
    source = os.fspath(source)
    prefix = os.fspath(prefix)
    check_writable(where, prefix + "-symbol.json")
    available(backend)   # an OpError if it is not
    wanted = _wanted(fold_batch_norm=fold_batch_norm, pad_channels=pad_channels, split_channels=split_channels)
    if data_shape is None:
        model = ExportedModel.from_files(source, epoch, where, outputs)
    else:
        model = ExportedModel.of(where, source, data_shape, epoch, outputs=outputs)
        model.check_shapes(where)
    check_writable(where, *paths_of(prefix, model.epoch))

    if inference:
        model = passes.inference(model)
        warn_of_losses(model.notes)
    elif wanted and (model.has_label() or model.metadata.get("training")):
        reason = "has a label, so it is" if model.has_label() else "was exported"
        raise OpError(where, f"{split(source)[0]}-symbol.json {reason} for training, and {wanted[0]} is for inference "
                      "only", "Drop the losses as well: inference=True, or --inference")
    return _finish(model, backend, wanted, inference).save(prefix, model.epoch)


def _wanted(**for_inference: bool) -> list[str]:
    """The names of the passes for inference that are asked for, in their order."""
    return [name for name, is_on in for_inference.items() if is_on]


def _finish(model: ExportedModel, backend: str, wanted: list[str], inference: bool) -> ExportedModel:
    """Run the passes that are asked for, and the last ones of both kinds of export."""
    for name in wanted:
        model = getattr(passes, name)(model)
    model = passes.lower(passes.describe(model), backend)
    return passes.prepare_for_fusion(model, inference)
