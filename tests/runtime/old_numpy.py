"""What MXNet computes with NumPy: the expressions, and a command that records what NumPy 1.22 made of them.

In an environment of Python 3.8 with ``pip install numpy==1.22.4 mxnet==1.9.1``, without gluonops::

    python tests/runtime/old_numpy.py > tests/golden/old_numpy.json

``test_old_numpy.py`` compares the record with what MXNet computes beside the NumPy that is installed.
"""
from __future__ import annotations

import contextlib
import functools
import json
import logging
import operator  # noqa: F401 (expressions use it)
import platform
import warnings

import mxnet as mx
import numpy as np

A = mx.np.array([[1, 2.5], [3, 4]], dtype="float32")
V = mx.np.array([1, 2.5, 3], dtype="float32")
N = mx.np.array([1, float("nan"), 3], dtype="float32")
I = mx.np.array([1, 2, 3], dtype="int32")   # noqa: E741 (next to A, V and N)
FLAGS = mx.np.array([True, False])
X = mx.nd.array([[1, 2], [3, 4]])
ONE = mx.nd.array([1])
HOST = np.array([[1, 2], [3, 4]], dtype="float32")
F16, F32, F64, I32, I64 = np.float16(2), np.float32(2), np.float64(2), np.int32(2), np.int64(2)
ZERO_DIMENSIONS = np.array(2.0)


def filled(dtype, key, value, module=mx.nd):
    """An array of zeros after an assignment."""
    array = module.zeros((3,), dtype=dtype)
    array[key] = value
    return array


def changed(function, value):
    """A copy of HOST after an operation in place."""
    copy = HOST.copy()
    return function(copy, value)


def accumulated(start, value, times):
    """A sum, as a loop of training writes it."""
    total = start
    for _ in range(times):
        total += value
    return total


WHOLE_NUMBERS = """
mx.nd.array([-1], dtype='uint8')
mx.nd.array([300, 1], dtype='uint8')
mx.nd.array((300, -5), dtype='int8')
mx.nd.array([2**40], dtype='int32')
mx.nd.array([2**31, -2**63], dtype='int32')
mx.nd.array([1.5, 300], dtype='uint8')
mx.nd.array([300.7, -1.5], dtype='uint8')
mx.nd.array([[300, 1], [2, -7]], dtype='uint8')
mx.nd.array(300, dtype='uint8')
mx.nd.array(range(254, 259), dtype='uint8')
mx.nd.array([True, 300], dtype='uint8')
mx.nd.array([np.int64(300), 5, -1], dtype='uint8')
mx.nd.array([2**63], dtype='uint8')
mx.nd.array([2**64], dtype='int64')
mx.nd.array([2**70], dtype='float32')
mx.nd.array([[300], [1, 2]], dtype='uint8')
mx.nd.array(['a'], dtype='uint8')
mx.np.array([300], dtype='uint8')
mx.np.array([-1], dtype='uint8')
mx.np.array([[300, 1], [2, -7]], dtype='uint8')
mx.np.array([2**40], dtype='int32')
filled('uint8', slice(None), [300, 1, 2])
filled('uint8', slice(None), (300, -1, 2))
filled('uint8', slice(None), 300)
filled('uint8', slice(None), np.array([300, 1, 2]))
filled('int32', slice(None), [2**40, 1, 2])
filled('uint8', [0, 1], [300, 301])
filled('uint8', slice(0, 2), [300, 301])
filled('uint8', slice(None), [300, 1, 2], mx.np)
mx.nd.sparse.csr_matrix(([300, 1], [0, 1], [0, 1, 2]), shape=(2, 2), dtype='uint8')
mx.nd.array([200, 100, 7], dtype='uint8') + 100
mx.nd.array([200, 100, 7], dtype='uint8') * 3
"""

