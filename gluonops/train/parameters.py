"""What a run does with a net's parameters besides updates: it freezes them, averages them, and clips gradients."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from mxnet import gluon

from ..contract.attributes import Attr, Float

__all__ = ["ParameterAverage", "accumulate_gradients", "clear_graphs", "clip_gradients", "freeze", "zero_gradients"]


def freeze(block: gluon.Block, frozen: bool = True, grad_req: str = "write") -> bool:
    """Freeze a block, or release it.

    A frozen block has no gradients, and its batch norms use and keep their running statistics. A net that contains the
    block and is hybridized has to be traced again: see :func:`clear_graphs`.

    Parameters
    ----------
    block : gluon.Block
        The block.
    frozen : bool, default True
        True freezes the block, and False releases it.
    grad_req : {"write", "add"}, default "write"
        How released parameters get gradients: ``add`` if gradients are accumulated over batches.

    Returns
    -------
    bool
        Whether anything changed.
    """
    changed = False
    for part in blocks_of(block):
        if isinstance(part, gluon.nn.BatchNorm) and part._kwargs["use_global_stats"] != frozen:
            part._kwargs["use_global_stats"] = frozen
            changed = True
    request = "null" if frozen else grad_req
    for parameter in block.collect_params().values():
        if parameter._differentiable and parameter.grad_req != request:
            parameter.grad_req = request
            changed = True
    return changed


def clear_graphs(block: gluon.Block) -> None:
    """Let a hybridized block, and every block in it, be traced again at its next call."""
    for part in blocks_of(block):
        if isinstance(part, gluon.HybridBlock):
            part._clear_cached_op()


def blocks_of(block: gluon.Block) -> Iterator[gluon.Block]:
    """The block and all blocks in it."""
    yield block
    for child in block._children.values():
        yield from blocks_of(child)


def accumulate_gradients(parameters: Iterable[gluon.Parameter]) -> None:
    """Let each backward pass add to the gradients, instead of replacing them. Frozen parameters stay frozen."""
    for parameter in parameters:
        if parameter.grad_req == "write":
            parameter.grad_req = "add"


def zero_gradients(parameters: Iterable[gluon.Parameter]) -> None:
    """Set the gradients to zero, after an update with accumulated gradients."""
    for parameter in parameters:
        parameter.zero_grad()


def clip_gradients(parameters: Iterable[gluon.Parameter], largest_norm: float) -> None:
    """Scale all gradients down together, if their global norm is larger than ``largest_norm``.

    The global norm is the norm of the vector of all gradients. Nothing waits for the result. On several devices the
    gradients have to be summed over the devices already.

    Parameters
    ----------
    parameters : iterable of gluon.Parameter
        Those with a gradient are used.
    largest_norm : float
        Above 0.
    """
    trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
    for gradients in zip(*(parameter.list_grad() for parameter in trained)):
        gluon.utils.clip_global_norm(list(gradients), largest_norm, check_isfinite=False)


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
        The averages, by the parameters' indices in the net.
    """

    def __init__(self, net: gluon.Block, decay: float):
        Attr("decay", Float(low=0, below=1), None).parse("train.ParameterAverage", decay)
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
        """Give the net the averages as parameters within the ``with`` block. After it, the net has its own again."""
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
