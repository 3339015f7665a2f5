"""Mixed precision: convolutions and dense layers compute in 16 bits, the parameters stay float32.

The graph of a block gets casts by MXNet's ``amp.convert_symbol``. The new block shares the parameters of the old one.
Nothing else in the process changes: ``amp.init`` would replace MXNet's functions for good, and exports would lose
precision too.

- **bfloat16** on a CPU needs instructions for it (AVX-512 BF16 or AMX). It needs no loss scaling, because it has the
  range of float32.
- **float16** on a GPU needs loss scaling: the loss is multiplied by a large number, and an update whose gradients
  overflow is left out. MXNet 1.9.1 has no float16 matrix product on the CPU.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.contrib import amp
from mxnet.contrib.amp.amp import bfloat16
from mxnet.contrib.amp.loss_scaler import LossScaler

from ..backends.backend import backend
from ..contract.attributes import Attr, Choice
from ..contract.errors import OpError
from ..export.operators import schema
from ..runtime import processor

__all__ = ["DTYPES", "MixedPrecision", "check_dtype"]

CONCAT = "Concat"
DTYPES = ("float32", "bfloat16", "float16")


def check_dtype(dtype: str, devices: Sequence[mx.Context]) -> None:
    """Raise an OpError for a dtype that MXNet 1.9.1 cannot train with on these devices.

    Parameters
    ----------
    dtype : {"float32", "bfloat16", "float16"}
    devices : sequence of mxnet.Context

    Raises
    ------
    OpError
        The dtype is float16 and there is no GPU; or it is bfloat16, and the device is a GPU or a CPU without
        instructions for it.
    """
    where = "train.check_dtype"
    Attr("dtype", Choice(*DTYPES), None).parse(where, dtype)
    kinds = {device.device_type for device in devices}
    if dtype == "float16" and kinds != {"gpu"}:
        raise OpError(where, "float16 needs GPUs: MXNet 1.9.1 has no float16 matrix product on the CPU",
                      "Choose float32, or bfloat16 on a CPU that has it")
    if dtype == "bfloat16" and kinds != {"cpu"}:
        raise OpError(where, "bfloat16 needs a CPU: MXNet 1.9.1 has no bfloat16 kernels on GPUs", "Choose float16")
    if dtype == "bfloat16" and not processor.has_bfloat16():
        raise OpError(where, "this CPU has no instructions for bfloat16 (AVX-512 BF16 or AMX), or "
                      f"{processor.LIMIT} forbids them", "Choose float32")


class MixedPrecision:
    """Blocks that compute in 16 bits, and the scale of their loss.

    Parameters
    ----------
    dtype : {"float32", "bfloat16", "float16"}
        The type to compute in. float32 leaves blocks as they are.
    trainer : gluon.Trainer
        The trainer of the parameters.
    """

    def __init__(self, dtype: str, trainer: gluon.Trainer):
        self.dtype, self.trainer = dtype, trainer
        self._lowered: dict[int, tuple] = {}
        if dtype == "float16":
            scale_losses(trainer)

    def lower(self, block: gluon.HybridBlock) -> gluon.HybridBlock:
        """A block that computes what ``block`` does in 16 bits. It shares the parameters, whose shapes are known.

        Parameters
        ----------
        block : gluon.HybridBlock
            A block with one input.

        Returns
        -------
        gluon.HybridBlock
            Until :meth:`reset`, the same block has the same result. With float32 the result is ``block`` itself.
        """
        if self.dtype == "float32":
            return block
        if id(block) not in self._lowered:
            self._lowered[id(block)] = (block, _lowered(block, self.dtype))
        return self._lowered[id(block)][1]

    def reset(self) -> None:
        """Convert the blocks again at their next use, because their graphs have changed."""
        self._lowered.clear()

    def backward(self, losses: Sequence[mx.nd.NDArray]) -> None:
        """Run backward passes. Where the dtype needs it, losses are scaled, and the trainer removes the scale again."""
        if self._scaler is None:
            autograd.backward(losses)
            return
        with autograd.record(), amp.scale_loss(losses, self.trainer) as scaled:
            pass
        autograd.backward(scaled)

    @property
    def loss_scale(self) -> float:
        """The factor by which the gradients are scaled now."""
        return 1.0 if self._scaler is None else self._scaler.loss_scale

    def state(self) -> dict[str, Any]:
        """The state that a checkpoint stores, as JSON."""
        return {} if self._scaler is None else {name: getattr(self._scaler, name) for name in SCALER_STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with a state of :meth:`state`."""
        if self._scaler is not None:
            for name in SCALER_STATE:
                setattr(self._scaler, name, state.get(name, getattr(self._scaler, name)))

    @property
    def _scaler(self):
        return getattr(self.trainer, "_amp_loss_scaler", None)


SCALER_STATE = ("_loss_scale", "_next_loss_scale", "_unskipped")


def scale_losses(trainer: gluon.Trainer) -> None:
    """Let the trainer leave out updates whose gradients overflow, as ``amp.init_trainer`` does after ``amp.init``."""
    trainer._amp_loss_scaler = LossScaler()
    trainer._amp_original_scale = trainer._scale


def _lowered(block, dtype):
    """A block with the parameters of another one, whose graph has casts."""
    with backend("custom"):   # amp knows no native operator; Custom it knows, and gives it float32
        outputs = block(mx.sym.var("data"))
    graph = mx.sym.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs
    kind = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    # MXNet takes concat for an operator of any type, and then finds inputs of two types.
    joining = {CONCAT, *schema.find(CONCAT).aliases}
    in_float32 = [*amp.list_fp32_ops(kind), *sorted(joining.intersection(amp.list_lp16_fp32_ops(kind)))]
    graph = amp.convert_symbol(graph, dtype, fp32_ops=in_float32, data_names=["data"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # MXNet warns that it cannot decide the type of the data.
        low = gluon.SymbolBlock(graph, [mx.sym.var("data")], params=block.collect_params())
    low.hybridize(static_alloc=True)
    return low
