"""Writes the C++ of an operator from its contract: the operator as MXNet sees it, and what calls its kernels."""
from .kernels import Kernels, unit
from .operator_tables import OperatorTable

__all__ = ["Kernels", "OperatorTable", "unit"]
