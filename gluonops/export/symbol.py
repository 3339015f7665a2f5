"""Symbol JSON and parameters: of a net, or of files written before, for the backend of your choice."""
import os
import warnings

from ..core.backend import backend as _backend
from ..core.errors import OpError
from ..core.files import check_target
from .files import check_epoch, load, paths_of, save
from .fold import fold_batch_norm as _fold
from .inference import without_losses
from .nodes import ExportWarning, emit
from .pad import pad_channels as _pad
from .passes.fusion import prepare_for_fusion
from .stamp import read, stamp
from .trace import trace

__all__ = ["rewrite", "symbol"]


def symbol(net, prefix, data_shape, backend="builtin", head=None, epoch=0, dtype="float32", fold_batch_norm=False,
           training=False, pad_channels=False):
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
    dtype : str, default 'float32'
        Type of the inputs.
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
    where, prefix, training = "export.symbol", os.fspath(prefix), training or head is not None
    check_epoch(where, epoch)
    check_target(where, *paths_of(prefix, epoch))
    _check_options(where, backend, training, fold_batch_norm=fold_batch_norm, pad_channels=pad_channels)
    graph, values, facts = trace(where, net, data_shape, dtype, head)
    if training:
        facts["training"] = True   # labels and losses may have any name
    return _finish(graph, values, prefix, epoch, backend, fold_batch_norm, not training, facts, pad_channels)


def rewrite(source, prefix, backend="builtin", fold_batch_norm=False, inference=False, epoch=None, pad_channels=False):
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
    graph, values, epoch = load(where, source, epoch)
    check_target(where, *paths_of(prefix, epoch))
    asked = [name for name, on in (("fold_batch_norm", fold_batch_norm), ("pad_channels", pad_channels)) if on]
    reason = ("has a label, so it is" if _has_label(graph, values)
              else "was exported" if read(graph).get("training") else None)
    if asked and not inference and reason:
        raise OpError(where, f"{source}-symbol.json {reason} for training, and {asked[0]} is for inference only",
                      "Drop the losses as well: inference=True, or --inference")
    return _finish(graph, values, prefix, epoch, backend, fold_batch_norm, inference, {}, pad_channels)


def _check_options(where, backend, training, **for_inference):
    with _backend(backend):   # which refuses one that there is not
        pass
    for name, asked in for_inference.items():
        if asked and training:
            raise OpError(where, f"{name} is for inference only, and this export is for training",
                          f"Leave out one of {name}, training and head")


def _has_label(graph, values):
    return any(name.endswith("label") and name not in values for name in graph.variables())


def _finish(graph, values, prefix, epoch, backend, fold_batch_norm, inference, facts, pad_channels):
    if inference:
        gone = without_losses(graph)
        if gone:
            hint = ". Pass training=True to keep them" * bool(facts)   # in files they stay unless asked for
            warnings.warn(f"exported for inference, without {', '.join(gone)}{hint}", ExportWarning, stacklevel=3)
        if read(graph).get("training"):
            facts["training"] = False
    if fold_batch_norm:
        _fold(graph, values)
    if pad_channels:
        _pad(graph, values)
    emit(graph, backend)
    prepare_for_fusion(graph, inference)
    kept = set(graph.variables())
    values = {name: value for name, value in values.items() if name in kept}
    if "inputs" in facts:
        facts["inputs"] = {name: shape for name, shape in facts["inputs"].items() if name in kept}
    stamp(graph, **facts)
    return save(graph, values, prefix, epoch)