# The type of a result stays that of MXNet where it was. NumPy could take over, since arrays of MXNet have __array__.
SIGNS = ("+", "-", "*", "/", "**", "%", ">", "==")
ARITHMETIC = "\n".join(f"{left} {sign} {right}" for sign in SIGNS for left, right in [
    ("HOST", "X"), ("X", "HOST"), ("F32", "X"), ("X", "F32"), ("F64", "X"), ("I64", "X"), ("F16", "X"),
    ("ZERO_DIMENSIONS", "X"), ("X", "ZERO_DIMENSIONS"), ("HOST", "A"), ("A", "HOST"), ("F32", "A"), ("A", "F32"),
    ("F64", "A"), ("I64", "A"), ("ZERO_DIMENSIONS", "A")]) + """
np.bool_(True) * X
HOST * X.tostype('csr')
F32 * X.tostype('csr')
HOST + X.tostype('row_sparse')
changed(operator.iadd, X)
changed(operator.imul, X)
changed(operator.iadd, A)
np.add(HOST, A)
np.add(A, A)
np.divide(HOST, A)
np.true_divide(A, A)
np.multiply(A, 2)
np.exp(mx.np.array([0.0]))
np.mean(A)
np.sum(A)
np.max(A)
np.stack([A, A])
np.concatenate([A, A])
np.mean(X)
np.sum(X)
np.max(X)
np.argmax(X)
np.transpose(X)
np.squeeze(X)
np.clip(X, 2, 3)
np.round(X)
np.size(X)
np.shape(X)
np.ndim(X)
X in [X]
ONE in [ONE]
ONE in [0, 1]
1.0 in [ONE]
F32 in [ONE]
HOST in [X]
2.0 in X
ONE in HOST
max(F32, ONE)
max(ONE, F32)
sum([ONE, ONE])
sum([F32, ONE])
F32 < ONE
F32 == ONE
bool(ONE)
list(ONE)
X.tolist()
np.isscalar(ONE)
np.iterable(X)
mx.test_utils.same(X, X)
mx.test_utils.assert_almost_equal(X, X)
np.array_equal(X, X)
np.array_equal(A, A)
np.testing.assert_array_equal(X, X)
np.testing.assert_array_equal(A, A)
"""

FALLBACKS = """
mx.np.alltrue(A)
mx.np.alltrue(A, axis=0)
mx.np.alltrue(FLAGS)
mx.np.sometrue(FLAGS)
mx.np.product(A)
mx.np.count_nonzero(A)
mx.np.count_nonzero(A, axis=0)
mx.np.histogram2d(V, V, bins=2)
mx.np.histogramdd(A, bins=3)
mx.np.histogram_bin_edges(V, bins=3)
mx.np.histogram_bin_edges(I, bins=3)
mx.np.in1d(A, V)
mx.np.msort(A)
mx.np.trapz(A)
mx.np.trapz(V, dx=0.5)
mx.np.nanpercentile(N, 50)
mx.np.nanpercentile(N, [25, 50])
mx.np.nanpercentile(N, mx.np.array([25.0, 50]))
mx.np.nanpercentile(I, 50)
mx.np.nanpercentile(A, [10, 20], axis=1)
mx.np.nanpercentile(N, 50, interpolation='lower')
mx.np.nanpercentile(N, 50, axis=0, interpolation='midpoint')
mx.np.nanpercentile(N, 50, None, None, False, 'higher')
mx.np.nanquantile(N, 0.5)
mx.np.nanquantile(N, [0.25, 0.5], interpolation='higher')
mx.np.nanquantile(N, 0.5, interpolation='nearest', keepdims=True)
mx.np.percentile(A, 50, interpolation='lower')
mx.np.quantile(A, 0.5)
mx.np.median(A)
mx.np.corrcoef(A)
mx.np.interp(mx.np.array([1.5]), V, V)
mx.np.nanmedian(N)
mx.np.nanargmax(N)
mx.np.searchsorted(V, 2.0)
mx.np.unique(A, return_inverse=True)
mx.np.divmod(V, 2)
mx.np.frexp(V)
mx.np.modf(V)
mx.np.ix_(I, I)
mx.np.meshgrid(V, V)
mx.np.broadcast_arrays(V, A[:, :1])
mx.np.intersect1d(V, V, return_indices=True)
mx.np.atleast_1d(V, V)
np.split(A, 2)
np.frexp(V)
type(mx.np.linalg.qr(A)).__name__
[part.shape for part in mx.np.linalg.qr(A)]
type(np.linalg.qr(A)).__name__
type(np.linalg.slogdet(A)).__name__
[part.shape for part in np.linalg.svd(A)]
type(mx.np.linalg.eigh(A)).__name__
"""

