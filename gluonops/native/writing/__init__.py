"""Writes the C++ of an operator from its contract: the operator as MXNet sees it, and what calls its kernels."""
from .kernels import Kernels, unit
from .registration import Registration

__all__ = ["Kernels", "Registration", "unit"]
