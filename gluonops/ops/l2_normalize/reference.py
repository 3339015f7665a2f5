"""``l2_normalize`` and its gradients, computed with MXNet's own operators."""
from .._rms.reference import functions

forward, backward = functions("sum")
