"""MXNet gives what it gave beside NumPy 1.22; see old_numpy.py, which recorded that."""
import copy
import json
import pathlib
import pickle
import subprocess
import sys

import fresh
import mxnet as mx
import numpy as np
import old_numpy
import pytest

RECORD = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "old_numpy.json").read_text(encoding="utf-8"))
OLD = {text: value for values in RECORD["values"].values() for text, value in values.items()}
IS_NUMPY_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"

# What is meant to be otherwise than with NumPy 1.22.
MEANT = {
    # NDArray has no operator //. NumPy computes it, now that it can read an NDArray.
    "X // scalar(3)": ["np", "float32", [2, 2], [0.0.hex(), 0.0.hex(), 1.0.hex(), 1.0.hex()]],
    # asscalar() of an array of one element is a scalar, whatever its shape; it was an array of that shape.
    "mx.nd.array([[2.5]]).asscalar() + 0.1": ["np scalar", "float64", (2.5 + 0.1).hex()],
    # A method of a scalar gives NumPy's own scalar, whose arithmetic is that of the NumPy that is installed.
    "scalar(2.0**24).astype('int32') + 1": ["np scalar", "int32" if IS_NUMPY_2 else "int64", 2**24 + 1],
}


def test_the_record_has_every_expression():
    assert {group: list(values) for group, values in RECORD["values"].items()} == old_numpy.EXPRESSIONS
    assert RECORD["versions"] == {"Python": "3.8.18", "NumPy": "1.22.4", "MXNet": "1.9.1"}


@pytest.mark.parametrize("group", old_numpy.EXPRESSIONS)
def test_as_with_numpy_1_22(group):
    now = {text: old_numpy.evaluate(text) for text in old_numpy.EXPRESSIONS[group]}
    assert now == {text: MEANT.get(text, OLD[text]) for text in now}


def test_as_with_numpy_1_22_without_gluonops():
    """The wheel of install-mxnet has the same view. With NumPy 1, MXNet's own wheel may be installed."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", fresh.WITHOUT_GLUONOPS + f"""
import runpy, sys
runpy.run_path({old_numpy.__file__!r}, run_name="__main__")
assert "gluonops" not in sys.modules
"""], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout[done.stdout.index("{"):])["values"]
    now = {text: value for group in values.values() for text, value in group.items()}
    assert now == {text: MEANT.get(text, OLD[text]) for text in now}


class TestArray:
    """NumPy takes the elements of an array of MXNet. With NumPy 1.22 most of these were errors, or took minutes."""

    @pytest.mark.parametrize("array", [
        mx.nd.array([[1, 2], [3, 4]]), mx.np.array([[1, 2], [3, 4]], dtype="float32"),
        mx.nd.array([[1, 2], [3, 4]]).tostype("csr"), mx.nd.array([[1, 2], [3, 4]]).tostype("row_sparse"),
    ], ids=["mx.nd", "mx.np", "csr", "row_sparse"])
    def test_conversions(self, array):
        expected = np.array([[1, 2], [3, 4]], dtype="float32")
        for converted in (np.array(array), np.asarray(array), np.asarray([array, array])[1]):
            assert type(converted) is np.ndarray and converted.dtype == "float32"
            assert converted.tolist() == expected.tolist()
        assert np.array(array, dtype="int32").dtype == "int32"
        assert np.array_equal(array, expected) and not np.array_equal(array, expected + 1)

    def test_a_converted_array_is_a_copy(self):
        array = mx.nd.zeros((2,))
        np.asarray(array)[:] = 1
        assert array.asnumpy().tolist() == [0, 0]

    @pytest.mark.skipif(not IS_NUMPY_2, reason="NumPy 1 knows no copy=False that is strict")
    def test_without_a_copy(self):
        with pytest.raises(ValueError, match="copy=None"):
            np.array(mx.nd.zeros((2,)), copy=False)

    def test_functions_that_read_elements(self):
        x = mx.nd.array([[1, 2], [3, 4]])
        assert np.all(x == x) and not np.any(x != x)
        assert np.stack([x, x]).shape == (2, 2, 2) and np.concatenate([x, x]).dtype == "float32"
        assert np.where(x > 2, 1, 0).tolist() == [[0, 0], [1, 1]]
        assert np.isnan(x).dtype == bool and np.dot(x, x).tolist() == [[7, 10], [15, 22]]
        if IS_NUMPY_2:   # NumPy 1.21 takes any sequence for a tuple of indices
            assert np.arange(5)[mx.nd.array([3, 1], dtype="int32")].tolist() == [3, 1]
        target = np.zeros((2, 2))
        target[:] = x
        target[0] = mx.nd.array([7, 8])
        assert target.tolist() == [[7, 8], [3, 4]]
        np.testing.assert_allclose(x, x.asnumpy())
        with pytest.raises(AssertionError):
            np.testing.assert_array_equal(x, x + 1)

    def test_matplotlib(self):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        corners = mx.nd.array([[0, 1], [0, 1]])
        figure, axes = pyplot.subplots()
        axes.contour(corners, corners.T, mx.nd.array([[1, 2], [3, 4]]))
        assert axes.imshow(mx.nd.array([[1, 2], [3, 4]])).get_array().tolist() == [[1, 2], [3, 4]]
        assert np.asarray(axes.plot(mx.nd.array([5, 6]))[0].get_ydata()).tolist() == [5, 6]
        pyplot.close(figure)

    def test_scikit_learn(self):
        metrics = pytest.importorskip("sklearn.metrics")
        assert metrics.accuracy_score(mx.nd.array([1, 0, 1]), mx.nd.array([1, 1, 1])) == 2 / 3


@pytest.mark.skipif(not IS_NUMPY_2, reason="NumPy 1 computes so itself")
class TestScalar:
    def test_it_is_a_scalar_of_numpy(self):
        value = mx.nd.array([0.1]).asscalar()
        assert isinstance(value, np.float32) and type(value).__name__ == "float32"
        assert repr(value) == repr(np.float32(0.1)) and f"{value:.2f}" == "0.10"
        assert np.array([value]).dtype == "float32" and (np.ones(2, "float32") * value).dtype == "float32"

    def test_copies_and_pickles(self):
        value = mx.nd.array([0.1]).asscalar()
        assert type(pickle.loads(pickle.dumps(value))) is np.float32
        assert copy.deepcopy({"loss": value}) == {"loss": np.float32(0.1)}

    def test_what_is_too_large_for_numpy_1(self):
        """Python's whole numbers beyond 64 bits are NumPy's business."""
        with pytest.raises(OverflowError):
            mx.nd.array([1], dtype="int32").asscalar() + 2**70
