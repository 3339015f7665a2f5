"""Data to try the layers on."""
from .digits import Split, digits

__all__ = ["Split", "digits"]
