"""Whether a run may be resumed, and whether it diverged."""
from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from ..core.errors import OpError

__all__ = ["all_finite", "check_options", "check_state", "diverged"]

WHERE = "train.Run"


def check_state(path: pathlib.Path, train_state: Mapping[str, Any], expected: Mapping[str, type]) -> None:
    """An OpError if a checkpoint does not say where its run stood."""
    expected = {**expected, "updates": int, "counts": dict, "options": dict}
    missing = [name for name, kind in expected.items() if not isinstance(train_state.get(name), kind)]
    if missing:
        raise OpError(WHERE, f"{path} does not say where the run stood: it lacks {missing[0]}, or it is damaged",
                      "Resume from another checkpoint, or start from the beginning")


def check_options(path: pathlib.Path, train_state: Mapping[str, Any], options: Mapping[str, Any], data: str) -> None:
    """An OpError if a checkpoint is of a run with other options or other training images."""
    saved = train_state["options"]
    for key, value in options.items():
        if key in saved and saved[key] != value:   # an older version lacks options, and did without them
            raise OpError(WHERE, f"{key} is {value!r}; the run in {path} was started with {saved[key]!r}",
                          "Resume with the options that it was started with")
    before = train_state.get("data")
    if before is not None and before != data:
        raise OpError(WHERE, f"the training images or labels (fingerprint {data}) differ from those of the run in "
                      f"{path} ({before})",
                      f"Put those back, or start again with --pretrained {path} and another --out")


def all_finite(blocks: Iterable[gluon.Block]) -> bool:
    """Whether no parameter is NaN or infinite. A last update can make it so although the loss before was finite."""
    arrays = [parameter._reduce() for block in blocks for parameter in block._collect_params_with_prefix().values()]
    arrays = [array for array in arrays if array.dtype == np.float32]
    return bool(mx.nd.multi_all_finite(*arrays, num_arrays=len(arrays)).asscalar())


def diverged(what: str, trainer: gluon.Trainer | None, checkpoint: pathlib.Path) -> OpError:
    """The error of a run that diverged. ``trainer`` has the learning rate, if it is known here."""
    remedy = "Lower --lr or raise --warmup"
    if trainer:
        scheduler = trainer.optimizer.lr_scheduler
        base = scheduler.base_lr if scheduler else trainer.learning_rate
        what += f"; the learning rate is {trainer.learning_rate:.3g}"
        remedy = f"Lower --lr, for instance to {base / 10:.2g}, or raise --warmup"
    kept = f"; {checkpoint} is from before" if checkpoint.exists() else ""
    return OpError(WHERE, what, remedy + kept)
