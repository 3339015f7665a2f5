"""The scripts, installed as ``gluonops.examples``: ``gluonops train`` and ``gluonops val`` run some of them."""
