"""The NumPy that MXNet and gluoncv see: in new processes what is importable, and here what it computes.

test_old_numpy.py runs MXNet without gluonops.
"""
import importlib.util
import os
import random
import subprocess
import sys
import warnings

import fresh
import imported
import mxnet as mx
import numpy as np
import pytest
from gluonops.runtime import numpy_view


def after_mxnet(code, folder):
    """Run a program in a process that has imported MXNet as ``import gluonops`` does; a folder has modules for it."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = fresh.python("-c", code, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr


class TestImport:
    def test_numpy_stays_as_it_is(self):
        """It only loads its own modules when somebody uses them, and other packages see it.

        test_old_numpy.py imports scikit-learn in a process that has imported gluonops.
        """
        report, _ = imported.report()
        assert report["imported"] == [] and report["numpy is one"] and report["mxnet has a view"]
        assert report["names of numpy"] == {"changed": [], "removed": [], "bool": 0}

    def test_statistics_are_loaded_when_they_are_used(self):
        """The test above sees that they are not loaded before."""
        pytest.importorskip("scipy")
        assert mx.test_utils.ss.norm.cdf(0) == 0.5 and "scipy.stats" in sys.modules

    @pytest.mark.parametrize("words", [("scipy.stats", None), ("scipy", ["stats"])])
    def test_statistics_are_there_where_scipy_is(self, words, monkeypatch):
        """MXNet takes None for them where scipy is not installed."""
        monkeypatch.delitem(sys.modules, "scipy.stats", raising=False)
        asked = numpy_view._asks_for_statistics(*words)
        assert asked == (importlib.util.find_spec("scipy") is not None)
        assert not numpy_view._asks_for_statistics("scipy", ["sparse"])
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert not numpy_view._asks_for_statistics(*words)

    def test_a_second_copy_does_nothing(self):
        finders = list(sys.meta_path)
        spec = importlib.util.spec_from_file_location("another_copy", numpy_view.__file__)
        copy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copy)
        copy.install()
        assert sys.meta_path == finders

    def test_scikit_learn_is_there(self, tmp_path):
        """MXNet uses it where it was imported. A package of that name stands for it, and MXNet's module runs again."""
        (tmp_path / "sklearn").mkdir()
        (tmp_path / "sklearn" / "__init__.py").touch()
        (tmp_path / "sklearn" / "base.py").write_text("class BaseEstimator:\n    pass\n")
        after_mxnet("""
import importlib
import gluonops, mxnet
assert mxnet.model.FeedForward.__bases__ == (object,)
import sklearn.base
importlib.reload(mxnet.model)
assert issubclass(mxnet.model.FeedForward, sklearn.base.BaseEstimator)
""", tmp_path)

    def test_torch_2_is_there(self, tmp_path):
        """gluoncv does not see torch, and everybody else does."""
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.13.0'")
        (tmp_path / "torch-2.13.0.dist-info").mkdir()
        (tmp_path / "torch-2.13.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.13.0\n")
        after_mxnet("""
import importlib.util, sys
import gluonops
if importlib.util.find_spec("gluoncv"):
    importlib.import_module("gluoncv.utils.viz")
    assert "torch" not in sys.modules
import torch
assert torch.__version__ == "2.13.0"
""", tmp_path)

    def test_every_source_change_applies(self):
        for module, changes in numpy_view.SOURCE_CHANGES.items():
            if module.startswith("gluoncv"):
                pytest.importorskip("gluoncv")
            with open(importlib.util.find_spec(module).origin, encoding="utf-8") as file:
                source = file.read()
            assert all(old in source for old, _ in changes), module


def test_workers_fork(monkeypatch):
    """They fork also where that is no longer the default, and not where the program has chosen something else."""
    multiprocessing = mx.gluon.data.dataloader.multiprocessing
    monkeypatch.setattr(numpy_view.multiprocessing, "get_all_start_methods", lambda: ["forkserver", "spawn", "fork"])
    for chosen, expected in ((None, "fork"), ("forkserver", "fork"), ("spawn", "spawn")):
        monkeypatch.setattr(numpy_view.multiprocessing, "get_start_method", lambda allow_none, chosen=chosen: chosen)
        assert multiprocessing.get_context().get_start_method() == expected
    monkeypatch.setattr(numpy_view.multiprocessing, "get_start_method", lambda allow_none: "forkserver")
    with multiprocessing.Pool(1) as pool:
        assert pool.apply(os.getppid) == os.getpid()


class TestOldNames:
    def test_what_mxnet_reads(self):
        view = mx.numpy_dispatch_protocol._np
        assert view.bool is np.bool_ and view.float is float and view.NINF == -np.inf
        with pytest.raises((AttributeError, RuntimeError), match="numpy-financial|numpy.financial|NEP"):
            view.mirr([1], 1, 1)

    def test_functions_that_numpy_computes(self):
        x = mx.np.array([[1, 2], [3, 4]])
        assert mx.np.in1d(x, mx.np.array([2, 3])).tolist() == [False, True, True, False]
        assert mx.np.trapz(x).tolist() == [1.5, 3.5]
        assert mx.np.pad(x, ((1, 1), (1, 1))).shape == (4, 4)
        assert mx.nd.moveaxis(mx.nd.ones((2, 3)), 0, 1).shape == (3, 2)


