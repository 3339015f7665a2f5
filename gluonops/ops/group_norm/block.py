"""The layer ``gluonops.nn.GroupNorm``."""
from __future__ import annotations

from mxnet.initializer import Initializer

from ...backends.block import OpBlock
from .. import group_norm as _group_norm


class GroupNorm(OpBlock, function=_group_norm):
    """Groups of channels normalised, with a learned scale and shift.

    It can be the ``norm_layer`` of gluoncv's nets.

    Parameters
    ----------
    epsilon : float, default 1e-5
        What is added to the variance, from 1e-12 to below 1.
    center, scale : bool, default True
        Whether the shift ``beta`` and the factor ``gamma`` are learned. Otherwise they keep their first value.
    beta_initializer : str or Initializer, default 'zeros'
        The shift's first value.
    gamma_initializer : str or Initializer, default 'ones'
        The factor's first value.
    in_channels : int, default 0
        The number of channels; 0 if it follows from the first input.
    """

    _learned = ("gamma", "beta")

    def __init__(self, num_groups: int = 32, epsilon: float = 1e-5, center: bool = True, scale: bool = True,
                 beta_initializer: str | Initializer = "zeros", gamma_initializer: str | Initializer = "ones",
                 in_channels: int = 0, **kwargs):
        super().__init__(num_groups=num_groups, eps=epsilon, **kwargs)
        with self.name_scope():
            self.gamma = self.params.get("gamma", shape=(in_channels,), init=gamma_initializer,
                                         grad_req="write" if scale else "null", allow_deferred_init=True)
            self.beta = self.params.get("beta", shape=(in_channels,), init=beta_initializer,
                                        grad_req="write" if center else "null", allow_deferred_init=True)

    def hybrid_forward(self, F, data, gamma, beta):
        return super().hybrid_forward(F, data, gamma, beta)
