"""What runs on an emulated processor: linear algebra, every operator, a training, an export, 8 bits.

``make arm-check`` and ``make test-processors`` run it in qemu. Its arguments are names of ``CHECKS``. It prints what
each check found, and then ``passed``.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.backends import native
from gluonops.contract import registry
from mxnet import autograd, gluon

sys.path.append(str(pathlib.Path(__file__).parents[1]))

BACKENDS = {"custom": None, "native": "kernel.cc", "builtin": None}   # name -> the file without which it is missing
FIRST = ("abs", "gelu", "reorg", "rms_norm", "softmax_cross_entropy")


def check_doctor():
    """The doctor's report has no problem, and the C++ library is loaded."""
    assert native.loaded(), native.reason()
    report = gops.doctor()
    assert report["ok"], report["problems"]
    return f"instruction set {native.instruction_set()}"


def check_linear_algebra():
    """MXNet's BLAS and LAPACK, which the wheel for Arm does not bring, and which need AVX in the one for x86-64."""
    rng = np.random.RandomState(0)
    values = rng.rand(20, 30).astype("float32")
    square = values @ values.T + 20 * np.eye(20, dtype="float32")
    product = mx.nd.dot(mx.nd.array(values), mx.nd.array(values), transpose_b=True)
    np.testing.assert_allclose(product.asnumpy(), values @ values.T, rtol=1e-5)
    triangle = mx.nd.linalg.potrf(mx.nd.array(square)).asnumpy()
    np.testing.assert_allclose(triangle @ triangle.T, square, rtol=1e-4)
    left, singular, right = mx.np.linalg.svd(mx.np.array(values))
    np.testing.assert_allclose(((left * singular) @ right).asnumpy(), values, atol=1e-5)
    solved = mx.np.linalg.solve(mx.np.array(square), mx.np.ones((20, 1))).asnumpy()
    np.testing.assert_allclose(square @ solved, np.ones((20, 1)), rtol=1e-4)
    return "products, Cholesky, SVD, solve"


def check_operators():
    """The first case of every operator: outputs and gradients against the oracle."""
    return _compare(registry.entries())


def check_first_operators():
    """Check a few operators in the same way, one of each kind of loop."""
    return _compare(FIRST)


def _compare(names):
    from op_suite import suite_of

    rng, compared = np.random.RandomState(0), 0
    for name in names:
        suite = suite_of(name)()
        case = suite.cases[0]
        dtypes = [dtype for dtype in ("float16", "float32", "float64") if dtype in suite.op.types["T"]]
        for backend, file in BACKENDS.items():
            for dtype in dtypes if file not in suite.op.unsupported else ():
                arrays = suite.draw(case, dtype, rng)
                suite.compare(case, dtype, arrays, suite.head(case, arrays, rng), backend)
                compared += 1
    return f"{compared} comparisons of {len(names)} operators"


def check_training():
    """A net learns, and its export gives its outputs in Module."""
    rng = np.random.RandomState(0)
    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1), gluon.nn.BatchNorm(), gops.nn.Mish(), gops.nn.Reorg(2), gluon.nn.Dense(4))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss = gops.loss.SoftmaxCELoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    labels = mx.nd.array(np.arange(16) % 4)
    data = mx.nd.array(rng.randn(16, 1, 8, 8) + np.arange(16).reshape(16, 1, 1, 1) % 4)
    losses = []
    for _ in range(12):
        with autograd.record():
            mean = loss(net(data), labels).mean()
        mean.backward()
        trainer.step(1)
        losses.append(float(mean.asscalar()))
    assert losses[-1] < losses[0] / 2, losses
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(pathlib.Path(folder) / "net")
        gops.export.symbol(net, prefix, data.shape)
        outputs = _in_module(prefix, data)
    np.testing.assert_allclose(outputs, net(data).asnumpy(), rtol=1e-4, atol=1e-5)
    return f"loss {losses[0]:.2f} -> {losses[-1]:.2f}"


def check_int8():
    """A net in 8 bits is within the error that its command allows, and Module loads it."""
    mx.random.seed(0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1, activation="relu"), gluon.nn.Conv2D(8, 3, padding=1, activation="relu"),
            gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(4))
    net.initialize(mx.init.Xavier())
    data = mx.nd.array(np.random.RandomState(0).rand(8, 3, 12, 12))
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "net"
        result = gops.export.quantize(net, prefix, data, limit=0.05)
        outputs = _in_module(str(prefix), data)
    exact = net(data).asnumpy()
    error = np.sqrt(((outputs - exact) ** 2).mean() / (exact ** 2).mean())
    assert error < 0.05 and result is not None, error
    return f"error {error:.4f}"


def _in_module(prefix, data):
    """Return the outputs of an exported net in MXNet's Module."""
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.set_params(arguments, states)
    return module.predict(mx.io.NDArrayIter(data, batch_size=len(data))).asnumpy()


CHECKS = {"doctor": check_doctor, "linear-algebra": check_linear_algebra, "operators": check_operators,
          "first-operators": check_first_operators, "training": check_training, "int8": check_int8}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checks", nargs="+", choices=CHECKS, metavar="CHECK", help=", ".join(CHECKS))
    for name in parser.parse_args().checks:
        print(f"{name} ...", flush=True)   # an illegal instruction ends the process without another word
        start = time.perf_counter()
        result = CHECKS[name]()
        print(f"{name}: {result}; {time.perf_counter() - start:.0f} s", flush=True)
    print("passed", flush=True)


if __name__ == "__main__":
    main()
