"""What quantizing needs beside the passes: calibration, and the errors of layers."""
from .calibration import METHODS, Runner, Statistics, check_method
from .layers import errors_of_layers, layers_of, quantized_weight, reason_for_float, relative_error, run, simulated

__all__ = ["METHODS", "Runner", "Statistics", "check_method", "errors_of_layers", "layers_of", "quantized_weight",
           "reason_for_float", "relative_error", "run", "simulated"]
