"""Passes: functions that take an :class:`~gluonops.export.ExportedModel` and return another one.

A model from a net or from files is canonical: each operator of gluonops is one ``Custom`` node. ``lower`` replaces it
by the nodes of a backend, so it comes after the other passes. Only ``prepare_for_fusion`` and ``quantize`` come later.
"""
from ...runtime import importing
from .inference import inference, predictions
from .purpose import describe

if importing.is_imported():
    from .channels import pad_channels, split_channels
    from .detections import detections
    from .fold_batch_norm import fold_batch_norm
    from .fusion import prepare_for_fusion
    from .lower import canonicalize, lower
    from .onednn_int8 import quantize

__all__ = ["canonicalize", "describe", "detections", "fold_batch_norm", "inference", "lower", "pad_channels",
           "predictions", "prepare_for_fusion", "quantize", "split_channels"]
