"""Operators, networks and training steps with default settings, on a quiet and on a busy machine."""
