"""Exponential moving average of a net's parameters, which often scores higher than the parameters themselves."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mxnet import gluon

from ..core.errors import OpError

__all__ = ["ParameterAverage"]


class ParameterAverage:
    """The exponential moving average of a net's parameters and running statistics.

    After update n, each average moves towards the parameter: ``average += (1 - d) * (parameter - average)``, with
    ``d = min(decay, (1 + n) / (10 + n))``, so that the first updates, which change most, are soon forgotten.

    Parameters
    ----------
    net : gluon.Block
        Initialized, with known shapes. The average starts at its parameters.
    decay : float
        From 0 up to, not including, 1; for instance 0.999.

    Attributes
    ----------
    updates : int
        Number of updates so far.
    values : dict of str to NDArray
        The averages, by the parameters' places in the net.
    """

    def __init__(self, net: gluon.Block, decay: float):
        if not 0 <= decay < 1:
            raise OpError("train.ParameterAverage", f"decay is {decay!r}; expected 0 to 1, without 1",
                          "Pass for instance 0.999")
        self.net, self.decay, self.updates = net, decay, 0
        self.values = {name: parameter.list_data()[0].copy() for name, parameter in self._parameters().items()}

    def update(self) -> None:
        """Count an update of the net's parameters. Nothing waits for the result."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, parameter in self._parameters().items():
            average = self.values[name]
            average += (1 - decay) * (parameter.list_data()[0] - average)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The net has the averages as its parameters within the ``with`` block, and its own again after it."""
        own = {name: parameter.list_data() for name, parameter in self._parameters().items()}
        own = {name: [array.copy() for array in arrays] for name, arrays in own.items()}
        for name, parameter in self._parameters().items():
            parameter.set_data(self.values[name])
        try:
            yield
        finally:
            for name, parameter in self._parameters().items():
                for array, value in zip(parameter.list_data(), own[name]):
                    array[:] = value

    def _parameters(self) -> dict[str, gluon.Parameter]:
        return self.net._collect_params_with_prefix()
