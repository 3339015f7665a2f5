"""What ``gluonops bench`` and the repository's ``benchmarks/`` share: MXNet's peers of the operators, and timing."""
