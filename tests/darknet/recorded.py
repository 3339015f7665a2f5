"""What Darknet itself computed (tests/golden/README.md), and the files to compute it again."""
import pathlib
import runpy

import gluonops as gops
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


def recorded_net(name, folder):
    """A net of record.py with its weights, the arrays, and the input they belong to."""
    arrays = np.load(FOLDER / f"{name}.npz")
    path = folder / f"{name}.weights"
    arrays["weights"].tofile(path)
    net = gops.darknet.load(cfg(name), path)
    image = np.random.RandomState(int(arrays["seed"])).uniform(0, 1, (1, *net.input_shape))
    return net, arrays, mx.nd.array(image.astype("float32"))


def corners(detections, height, width):
    """Recorded detections as class, probability, left, top, right, bottom in pixels."""
    classes, probability, x, y, w, h = detections.T
    return np.stack([classes, probability, (x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width,
                     (y + h / 2) * height], 1)


def paired(ours, theirs):
    """Our detections in the order of the recorded ones: each is the other's nearest. Sorting would swap those that are
    almost equal."""
    assert len(ours) == len(theirs)
    nearest = np.abs(ours[None] - theirs[:, None]).sum(-1).argmin(1)
    assert len(set(nearest)) == len(nearest)
    return ours[nearest]
