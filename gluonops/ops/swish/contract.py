"""The contract of ``swish``."""
from ...contract.op import Attr, Float
from .._activation.contract import activation

OP = activation("swish", "x sigmoid(beta x)", "Swish{args.beta}", attrs=(
    Attr("beta", Float(low=0, below=1000), 1.0, "Factor of x in the sigmoid, from 0 to below 1000."),))
