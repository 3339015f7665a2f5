"""What Darknet itself computed (tests/golden/README.md), and the files to compute it again."""
import pathlib
import runpy

import mxnet as mx
import numpy as np

FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "darknet"
write_weights = runpy.run_path(str(FOLDER / "random_weights.py"))["write"]


def cfg(name):
    return FOLDER / f"{name}.cfg"


def recording(name, seed):
    """The recorded arrays, and the input they belong to."""
    arrays = np.load(FOLDER / f"{name}-seed{seed}.npz")
    draws = np.random.RandomState(int(arrays["input_seed"]))
    return arrays, mx.nd.array(draws.uniform(0, 1, arrays["input_shape"]).astype("float32"))


def weights(name, seed, folder):
    """The weights that the arrays were recorded with; written once."""
    path = folder / f"{name}-seed{seed}.weights"
    if not path.exists():
        write_weights(cfg(name), seed, path)
    return path
