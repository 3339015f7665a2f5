"""The contract of ``abs``."""
from ...contract.op import FLOATS, INTEGERS
from .._activation.contract import activation

OP = activation("abs", "absolute value", types=FLOATS + INTEGERS, accumulate_fp32=False,
                avx512=("float32", "float16"))
