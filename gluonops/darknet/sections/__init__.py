"""The kinds of sections of a cfg: a function for each, which makes its layer. Importing them fills the registry."""
from . import combining, detecting, linear, plain, resizing

__all__ = ["combining", "detecting", "linear", "plain", "resizing"]
