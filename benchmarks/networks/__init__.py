"""Whole networks on the CPU.

``python -m benchmarks.networks.deploy`` times exported ones, ``.darknet`` Darknet's, and ``.training`` a training. What
is measured, and the targets, are in :mod:`benchmarks.networks.cases`.
"""
