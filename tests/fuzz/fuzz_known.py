"""Ways of failing that are MXNet 1.9.1's and wait for a way round it: counted apart, and made no test fail.

A part of a signature, and the reason. Take an entry out with the repair; nothing that is ours alone goes in.
"""

KNOWN = {"MKLDNN doesn't support # dimensions": "concat of float32 along axis 1 fails from 7 dimensions on"}


def reason(signature):
    """Why a way of failing is known; None where it is not."""
    return next((why for part, why in KNOWN.items() if part in signature), None)
