"""What quantizing needs beside the passes: calibration, the errors of layers, and the results."""
