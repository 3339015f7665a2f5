"""Symbol JSON and parameters: of a net, or of files written before, for the backend of your choice."""
from __future__ import annotations

import os
import warnings

import mxnet as mx

from ..core.backend import backend as _backend
from ..core.errors import OpError
from ..core.files import check_target
from . import passes
from .files import check_epoch, newest_epoch, paths_of
from .model import ExportedModel
from .shapes import DataShape
from .warning import ExportWarning

__all__ = ["rewrite", "symbol"]


def symbol(net: mx.gluon.HybridBlock, prefix: str | os.PathLike, data_shape: DataShape, backend: str = "builtin",
           head: str | None = None, epoch: int = 0, dtype: str | None = None, fold_batch_norm: bool = False,
           training: bool = False, pad_channels: bool = False) -> tuple[str, str]:
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``.

    The files load with ``mx.model.load_checkpoint`` (so with ``mx.mod.Module``), ``gluon.SymbolBlock.imports``,
    ``mx.sym.load`` and MXNet's C API. The net itself is not changed: a net hybridized with one backend exports with
    another. Both files are written under temporary names and renamed when complete.

    Parameters
    ----------
    net : HybridBlock
        Initialized. It may return several outputs, nested or not.
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``. The folder must exist.
    data_shape : tuple of int, or dict of str to tuple of int
        Shape of the input ``data``, batch included, or of every input by name, in the order in which the net takes
        them: parameters whose shapes are still open take them from it, and the graph is checked with it. The exported
        graph takes other batch sizes, and other spatial sizes where the net does.
    backend : {'builtin', 'custom', 'native', 'auto'}, default 'builtin'
        ``builtin`` writes MXNet's own operators only: the file runs in a process without gluonops. ``native`` needs
        gluonops, or ``mx.library.load(gluonops.native_library_path())`` alone; ``custom`` needs gluonops.
    head : {None, 'softmax_output'}
        ``softmax_output`` puts that loss head on the net's output, with the label ``softmax_label``, so that
        ``Module.fit`` fine-tunes the file. The net must return logits. It implies ``training``.
    epoch : int, default 0
        The number in the name of the parameter file.
    dtype : str, optional
        Type of the inputs. The default is the type of the parameters.
    fold_batch_norm : bool, default False
        Fold each batch norm into the convolution or dense layer before it, where that layer has no other reader. For
        inference only.
    training : bool, default False
        Keep losses and labels. Without it a loss head becomes what it computes at inference (``softmax_output``:
        probabilities), and outputs that are losses go, with the labels they need; an ExportWarning says what went. A
        label is an input whose name ends in ``label``.
    pad_channels : bool, default False
        Pad convolutions to a multiple of 16 output channels, cut off again behind them: MXNet's CPU kernels take twice
        the time for other numbers. For inference only; meant for ``fold_batch_norm=True``, because a convolution whose
        batch norm is not folded stays as it is.

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
    where, prefix = "export.symbol", os.fspath(prefix)
    training = training or head is not None
    check_epoch(where, epoch)
    check_target(where, *paths_of(prefix, epoch))
    _check_options(where, backend, training, fold_batch_norm=fold_batch_norm, pad_channels=pad_channels)

    model = ExportedModel.from_net(net, data_shape, dtype, head, where)
    if training:
        model.metadata["training"] = True   # labels and losses may have any name
    else:
        model = passes.inference(model)
        _warn_of_losses(model, ". Pass training=True to keep them")
    return _finish(model, backend, fold_batch_norm, pad_channels, inference=not training).save(prefix, epoch)


def rewrite(source: str | os.PathLike, prefix: str | os.PathLike, backend: str = "builtin",
            fold_batch_norm: bool = False, inference: bool = False, epoch: int | None = None,
            pad_channels: bool = False) -> tuple[str, str]:
    """Write files exported before anew, for another backend or folded, without the source code of the net.

    ``Custom`` and native nodes of gluonops take the form that the backend asks for; names, attributes, parameters and
    every other node stay.

    Parameters
    ----------
    source, prefix : str or os.PathLike
        Paths of the files read and written, without ``-symbol.json``. They may be the same.
    backend : {'builtin', 'custom', 'native', 'auto'}, default 'builtin'
    fold_batch_norm : bool, default False
        As in :func:`symbol`.
    inference : bool, default False
        Take out losses and labels, as :func:`symbol` does without ``training``.
    epoch : int, optional
        The number of the parameter file, read and written; the highest there is if left out.
    pad_channels : bool, default False
        As in :func:`symbol`.

    Returns
    -------
    tuple of str
        The paths of the JSON and of the parameters.

    Raises
    ------
    OpError
        A file is missing or damaged, or has an operator or an attribute that this gluonops lacks: the message names it
        and the gluonops that wrote the file.
    """
    where, source, prefix = "export.rewrite", os.fspath(source), os.fspath(prefix)
    check_target(where, prefix + "-symbol.json")
    _check_options(where, backend, training=False)
    model = ExportedModel.from_files(source, epoch, where)
    epoch = newest_epoch(where, source) if epoch is None else epoch
    check_target(where, *paths_of(prefix, epoch))

    if inference:
        model = passes.inference(model)
        _warn_of_losses(model, "")
    else:
        _check_not_for_training(where, source, model, fold_batch_norm=fold_batch_norm, pad_channels=pad_channels)
    return _finish(model, backend, fold_batch_norm, pad_channels, inference).save(prefix, epoch)


def _check_options(where: str, backend: str, training: bool, **for_inference: bool) -> None:
    with _backend(backend):   # which refuses one that there is not
        pass
    for name, asked in for_inference.items():
        if asked and training:
            raise OpError(where, f"{name} is for inference only, and this export is for training",
                          f"Leave out one of {name}, training and head")


def _check_not_for_training(where: str, source: str, model: ExportedModel, **for_inference: bool) -> None:
    """Raise where a file for training is to be changed in a way that is for inference only."""
    asked = [name for name, on in for_inference.items() if on]
    if not asked:
        return
    if model.has_label():
        reason = "has a label, so it is"
    elif model.metadata.get("training"):
        reason = "was exported"
    else:
        return
    raise OpError(where, f"{source}-symbol.json {reason} for training, and {asked[0]} is for inference only",
                  "Drop the losses as well: inference=True, or --inference")


def _warn_of_losses(model: ExportedModel, hint: str) -> None:
    if model.notes:
        warnings.warn(f"exported for inference, without {', '.join(model.notes)}{hint}", ExportWarning, stacklevel=3)


def _finish(model: ExportedModel, backend: str, fold_batch_norm: bool, pad_channels: bool,
            inference: bool) -> ExportedModel:
    """The passes that both kinds of export end with."""
    if fold_batch_norm:
        model = passes.fold_batch_norm(model)
    if pad_channels:
        model = passes.pad_channels(model)
    model = passes.lower(model, backend)
    return passes.prepare_for_fusion(model, inference)