# A function of random numbers, and its arguments in front of the size.
RANDOM = {"uniform": "", "normal": "", "lognormal": "", "logistic": "", "gumbel": "", "rayleigh": "", "exponential": "",
          "weibull": "2.0, ", "pareto": "2.0, ", "power": "2.0, ", "gamma": "2.0, ", "chisquare": "2.0, ",
          "beta": "2.0, 2.0, ", "choice": "5, ", "randint": "5, ", "multinomial": "3, [0.5, 0.5], "}
SIZES = "\n".join(f"mx.np.random.{name}({arguments}size={size}).shape" for name, arguments in RANDOM.items()
                  for size in ("np.int64(3)", "(np.int64(2), 3)", "3", "()")) + """
mx.npx.random.bernoulli(0.5, size=np.int64(3)).shape
mx.npx.random.uniform_n(0.0, 1.0, batch_shape=np.int64(3)).shape
mx.npx.random.normal_n(0.0, 1.0, batch_shape=(np.int64(3),)).shape
type(mx.sym.np.random.uniform(size=np.int64(3))).__name__
type(mx.sym.np.random.normal(size=np.int32(3))).__name__
mx.np.zeros(np.int64(3)).shape
mx.nd.zeros(np.int64(3)).shape
mx.nd.random.uniform(shape=np.int64(3)).shape
"""


def scalar(value, dtype="float32"):
    return mx.nd.array([value], dtype=dtype).asscalar()


# Their last bit depends on the processor and on the C library.
POWERS_OF_FRACTIONS = [("**", "scalar(0.1)", "0.1"), ("**", "0.1", "scalar(0.1)")]
SCALARS = "\n".join(f"{left} {sign} {right}" for sign in ("+", "-", "*", "/", "//", "%", "**", "<", "==", ">=")
                    for left, right in [
                        ("scalar(0.1)", "0.1"), ("0.1", "scalar(0.1)"), ("scalar(3)", "2"), ("2", "scalar(3)"),
                        ("scalar(3)", "scalar(2)"), ("scalar(3, 'float16')", "2.0"), ("scalar(200, 'uint8')", "100"),
                        ("100", "scalar(200, 'uint8')"), ("scalar(2**30, 'int32')", "4"),
                        ("scalar(2**30, 'int32')", "4.0"),
                        ("scalar(3, 'int64')", "2"), ("scalar(3, 'float64')", "2"), ("scalar(3)", "True"),
                        ("scalar(3)", "F64"), ("F64", "scalar(3)"), ("scalar(3)", "F32"), ("F32", "scalar(3)"),
                        ("scalar(3)", "HOST"), ("HOST", "scalar(3)"), ("scalar(3)", "X"), ("X", "scalar(3)"),
                        ("scalar(3)", "A"), ("A", "scalar(3)")]
                    if (sign, left, right) not in POWERS_OF_FRACTIONS) + """
accumulated(0.0, scalar(0.1), 1000)
accumulated(0, scalar(1), 5)
2.0**24 + scalar(1)
scalar(200, 'uint8') + 100
scalar(2**30, 'int32') * 4
(scalar(0.1) + scalar(0.2)) * 0.5
-scalar(0.1) + 2.0**24
abs(scalar(-0.1)) + 1.0
round(scalar(2.567), 1) + 0.1
round(scalar(2.567))
divmod(scalar(7), 2)
divmod(7, scalar(2))
scalar(6, 'int32') & 3
6 | scalar(1, 'int32')
~scalar(6, 'int32') + 2**40
scalar(1, 'int32') << 40
sum([scalar(0.1), scalar(0.2)])
max(scalar(0.1), 0.1)
scalar(0.1) in [0.1]
scalar(0.5) in [0.5]
hash(scalar(0.5)) == hash(0.5)
scalar(0.1) + 1j
float(scalar(0.1))
int(scalar(3.7))
[10, 20, 30][scalar(1, 'int32')]
np.array([scalar(0.1), scalar(0.2)])
np.full((2,), scalar(0.5))
np.ones(2, 'float32') * scalar(0.5)
np.sqrt(scalar(4))
np.mean([scalar(1), scalar(2)])
'{:.3f} {}'.format(scalar(0.1), scalar(0.1))
'%.3f %s' % (scalar(0.1), scalar(0.1))
str(scalar(0.1))
scalar(0.1).dtype
scalar(0.1).item()
scalar(2.0**24).astype('int32') + 1
isinstance(scalar(0.1), np.float32)
mx.nd.array([[2.5]]).asscalar() + 0.1
mx.nd.array([1, 2]) * scalar(0.1)
mx.nd.norm(mx.nd.array([3, 4])).asscalar() + 2.0**24
"""


