"""The operators of gluonops beside their peers on the CPU: ``python -m benchmarks.operators``.

An operator declares rows in ``rows/<op>.py``: ``cases(quick)`` and ``TARGETS``. One without such a file is measured
at the typical size that follows from its contract.
"""
