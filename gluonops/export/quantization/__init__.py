"""What quantizing needs beside the passes: calibration, the errors of layers, and the results."""
from .calibration import METHODS, Ranges, Statistics, check_method
from .layers import layers_of, quantized_weight, reason_for_float, steady
from .report import Quantized, QuantizedLayer
from .running import Batch, Runner, relative_error, run
from .simulation import errors_of_layers, simulated

__all__ = ["METHODS", "Batch", "Quantized", "QuantizedLayer", "Ranges", "Runner", "Statistics", "check_method",
           "errors_of_layers", "layers_of", "quantized_weight", "reason_for_float", "relative_error", "run",
           "simulated", "steady"]