class TestRepairs:
    def test_numbers_in_tuples(self):
        two = np.int64(2)
        assert mx.nd.ones((two, 3)).reshape((np.int32(3), two)).shape == (3, 2)
        assert mx.sym.var("x", shape=(two, 3)).infer_shape()[1] == [(2, 3)]
        boxes = mx.sym.contrib.MultiBoxPrior(mx.sym.var("x"), sizes=(np.float32(0.1), [np.float64(0.3)][0]))
        assert '"sizes": "(0.1, 0.3)"' in boxes.tojson()
        assert '"scalar": "1000000.0"' in (mx.sym.var("x") * np.float32(1e6)).tojson()

    def test_records(self):
        packed = mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2.5], 1, 0), b"abc")
        assert mx.recordio.unpack(packed)[0].label.tolist() == [1, 2.5]
        image = np.arange(48, dtype="uint8").reshape(4, 4, 3)
        pytest.importorskip("cv2")
        packed = mx.recordio.pack_img(mx.recordio.IRHeader(0, 3.0, 1, 0), image, img_fmt=".png")
        np.testing.assert_array_equal(mx.recordio.unpack_img(packed)[1], image)

    def test_one_element_of_any_shape(self):
        assert float(mx.nd.full((1, 1, 1), 2.5).asscalar()) == 2.5

    def test_sparse_matrices_of_scipy(self):
        """MXNet asks ``scipy.sparse.csr`` for the class, which warns, and is no longer there in SciPy 2."""
        sparse = pytest.importorskip("scipy.sparse")
        dense = np.array([[0, 2, 0], [1, 0, 0]], "float32")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            arrays = [mx.nd.array(dense), mx.nd.array(sparse.csr_matrix(dense)),
                      mx.nd.sparse.array(sparse.csr_matrix(dense)), mx.nd.sparse.csr_matrix(sparse.csr_matrix(dense))]
            written = arrays[-1].asscipy()
        assert all((array.asnumpy() == dense).all() for array in arrays)
        assert [array.stype for array in arrays] == ["default", "csr", "csr", "csr"]
        assert isinstance(written, sparse.csr_matrix) and (written.toarray() == dense).all()

    def test_thresholds_of_a_quantized_net(self):
        counts, edges = np.histogram(np.linspace(-4, 4, 4001) ** 3 / 16, bins=801, range=(-4, 4))
        thresholds = mx.contrib.quantization._get_optimal_threshold((counts, edges, -4.0, 4.0, 4.0), "int8", 31)
        assert mx.base.c_array(mx.base.ctypes.c_float, thresholds)[0] == -4

    def test_targets_of_centernet(self):
        target = pytest.importorskip("gluoncv.model_zoo.center_net.target_generator")
        heatmap, *_ = target.CenterNetTargetGenerator(3, 16, 16)(np.array([[1, 2, 9, 10.0]]), np.array([[2]]))
        assert heatmap[2].max() == 1 and heatmap[:2].max() == 0


# The digits of NumPy 1.26.4, from this file's functions. There a float32 and a float of Python make a float64.
RATE = np.float32(0.1)


def sum_of_losses():
    metric = mx.metric.Loss()
    for loss in (2**24, *[1] * 10):
        metric.update(None, [mx.nd.array([loss])])
    return metric.sum_metric


def mean_of_floats():
    metric = mx.metric.CustomMetric(lambda label, pred: np.float32(pred.mean()))
    for k in range(7):
        metric.update([mx.nd.zeros(1)], [mx.nd.array([k / 7])])
    return metric.get()[1]


def scheduled():
    return mx.lr_scheduler.CosineScheduler(50, RATE)(3)


def scheduled_by_gluoncv():
    return pytest.importorskip("gluoncv").utils.LRScheduler("step", base_lr=RATE, niters=9, step_iter=[1])(5)


def updated():
    weight = mx.nd.array(np.linspace(-1, 1, 100))
    optimizer = mx.optimizer.Adam(learning_rate=RATE)
    state = optimizer.create_state(0, weight)
    for step in range(1, 6):
        optimizer.update(0, weight, mx.nd.array((np.arange(100) * step % 7 - 3) / 3), state)
    return total(weight)


def total(array):
    return array.asnumpy().astype("float64").sum()


def image(augmenter, pixels):
    random.seed(3)
    np.random.seed(3)
    return total(augmenter(mx.nd.array(pixels)))


def contrast():
    return image(mx.image.ContrastJitterAug(np.float32(0.4)), np.linspace(0, 255, 300).reshape(10, 10, 3))


def hue():
    """A red, a green and a blue pixel show the matrix itself, without sums that processors round apart."""
    return image(mx.image.HueJitterAug(np.float32(0.4)), np.diag([1, 2, 4]).reshape(1, 3, 3))


@pytest.mark.parametrize("compute, digits", [
    (sum_of_losses, "0x1.00000a0000000p+24"),
    (mean_of_floats, "0x1.b6db6e6db6db7p-2"),
    (scheduled, "0x1.95f8f18004e2bp-4"),
    (scheduled_by_gluoncv, "0x1.47ae14ccccccdp-7"),
    (updated, "-0x1.4efa425800000p+0"),
    (contrast, "0x1.2ac0282540000p+15"),
    (hue, "0x1.fa18324000000p+2"),
])
def test_digits(compute, digits):
    assert float(compute()).hex() == digits


def test_after_an_import_of_mxnet_that_failed():
    """MXNet's own wheel fails with a newer NumPy, in a notebook that goes on. It leaves its parts without itself."""
    code = "import sys, types; sys.modules['mxnet.base'] = types.ModuleType('mxnet.base'); import gluonops"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == (
        "ImportError: gluonops: an earlier import of mxnet has failed in this process. Start Python again, and import "
        "gluonops first.")
