"""SGD whose update of all parameters is one node: ``mx.optimizer.create("fusedsgd")``.

MXNet updates four parameters at a time, element by element, in code without vector instructions. That is a fifth of a
training step where the net is large and the batch small. :class:`FusedSGD` does the same arithmetic in the native
library, for all parameters at once, at the speed of memory. See ``benchmarks/networks/training.py``.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np

from .backends import native

__all__ = ["FusedSGD"]

NODE = "_gluonops_sgd_update"
ALL = 1 << 30   # more parameters than there are
IN_MAIN_MEMORY = ("cpu", "cpu_pinned")   # the second: weights of a kvstore that updates them
FEWEST_BLOCKED_DIMS = 2   # oneDNN keeps such weights in layouts of its own


@mx.optimizer.register
class FusedSGD(mx.optimizer.SGD):
    """``mx.optimizer.SGD`` in one node: the same numbers to the bit, with the same arguments and the same states.

    The node takes float32 parameters with dense gradients on a CPU, where the native library is loaded. All others are
    updated by MXNet, as ``SGD`` does: float16 and float64, multi-precision, sparse gradients, GPUs.

    Parameters
    ----------
    **options
        Of ``mx.optimizer.SGD``: ``learning_rate``, ``momentum``, ``wd``, ``clip_gradient``, ``lr_scheduler``, ...

    Notes
    -----
    Where servers run the optimizer (``update_on_kvstore`` of a distributed kvstore), it is MXNet's ``SGD`` there. It is
    sent as one, because servers need not have gluonops. Saved states that hold the optimizer hold an ``SGD``, too.

    Examples
    --------
    >>> from mxnet import gluon
    >>> net = gluon.nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> trainer = gluon.Trainer(net.collect_params(), "fusedsgd", {"learning_rate": 0.1, "momentum": 0.9})
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._mxnet_aggregate_num = self.aggregate_num
        if native.loaded():
            self.aggregate_num = ALL   # Updater passes so many parameters at once

    def update(self, index: int | Sequence[int], weight: Any, grad: Any, state: Any) -> None:
        """Update parameters whose states are those of :meth:`create_state`."""
        self._update(super().update, *_as_lists(index, weight, grad, state))

    def update_multi_precision(self, index: int | Sequence[int], weight: Any, grad: Any, state: Any) -> None:
        """Update parameters whose states are those of :meth:`create_state_multi_precision`."""
        self._update(super().update_multi_precision, *_as_lists(index, weight, grad, state))

    def _update(self, update_by_mxnet, indices, weights, grads, states):
        if self._can_fuse(weights, grads):
            rates, decays = self._rates_and_decays(indices)
            self._update_at_once(weights, grads, states, rates, decays)
            return
        for part in self._groups(len(indices)):
            update_by_mxnet(indices[part], weights[part], grads[part], states[part])

    def _can_fuse(self, weights, grads):
        """Whether the node takes these arrays. They have one dtype and one device, as those of an Updater do."""
        first = weights[0]
        if not native.loaded() or self.momentum < 0 or first.context.device_type not in IN_MAIN_MEMORY:
            return False
        return first.dtype == np.float32 and all(array.stype == "default" for array in (*weights, *grads))

    def _groups(self, count):
        """The parts of a list of parameters that MXNet's SGD updates one after the other."""
        size = max(1, self._mxnet_aggregate_num)
        return [slice(start, start + size) for start in range(0, count, size)]

    def _rates_and_decays(self, indices):
        """Learning rates and weight decays. Updates are counted in MXNet's groups: a schedule sees the count so far."""
        rates, decays = [], []
        for part in self._groups(len(indices)):
            self._update_count(indices[part])
            rates += self._get_lrs(indices[part])
            decays += self._get_wds(indices[part])
        return rates, decays

    def _update_at_once(self, weights, grads, states, rates, decays):
        _use_plain_layout(weights)
        options = {"lrs": rates, "wds": decays, "rescale_grad": self.rescale_grad}
        arrays = [weights, grads]
        if self.momentum > 0:
            options["momentum"] = self.momentum
            arrays.append(states)
        if self.clip_gradient:
            options["clip_gradient"] = self.clip_gradient
        inputs = [array for of_parameter in zip(*arrays) for array in of_parameter]
        native.invoke(NODE, inputs, options)

    def __reduce__(self):
        options = dict(self.__dict__)
        options["aggregate_num"] = options.pop("_mxnet_aggregate_num")
        return mx.optimizer.SGD, (), options


def _use_plain_layout(weights):
    """Let MXNet put the weights into its plain layout: they may be in a layout of oneDNN.

    Inference leaves them so, at a time that only MXNet's engine knows. For a node of lib_api MXNet would make a copy in
    the plain layout, and the update would be lost with it. A write to a part of an array makes MXNet give the whole
    array the plain layout.
    """
    for weight in weights:
        if len(weight.shape) >= FEWEST_BLOCKED_DIMS:
            part = weight[:1]
            mx.nd._internal._mul_scalar(part, scalar=1.0, out=part)


def _as_lists(index, weight, grad, state):
    if isinstance(index, (tuple, list)):
        return index, weight, grad, state
    return [index], [weight], [grad], [state]