# -- MXNet's own code --------------------------------------------------------------------------------------
# The numbers are multiples of 1/8, and sums of them are exact in float32 until they grow: then a sum in float32 shows.
def update(metric, times, pairs):
    """What a metric says after many updates with the same labels and predictions."""
    for k in range(times):
        label, prediction = arrays(pairs, k % 42)   # they repeat after so many updates, at the latest
        metric.update([label], [prediction])
    value = metric.get()[1]
    return value if isinstance(value, list) else float(value)


@functools.lru_cache(None)
def arrays(pairs, k):
    """The labels and the predictions of an update."""
    label, prediction = pairs(k)
    return mx.nd.array(label), mx.nd.array(prediction)


def regression(k):
    return [[k % 7 * 8192.125], [k % 3 * 4096.5]], [[0.125], [1.25]]


def classes(k):
    return [k % 3, 1, 0], [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]


def two_classes(k):
    return [k % 2, 1, 0], [[0.75, 0.25], [0.25, 0.75], [0.75, 0.25] if k % 3 else [0.25, 0.75]]


@functools.lru_cache(None)
def metric(name, times=200):
    create = {"CustomMetric": lambda: mx.metric.CustomMetric(lambda label, pred: np.abs(label - pred).mean()),
              "np": lambda: mx.metric.np(lambda label, pred: np.abs(label - pred).sum()),
              "Perplexity": lambda: mx.metric.Perplexity(None), "TopKAccuracy": lambda: mx.metric.TopKAccuracy(2),
              "Composite": lambda: mx.metric.CompositeEvalMetric([mx.metric.MAE(), mx.metric.RMSE()])}
    pairs = {"F1": two_classes, "MCC": two_classes, "PCC": classes, "Accuracy": classes, "TopKAccuracy": classes,
             "CrossEntropy": classes, "NegativeLogLikelihood": classes, "Perplexity": classes}
    return update(create.get(name, getattr(mx.metric, name, None))(), times, pairs.get(name, regression))


def losses(times):
    """The sum begins so high that a sum in float32 stops to grow."""
    mean = mx.metric.Loss()
    mean.update(None, [mx.nd.array([2**24])])
    for _ in range(times):
        mean.update(None, [mx.nd.array([1.0])])
    return mean.get()[1]


def rates(name, kind):
    """The rates of a scheduler whose numbers are of a type."""
    create = {
        "factor": lambda: mx.lr_scheduler.FactorScheduler(10, kind(0.93), base_lr=kind(0.1), warmup_steps=5,
                                                          warmup_begin_lr=kind(0.01)),
        "multi": lambda: mx.lr_scheduler.MultiFactorScheduler([10, 50], kind(0.93), base_lr=kind(0.1), warmup_steps=5),
        "poly": lambda: mx.lr_scheduler.PolyScheduler(150, base_lr=kind(0.1), pwr=2, final_lr=kind(0.001)),
        "cosine": lambda: mx.lr_scheduler.CosineScheduler(150, base_lr=kind(0.1), final_lr=kind(0.001), warmup_steps=5)}
    schedule = create[name]()
    return [float(schedule(step)) for step in range(1, 170, 7)]


def clipped(kind, scale):
    arrays = [mx.nd.array(np.arange(1, 13).reshape(3, 4) * scale), mx.nd.ones((5,)) * scale]
    return [mx.gluon.utils.clip_global_norm(arrays, kind(1.75)), *arrays]


