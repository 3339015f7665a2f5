"""The parts that ``gluonops bench`` and the repository's ``benchmarks/`` share: MXNet's peers, cases, and timing."""
