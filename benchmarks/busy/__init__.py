"""Operators, networks and a training step with nothing set by hand, on a quiet machine and on a busy one."""
