"""Rows that an operator declares itself, in a module of its name. None is needed."""
