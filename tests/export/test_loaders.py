"""Exported files in processes that know nothing of gluonops: Module, SymbolBlock, the C predict API, a C++ program."""
import pathlib
import shutil
import subprocess
import sys

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

ROOT = pathlib.Path(__file__).parent.parent.parent
SHAPE = (2, 3, 8, 8)
PREAMBLE = """
import sys
import numpy as np
prefix, *library = sys.argv[1:]
data = np.load("data.npy")
"""
WITH_MXNET = fresh.WITHOUT_GLUONOPS + """
import mxnet as mx
for path in library:
    mx.library.load(path, verbose=False)
"""
LOADERS = {
    "module_and_symbol_block": WITH_MXNET + """
module = mx.mod.Module.load(prefix, 0, label_names=None)
module.bind([("data", data.shape)], for_training=False)
module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
outputs = [output.asnumpy() for output in module.get_outputs()]
block = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
outputs += [output.asnumpy() for output in block(mx.nd.array(data))]
""",
    # A program in any language would do so: it finds the shared library alone, without importing mxnet.
    "c_predict": """
import ctypes, importlib.util, os
folder = importlib.util.find_spec("mxnet").submodule_search_locations[0]
lib = ctypes.CDLL(os.path.join(folder, "libmxnet.so"))
lib.MXGetLastError.restype = ctypes.c_char_p
def check(status):
    assert status == 0, lib.MXGetLastError().decode()
for path in library:
    check(lib.MXLoadLib(path.encode(), 0))
symbol, parameters = open(f"{prefix}-symbol.json", "rb").read(), open(f"{prefix}-0000.params", "rb").read()
handle = ctypes.c_void_p()
check(lib.MXPredCreate(symbol, parameters, len(parameters), 1, 0, 1, (ctypes.c_char_p * 1)(b"data"),
                       (ctypes.c_uint * 2)(0, data.ndim), (ctypes.c_uint * data.ndim)(*data.shape),
                       ctypes.byref(handle)))
check(lib.MXPredSetInput(handle, b"data", data.ctypes.data_as(ctypes.c_void_p), data.size))
check(lib.MXPredForward(handle))
outputs = []
for index in range(2):
    sizes, ndim = ctypes.POINTER(ctypes.c_uint)(), ctypes.c_uint()
    check(lib.MXPredGetOutputShape(handle, index, ctypes.byref(sizes), ctypes.byref(ndim)))
    outputs.append(np.zeros(sizes[:ndim.value], np.float32))
    check(lib.MXPredGetOutput(handle, index, outputs[-1].ctypes.data_as(ctypes.c_void_p), outputs[-1].size))
check(lib.MXPredFree(handle))
check(lib.MXNDArrayWaitAll())   # it frees in its own threads, and a process that ends meanwhile may crash
assert "mxnet" not in sys.modules
""",
}
AFTERWARDS = """
np.savez("outputs.npz", *outputs)
assert not any(name.startswith("gluonops") for name in sys.modules)
"""


class Net(mx.gluon.HybridBlock):
    """Two outputs, a batch norm, operators of gluonops."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), gops.nn.Reorg(2), nn.Conv2D(4, 1))
            self.dense, self.softmax = nn.Dense(5), gops.nn.Softmax()

    def hybrid_forward(self, F, data):
        features = self.body(data)
        return self.softmax(self.dense(features)), features


@pytest.fixture
def exported(request, rng, tmp_path):
    """(expected outputs, prefix, library) of a backend's export; builtin is folded on top."""
    net = Net()
    net.initialize(mx.init.Xavier())
    with mx.autograd.record():
        net(mx.nd.array(rng.randn(*SHAPE)))
    data = rng.randn(*SHAPE).astype(np.float32)
    np.save(tmp_path / "data.npy", data)
    gops.export.symbol(net, tmp_path / "net", SHAPE, backend=request.param, fold_batch_norm=request.param == "builtin")
    expected = [output.asnumpy() for output in net(mx.nd.array(data))]
    return expected, tmp_path / "net", [gops.native_library_path()] if request.param == "native" else []


def close(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


BACKENDS = pytest.mark.parametrize("exported", ["builtin", "native"], indirect=True)


# Each loader and each backend every day.
@pytest.mark.parametrize("loader, exported", [
    ("module_and_symbol_block", "builtin"), ("c_predict", "native"),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("module_and_symbol_block", "native"),
                                                               ("c_predict", "builtin")))], indirect=["exported"])
def test_a_fresh_process(loader, exported, tmp_path):
    expected, prefix, library = exported
    arguments = ["-c", PREAMBLE + LOADERS[loader] + AFTERWARDS, str(prefix), *library]
    if loader == "c_predict":
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True)
    else:
        done = fresh.python(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = list(np.load(tmp_path / "outputs.npz").values())
    for once in (found,) if len(found) == 2 else (found[:2], found[2:]):
        close(once, expected)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "the C++ example needs a compiler, as the package's own library does"
    folder, mxnet = tmp_path_factory.mktemp("program"), pathlib.Path(mx.__file__).parent
    source = ROOT / "examples" / "deploy" / "predict.cc"
    command = [compiler, "-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", source,
               f"-I{mxnet / 'include'}", f"-L{mxnet}", "-lmxnet", f"-Wl,-rpath,{mxnet}", "-o", folder / "predict"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "predict"


def predict(program, *arguments, cwd):
    return subprocess.run([str(program), *map(str, arguments)], cwd=cwd, capture_output=True, text=True)


@pytest.mark.slow
@BACKENDS
def test_the_program(exported, program, tmp_path):
    expected, prefix, library = exported
    np.load(tmp_path / "data.npy").tofile(tmp_path / "data.f32")
    done = predict(program, f"{prefix}-symbol.json", f"{prefix}-0000.params", "2,3,8,8", "data.f32", "out.f32",
                   *library, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "output 0: 2 5\noutput 1: 2 4 4 4\n"
    numbers = np.fromfile(tmp_path / "out.f32", np.float32)
    close([numbers[:10].reshape(2, 5), numbers[10:].reshape(2, 4, 4, 4)], expected)


@pytest.mark.slow
@pytest.mark.parametrize("exported", ["builtin"], indirect=True)
def test_what_the_program_refuses(exported, program, tmp_path):
    _, prefix, _ = exported
    files = f"{prefix}-symbol.json", f"{prefix}-0000.params"
    (tmp_path / "short.f32").write_bytes(b"1234")
    for arguments, code, text in [
            ((), 2, "usage: predict"),
            (("none.json", files[1], "2,3,8,8", "short.f32", "out"), 1, "cannot read none.json"),
            ((*files, "2,0,8,8", "short.f32", "out"), 1, "the shape 2,0,8,8 has a size below 1"),
            ((*files, "2,3,8,8", "short.f32", "out"), 1, "short.f32 has 4 bytes; expected 1536 for the shape 2,3,8,8")]:
        done = predict(program, *arguments, cwd=tmp_path)
        assert done.returncode == code and text in done.stderr
