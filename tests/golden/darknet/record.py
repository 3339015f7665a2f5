#!/usr/bin/env python3
"""Record what Darknet computes of a small cfg, layer by layer, with random weights.

    python record.py PROGRAM CFG SEED OUT.npz [--fold] [--threshold T]

PROGRAM is record.c, built with one of the two Darknets (README.md). OUT.npz gets the bytes of the weights file, the
shape of the input, every layer's output and, with a threshold, the detections. The input is
``numpy.random.RandomState(seed).uniform(0, 1, shape)``.
"""
import argparse
import os
import subprocess
import tempfile

import gluonops as gops
import mxnet as mx
import numpy as np

NMS = 0.45


def fill(net, draws):
    """Random parameters that keep numbers of one size from layer to layer."""
    net.initialize()
    for name, parameter in sorted(net.collect_params().items()):
        if isinstance(parameter, mx.gluon.Constant):
            continue
        shape = parameter.shape
        if name.endswith(("gamma", "running_var")) or "shortcut" in name:
            value = draws.uniform(0.5, 1.5, shape)
        elif name.endswith("weight") and len(shape) > 1:
            value = draws.normal(0, 1.5 / np.sqrt(np.prod(shape[1:])), shape)
        else:
            value = draws.normal(0, 0.3, shape)
        parameter.set_data(mx.nd.array(value))


def read(path):
    """The layers' outputs and the detections of a recording."""
    data = np.fromfile(path, "<f4")
    whole, at, outputs = data.view("<i4"), 1, []
    for _ in range(whole[0]):
        count = whole[at]
        outputs.append(data[at + 4:at + 4 + count])
        at += 4 + count
    return outputs, data[at:].reshape(-1, 6)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cfg")
    parser.add_argument("seed", type=int)
    parser.add_argument("out")
    parser.add_argument("--fold", action="store_true")
    parser.add_argument("--threshold", type=float)
    args = parser.parse_args()
    net = gops.darknet.load(args.cfg)
    fill(net, np.random.RandomState(args.seed + 1))
    shape = (1, *net.input_shape)
    image = np.random.RandomState(args.seed).uniform(0, 1, shape).astype("<f4")
    program, folder = os.path.abspath(args.program), os.path.dirname(os.path.abspath(args.cfg))
    with tempfile.TemporaryDirectory() as temporary:
        weights, data, out = (os.path.join(temporary, name) for name in ("weights", "input", "out"))
        gops.darknet.save_weights(net, weights)
        image.tofile(data)
        words = [program, os.path.basename(args.cfg), weights, data, out, str(int(args.fold))]
        if args.threshold is not None:
            words += [str(args.threshold), str(NMS)]
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        outputs, detections = read(out)
        arrays = {f"layer_{i:02d}": output for i, output in enumerate(outputs)}
        arrays.update(seed=args.seed, weights=np.fromfile(weights, "u1"))
    if args.threshold is not None:
        arrays.update(threshold=args.threshold, detections=detections)
    np.savez_compressed(args.out, **arrays)


if __name__ == "__main__":
    main()
