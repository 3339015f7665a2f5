"""What `make arm-check` runs on an emulated Arm processor: linear algebra, every operator, a training, an export."""
import pathlib
import sys
import tempfile
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.core import native, registry
from mxnet import autograd, gluon

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from op_suite import suite_of  # noqa: E402

BACKENDS = {"custom": None, "native": "kernel.cc", "builtin": None}   # name -> the file without which it is missing


def check_linear_algebra(rng):
    """The BLAS and LAPACK that the wheel does not bring."""
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


def check_operators(rng):
    """The first case of every operator: outputs and gradients against the oracle. Returns the number of comparisons."""
    compared = 0
    for name in registry.entries():
        suite = suite_of(name)()
        case = suite.cases[0]
        dtypes = [dtype for dtype in ("float16", "float32", "float64") if dtype in suite.op.types["T"]]
        for backend, file in BACKENDS.items():
            for dtype in dtypes if file not in suite.op.unsupported else ():
                arrays = suite.draw(case, dtype, rng)
                suite.compare(case, dtype, arrays, suite.head(case, arrays, rng), backend)
                compared += 1
    return compared


def check_training(rng, folder):
    """A net learns, and its export gives its outputs in Module."""
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
    prefix = str(pathlib.Path(folder) / "net")
    gops.export.symbol(net, prefix, data.shape)
    module = mx.mod.Module(*[mx.model.load_checkpoint(prefix, 0)[0]], label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.set_params(*mx.model.load_checkpoint(prefix, 0)[1:])
    outputs = module.predict(mx.io.NDArrayIter(data, batch_size=16)).asnumpy()
    np.testing.assert_allclose(outputs, net(data).asnumpy(), rtol=1e-4, atol=1e-5)
    return losses


def main():
    start = time.perf_counter()
    rng = np.random.RandomState(0)
    mx.random.seed(0)
    assert native.loaded(), native.reason()
    check_linear_algebra(rng)
    compared = check_operators(rng)
    with tempfile.TemporaryDirectory() as folder:
        losses = check_training(rng, folder)
    print(f"{compared} comparisons of {len(registry.entries())} operators; loss {losses[0]:.2f} -> {losses[-1]:.2f}; "
          f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
