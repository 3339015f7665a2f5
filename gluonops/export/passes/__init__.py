"""Passes: functions that take an :class:`~gluonops.export.ExportedModel` and return another one.

A model from a net or from files is canonical: each operator of gluonops is one ``Custom`` node. ``lower`` replaces it
by the nodes of a backend, so it comes after the other passes. Only ``prepare_for_fusion`` and ``quantize`` come later.
"""
from ...runtime import importing
from .canonicalize import canonicalize
from .describe import describe
from .inference import inference, predictions

if importing.is_imported():
    from .detections import detections
    from .fold_batch_norm import fold_batch_norm
    from .fusion import prepare_for_fusion
    from .lower import lower
    from .pad_channels import pad_channels
    from .quantize import quantize
    from .split_channels import split_channels

__all__ = ["canonicalize", "describe", "detections", "fold_batch_norm", "inference", "lower", "pad_channels",
           "predictions", "prepare_for_fusion", "quantize", "split_channels"]
