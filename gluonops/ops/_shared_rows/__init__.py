"""Blocks of threads that share a row."""
