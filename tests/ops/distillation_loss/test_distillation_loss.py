import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from op_suite import Bad, Case, OpSuite, Row, recorded

LOG_2, LOG_3 = np.log(2), np.log(3)


class TestDistillationLoss(OpSuite):
    name = "distillation_loss"
    undefined = ("inf", "-inf", "max", "huge", "nan")   # differences of logits
    cases = (
        Case("rows", ((3, 5), (3, 5))),
        Case("one_row", ((1, 7), (1, 7))),
        Case("channels", ((2, 5, 3, 7), (2, 5, 3, 7)), {"axis": 1, "temperature": 2}),
        Case("many_classes", ((3, 1031), (3, 1031)), {"temperature": 1}),
    )
    empty = Case("empty", ((0, 3), (0, 3)))
    # At temperature 2 the student has (3/4, 1/4) and the teacher (1/2, 1/2).
    table = (
        Row("two_classes", ([[2 * LOG_3, 0]], [[1.0, 1]]), {"temperature": 2}, [2 * (2 * LOG_2 - LOG_3)], [3],
            ([[1.5, -1.5]], [[0, 0]])),
        Row("agreed", ([[1.0, 2]], [[4.0, 5]]), {}, [0], [3], ([[0, 0]], [[0, 0]])),
    )
    errors = (
        Bad("teacher", ((4, 3), (4, 5)), {}, "teacher has shape (4, 5); expected (4, 3)"),
        Bad("vector", ((4,), (4,)), {"axis": 0}, "data has 1 dimension; expected at least 2: a batch of rows"),
        Bad("temperature", ((4, 3), (4, 3)), {"temperature": 0}, "expected a finite number of at least 0.01 and below"),
        Bad("integers", ((4, 3), (4, 3)), {}, "data has dtype int32; expected float16, float32, float64",
            ("int32", "int32")),
    )
    texts = {"temperature": ["0.01", "1e-3", "255.5", "256", "0"]}
    determined = (({"teacher": (2, 3)}, {}, {
        "data": (2, 3), "teacher": (2, 3), "output": (2,), "max": (2,), "log_sum": (2,), "teacher_max": (2,),
        "teacher_log_sum": (2,)}),)

    def amplification(self, attrs, backend, *inputs):
        """Differences of probabilities are multiplied by the temperature."""
        return max(1.0, attrs.temperature)

    def output_amplification(self, attrs, *inputs):
        """Differences of logarithms are multiplied by the square of the temperature."""
        return max(1.0, attrs.temperature ** 2)


@pytest.mark.parametrize("backend", ["native", "cuda", "reference", "builtin"], indirect=True)
def test_large_logits(backend):
    """A student that is sure of another class than its teacher, 1e4 apart: the loss is their distance times T."""
    with gops.backend(backend):
        loss, gradient = recorded(gops.ops.distillation_loss, np.array([[1e4, -1e4]], "float32"),
                                  np.array([[-1e4, 1e4]], "float32"), temperature=2.0)
    np.testing.assert_allclose(loss, 4e4, rtol=1e-6)
    np.testing.assert_allclose(gradient, [[2, -2]], rtol=1e-6)


@pytest.mark.parametrize("backend", ["native", "cuda"], indirect=True)
def test_a_high_temperature_keeps_its_digits(backend, rng):
    """The divergence falls as 1 / T^2; its logarithms do not."""
    data, teacher = rng.randn(2, 16, 1000).astype("float32")
    with gops.backend(backend):
        loss, _ = recorded(gops.ops.distillation_loss, data, teacher, temperature=20.0)
        limit, _ = recorded(gops.ops.distillation_loss, data.astype("float64"), teacher.astype("float64"),
                            temperature=20.0)
    np.testing.assert_allclose(loss, limit, rtol=1e-4)


def test_block(rng):
    pred, teacher = (mx.nd.array(rng.randn(4, 6, 5)) for _ in range(2))
    loss = gops.loss.DistillationLoss(2.0, axis=1, weight=0.5)
    loss.hybridize()
    rows = gops.ops.distillation_loss(pred, teacher, axis=1, temperature=2.0).asnumpy()
    np.testing.assert_allclose(loss(pred, teacher).asnumpy(), 0.5 * rows.mean(1), rtol=1e-6)
    loss.hybridize(False)   # MXNet keeps a hybridized block to the number of inputs that it had first
    weighted = loss(pred, teacher, mx.nd.array([1, 0, 2, 0]).reshape((4, 1, 1))).asnumpy()
    np.testing.assert_allclose(weighted, 0.5 * rows.mean(1) * [1, 0, 2, 0], rtol=1e-6)
    assert repr(loss) == "DistillationLoss(temperature=2.0, axis=1, weight=0.5, batch_axis=0)"
    with pytest.raises(gops.OpError, match="temperature is 0"):
        gops.loss.DistillationLoss(0)


@pytest.mark.parametrize("np_shape", [False, True])
def test_a_builtin_graph_needs_a_batch(np_shape):
    with gops.backend("builtin"):
        graph = gops.ops.distillation_loss(mx.sym.var("data"), mx.sym.var("teacher"), axis=0)
    with mx.util.np_shape(np_shape), pytest.raises(mx.MXNetError):
        graph.infer_shape(data=(3,))
