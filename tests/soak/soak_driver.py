"""Memory over long use, per backend: ``make soak ITERATIONS=20000 NETS=1000``.

Each kind of use runs in a process of its own. The resident memory is read 50 times on the way. The slope is that of a
straight line through the last four fifths of the readings: the first fifth fills caches.
"""
import argparse
import gc
import multiprocessing
import os
import resource
import tempfile

BACKENDS = ("custom", "native", "builtin")
READINGS = 50
PAGE = resource.getpagesize()
SHAPE = (2, 16, 8, 8)


def resident():
    """Bytes of memory that this process holds."""
    gc.collect()
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * PAGE


def make_net(gops):
    """A small net of several operators, with new parameters."""
    from mxnet import gluon
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 3, padding=1), gops.nn.Reorg(2), gops.nn.Abs(), gluon.nn.Dense(10), gops.nn.Softmax())
    net.initialize()
    return net


def iterations(gops, mx):
    """Training steps of one hybridized net, one by one."""
    net, loss = make_net(gops), gops.loss.SoftmaxCELoss()
    net.hybridize(static_alloc=True)
    loss.hybridize()
    data, label = mx.nd.ones(SHAPE), mx.nd.zeros(SHAPE[0])
    while True:
        with mx.autograd.record():
            value = loss(net(data), label)
        value.backward()
        value.wait_to_read()
        yield


def nets(gops, mx):
    """New nets: made, hybridized, run forward and backward, and dropped."""
    data = mx.nd.ones(SHAPE)
    while True:
        net = make_net(gops)
        net.hybridize()
        with mx.autograd.record():
            value = net(data).sum()
        value.backward()
        mx.nd.waitall()
        yield


def exports(gops, mx):
    """Exports of one net over the same files."""
    net = make_net(gops)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            gops.export.symbol(net, os.path.join(folder, "net"), SHAPE)
            yield


USES = {"iterations": iterations, "nets": nets, "exports": exports}


def slope(readings, count):
    """Bytes that the memory grows by in one of ``count`` uses."""
    import numpy as np
    kept = readings[len(readings) // 5:]
    return np.polyfit(np.arange(len(kept)), kept, 1)[0] * len(readings) / count


def measure(use, backend, count, pipe):
    """Send (resting memory, slope) of so many uses."""
    import gluonops as gops
    import mxnet as mx
    with gops.backend(backend):
        turns, readings = USES[use](gops, mx), []
        for number in range(count):
            next(turns)
            if (number + 1) % max(1, count // READINGS) == 0:
                readings.append(resident())
    pipe.send((readings[-1], slope(readings, count)))


def run(use, backend, count):
    """(resting memory, slope) in bytes, measured in a new process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(use, backend, count, there))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20000)
    parser.add_argument("--nets", type=int, default=1000, help="nets, and half as many exports")
    options = parser.parse_args()
    counts = {"iterations": options.iterations, "nets": options.nets, "exports": options.nets // 2}
    print(f"{'use':12} {'backend':8} {'count':>8} {'at the end, MB':>15} {'slope, bytes each':>18}")
    for use, count in counts.items():
        for backend in BACKENDS:
            resting, growth = run(use, backend, count)
            print(f"{use:12} {backend:8} {count:8} {resting / 1e6:15.0f} {growth:18.0f}", flush=True)


if __name__ == "__main__":
    main()
