#!/usr/bin/env python3
"""Write a deterministic, well-scaled random Darknet .weights file for a cfg.

    python random_weights.py net.cfg SEED out.weights

Layout (little endian): int32 major=0, minor=2, revision=0; uint64 seen=0; then for each
[convolutional] section in file order: biases[n]; if batch_normalize: scales[n], mean[n],
variance[n]; weights[n, c, k, k]. All float32. The golden files beside this script were made
with exactly these bytes, so the order of the random draws below must not change.
"""
import struct
import sys

import numpy as np


def sections(path):
    out = []
    with open(path) as file:
        lines = file.read().splitlines()
    for line in lines:
        line = line.split('#')[0].strip()
        if not line:
            continue
        if line.startswith('['):
            out.append((line[1:-1], {}))
        else:
            key, _, value = line.partition('=')
            out[-1][1][key.strip()] = value.strip()
    return out


def write(cfg, seed, path):
    rng = np.random.RandomState(seed)
    secs = sections(cfg)
    channels = [int(secs[0][1]['channels'])]      # channels[i] = input channels of layer i
    outs = []
    with open(path, 'wb') as f:
        f.write(struct.pack('<iiiQ', 0, 2, 0, 0))
        for kind, opt in secs[1:]:
            c = channels[-1]
            if kind == 'convolutional':
                n, k = int(opt['filters']), int(opt['size'])
                rng_bias = rng.normal(0, 0.1, n)
                rng_bias.astype('<f4').tofile(f)
                if int(opt.get('batch_normalize', 0)):
                    rng.uniform(0.7, 1.3, n).astype('<f4').tofile(f)
                    rng.normal(0, 0.1, n).astype('<f4').tofile(f)
                    rng.uniform(0.7, 1.3, n).astype('<f4').tofile(f)
                c //= int(opt.get('groups', 1))
                rng.normal(0, np.sqrt(2.0 / (c * k * k)), (n, c, k, k)).astype('<f4').tofile(f)
                c = n
            elif kind == 'route':
                idx = [int(v) for v in opt['layers'].split(',')]
                c = sum(outs[i if i >= 0 else len(outs) + i] for i in idx)
            elif kind == 'reorg':
                s = int(opt.get('stride', 1))
                c = c // (s * s) if int(opt.get('reverse', 0)) else c * s * s
            outs.append(c)
            channels.append(c)


if __name__ == '__main__':
    write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
