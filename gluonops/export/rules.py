"""The shape and the type of what an operator returns: one table, with an entry for each operator. Needs no MXNet.

A rule is a function of a :class:`Call`: it checks the shapes of the inputs, and returns the shape of the only output,
or a list of those of several. Outputs that nothing reads, such as the mask of a Dropout, may be missing.
:func:`infer_shapes` applies the rules to a graph.
"""
from . import operators  # noqa: F401  (its families fill the table)
from .operators.rule_registry import VALUES
from .operators.shape_rules import RULES, Call, Misfit, attributes_of, infer_shapes, infer_types

__all__ = ["RULES", "VALUES", "Call", "Misfit", "attributes_of", "infer_shapes", "infer_types"]
