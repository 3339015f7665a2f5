"""Passes: functions that make another :class:`~gluonops.export.ExportedModel` of one, and leave theirs as it was.

A model from a net or from files is canonical: every operator of gluonops is one ``Custom`` node. ``lower`` gives each
the form of a backend, so it comes last; ``prepare_for_fusion`` alone follows it.
"""
from .canonicalize import canonicalize
from .fold_batch_norm import fold_batch_norm
from .fusion import prepare_for_fusion
from .inference import inference
from .lower import lower
from .pad_channels import pad_channels

__all__ = ["canonicalize", "fold_batch_norm", "inference", "lower", "pad_channels", "prepare_for_fusion"]
