"""How an operator runs: on NDArrays or as a node of a graph, as ``custom``, ``native`` or ``builtin``."""
