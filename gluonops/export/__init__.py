"""Ways out of Gluon."""
from .symbol import symbol

__all__ = ["symbol"]