def trained(kind):
    """The rate and the weight after steps of a Trainer whose numbers are of a type."""
    net = mx.gluon.nn.Dense(1, in_units=3)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": kind(0.125), "momentum": kind(0.5)})
    for _ in range(20):
        with mx.autograd.record():
            loss = net(mx.nd.ones((4, 3))).sum()
        loss.backward()
        trainer.step(4)
        trainer.set_learning_rate(trainer.learning_rate * kind(0.9))
    return trainer.learning_rate, net.weight.data()


def stopped_early():
    """The best value and the patience of the estimator's handler."""
    handlers = mx.gluon.contrib.estimator
    loss = mx.metric.Loss()
    handler = handlers.EarlyStoppingHandler(loss, min_delta=np.float32(0.1), patience=2, baseline=np.float32(0.3))
    handler.train_begin(None)
    history = []
    for value in (0.9, 0.4, 0.35, 0.3, 0.31):
        loss.reset()
        loss.update(None, [mx.nd.array([value])])
        handler.epoch_end(None)
        history.append((float(handler.best), handler.wait, handler.stop_training))
    return history


def estimated():
    """What the estimator's metrics say after two epochs."""
    net = mx.gluon.nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    data = mx.gluon.data.ArrayDataset(mx.nd.array(np.eye(16)[:, :2]), mx.nd.array(np.arange(16) % 2))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.125})
    estimator = mx.gluon.contrib.estimator.Estimator(net, mx.gluon.loss.L2Loss(), train_metrics=[mx.metric.Accuracy()],
                                                     trainer=trainer)
    logging.disable(logging.CRITICAL)
    try:
        estimator.fit(mx.gluon.data.DataLoader(data, 4), epochs=2)
    finally:
        logging.disable(logging.NOTSET)
    return [type(value).__name__ for measure in estimator.train_metrics for value in [measure.get()[1]]]


OWN = "\n".join(f"metric({name!r})" for name in (
    "Accuracy", "TopKAccuracy", "F1", "MCC", "PCC", "MAE", "MSE", "RMSE", "CrossEntropy", "NegativeLogLikelihood",
    "Perplexity", "PearsonCorrelation", "CustomMetric", "np", "Composite")) + "\n" + "\n".join(
    f"rates({name!r}, {kind})" for name in ("factor", "multi", "poly", "cosine")
    for kind in ("float", "np.float32", "np.float64")) + """
losses(300)
clipped(float, 3)
clipped(np.float32, 1000)
trained(float)
trained(np.float32)
stopped_early()
estimated()
"""

GROUPS = {"whole numbers": WHOLE_NUMBERS, "arithmetic": ARITHMETIC, "fallbacks": FALLBACKS, "sizes": SIZES,
          "scalars": SCALARS, "MXNet's own code": OWN}
EXPRESSIONS = {group: list(dict.fromkeys(text.strip().splitlines())) for group, text in GROUPS.items()}


def described(value):
    """A value in JSON: what it is, its dtype, its shape, and its elements, floats with their exact digits."""
    if isinstance(value, (mx.nd.NDArray, np.ndarray)):
        package = {"NDArray": "mx.nd", "ndarray": "np"}.get(type(value).__name__, "mx.nd.sparse")
        host = value.asnumpy() if isinstance(value, mx.nd.NDArray) else value
        if isinstance(value, mx.np.ndarray):
            package = "mx.np"
        return [package, host.dtype.name, list(host.shape), [described(item) for item in host.ravel().tolist()]]
    if isinstance(value, np.generic):
        return ["np scalar", value.dtype.name, described(value.item())]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [described(item) for item in value]]
    if isinstance(value, complex):
        return ["complex", described(value.real), described(value.imag)]
    if isinstance(value, float):
        return value.hex()
    return value if isinstance(value, (int, str, type(None))) else str(value)


def evaluate(expression):
    """The described value of an expression, or the name of the error that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.suppress(SyntaxError):
        warnings.simplefilter("ignore")
        try:
            return described(eval(expression))
        except Exception as error:
            return ["raises", type(error).__name__]


def main():
    versions = {"Python": platform.python_version(), "NumPy": np.__version__, "MXNet": mx.__version__}
    values = {group: {text: evaluate(text) for text in texts} for group, texts in EXPRESSIONS.items()}
    print(json.dumps({"versions": versions, "values": values}, indent=1))


if __name__ == "__main__":
    main()
