"""Ways of failing that are MXNet 1.9.1's and wait for a way round it: counted apart, and made no test fail.

A part of a signature, and the reason. Take an entry out with the repair; nothing that is ours alone goes in.
"""

KNOWN = {
    "values: reference: raises OpError: MXNetError: Check failed: shp.ndim() <= # (# vs. #) : Transpose":
        "MXNet's transpose takes up to 6 dimensions: the gradient of softmax_output and softmax_cross_entropy of 7 and "
        "8 in the custom backend without the C++ library",
    "tile values: builtin: raises RuntimeError: MXNetError: Check failed: in_arg_ctx_map.count(arg_name):":
        "MXNet cannot bind a graph of nothing but identities for inference: tile(x, 1, axis=0) alone",
}


def reason(signature):
    """Why a way of failing is known; None where it is not."""
    return next((why for part, why in KNOWN.items() if part in signature), None)
