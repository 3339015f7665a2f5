"""Files of arrays: read and written as MXNet does it; what is damaged is refused."""
import struct

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.io import params

VALUES = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones(3, "float16"),
          "\u00fc": np.ones((1, 2), "int8")}
# Places in the file: the count, the first array's mark, storage, dimensions, sizes, device, number and type.
COUNT, MARK, STORAGE, NDIM, SIZE, DEVICE, TYPE = 16, 24, 28, 32, 36, 52, 60


@pytest.fixture
def path(tmp_path):
    """A file of three arrays."""
    path = tmp_path / "net.params"
    mx.nd.save(str(path), {name: mx.nd.array(value, dtype=value.dtype) for name, value in VALUES.items()})
    return path


def refused(path, text):
    with pytest.raises(gops.OpError, match=f"gluonops.test: .*{text}.* Save the arrays again"):
        params.load_arrays("test", path)


def change(path, place, format, number):
    content = bytearray(path.read_bytes())
    struct.pack_into(format, content, place, number)
    path.write_bytes(content)


def test_arrays_by_name(path, tmp_path):
    loaded = params.load_arrays("test", path)
    assert {name: value.asnumpy().tolist() for name, value in loaded.items()} == {
        name: value.tolist() for name, value in VALUES.items()}
    assert [loaded[name].dtype for name in VALUES] == [value.dtype for value in VALUES.values()]
    mx.nd.save(str(tmp_path / "empty"), {})
    assert params.load_arrays("test", tmp_path / "empty") == {}


def test_older_formats(tmp_path):
    """MXNet before 1.0 wrote a mark and 64-bit sizes, and before that no mark."""
    for shape in (struct.pack("<Iiq", params.MARK_V1, 1, 2), struct.pack("<II", 1, 2)):
        array = shape + struct.pack("<iii2f", 1, 0, 0, 3.5, 4.5)
        content = struct.pack("<QQQ", params.LIST_MARK, 0, 1) + array + struct.pack("<QQ1s", 1, 1, b"w")
        (tmp_path / "old.params").write_bytes(content)
        loaded = params.load_arrays("test", tmp_path / "old.params")
        assert loaded["w"].asnumpy().tolist() == [3.5, 4.5]


@pytest.mark.parametrize("place, format, number, text", [
    (0, "<Q", 7, "byte 0: the mark 0x112 is missing"), (COUNT, "<Q", 10**7, "byte 1"), (COUNT, "<Q", 2, "byte 1"),
    (STORAGE, "<i", 3, "byte 24: an array has the storage 3; expected 0"), (STORAGE, "<i", 1, "byte"),
    (NDIM, "<i", -1, "byte 24: an array has -1 dimensions; expected 1 to 32"),
    (NDIM, "<i", 10**9, "byte 24: an array has 1000000000 dimensions"),
    (SIZE, "<q", -2, r"byte 24: array 0 has the shape \(-2, 3\)"),
    (SIZE, "<q", 2**62, "byte 64: .* more bytes are expected here, and the file has only"),
    (DEVICE, "<i", 77, "byte 24: array 0 has the device type 77"), (TYPE, "<i", 77, "the dtype number 77"),
    (MARK, "<I", 5, "byte"),
])
def test_damaged_structure(place, format, number, text, path):
    change(path, place, format, number)
    refused(path, text)


def test_damaged_names(path, tmp_path):
    content = path.read_bytes()
    renamed = content.replace(b"\x01\0\0\0\0\0\0\0b", b"\x01\0\0\0\0\0\0\0a")
    for damaged, text in ((content[:-2] + b"\xff\xff", "a name is not UTF-8"),
                          (content + b"0", "the arrays end here, and the file has"),
                          (content[:-3], "more bytes are expected here"),
                          (renamed, "two arrays have the same name")):
        path.write_bytes(damaged)
        refused(path, text)
    mx.nd.save(str(path), [mx.nd.ones(3)])
    refused(path, "net.params is not a file of named arrays, because its arrays have no names")
    refused(tmp_path / "none.params", "none.params cannot be read: No such file")


def test_what_needs_numpys_shapes(path):
    """MXNet takes no shape () or (0, 3) otherwise; other arrays of such a file are read."""
    with mx.util.np_shape(True):
        mx.nd.save(str(path), {"scalar": mx.nd.array(3.0), "row": mx.nd.ones((1, 3))})
        assert params.load_arrays("test", path)["scalar"].shape == ()
    with pytest.raises(gops.OpError, match=r"net.params: scalar has the shape \(\), which MXNet takes with NumPy's"):
        params.load_arrays("test", path)
    with mx.util.np_shape(True):
        mx.nd.save(str(path), {"row": mx.nd.ones((1, 3))})
    assert params.load_arrays("test", path)["row"].asnumpy().tolist() == [[1, 1, 1]]


def test_types_that_mxnet_lacks(path):
    params.write(path, {"w": np.ones(2, "uint32")})
    assert params.read("test", path)["w"].dtype == "uint32"
    with pytest.raises(gops.OpError, match="net.params: w has the type uint32, which MXNet does not compute with"):
        params.load_arrays("test", path)
    with pytest.raises(gops.OpError, match="the array w has the type complex64; expected one of float32, "):
        params.write(path, {"w": np.ones(2, "complex64")})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"])
def test_the_bytes_of_mxnet(dtype, tmp_path, rng):
    """MXNet reads what is written without it, by name or as a list, and the other way round."""
    values = {"arg:a": rng.uniform(0, 2, (2, 3)).astype(dtype), "\u00fc": rng.uniform(0, 2, (4, 1, 2)).astype(dtype)}
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for arrays_ in (values, list(values.values())):
        made = [mx.nd.array(value, dtype=dtype) for value in values.values()]
        mx.nd.save(str(theirs), dict(zip(values, made)) if arrays_ is values else made)
        params.write(ours, arrays_)
        assert ours.read_bytes() == theirs.read_bytes()
        names = values if arrays_ is values else ("0", "1")
        read = params.read("test", theirs)
        assert list(read) == list(names)
        for array, expected in zip(read.values(), values.values()):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


def test_the_shapes_of_numpy(tmp_path):
    """Both need the third version of the format."""
    values = {"scalar": np.float32(3), "none": np.zeros((0, 3), "float32")}
    params.write(tmp_path / "ours", values)
    with mx.util.np_shape(True):
        mx.nd.save(str(tmp_path / "theirs"), {name: mx.nd.array(value) for name, value in values.items()})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert [array.shape for array in params.stored_arrays("test", tmp_path / "ours")] == [(), (0, 3)]


@pytest.mark.parametrize("storage", ["row_sparse", "csr"])
def test_sparse_arrays_are_named(storage, path):
    sparse = mx.nd.array([[0, 0], [1, 2], [0, 0]]).tostype(storage)
    mx.nd.save(str(path), {"dense": mx.nd.ones(3), "embedding": sparse, "last": mx.nd.ones(2)})
    with pytest.raises(gops.OpError, match=rf"net.params has the sparse arrays embedding \({storage}\); exp"):
        params.load_arrays("test", path)
    params.check_written(path)


def test_no_mutation_gets_further(path, rng):
    """Changed bytes and a cut end give an OpError, or arrays."""
    content, refusals = path.read_bytes(), 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.randint(len(damaged), size=rng.randint(1, 4)):
            damaged[place] = rng.randint(256)
        path.write_bytes(damaged[:rng.randint(len(damaged))] if rng.rand() < 0.2 else damaged)
        try:
            params.load_arrays("test", path)
        except gops.OpError:
            refusals += 1
    assert refusals > 200


def test_a_digest_is_of_names_types_shapes_and_values():
    values = [{"a": np.ones(2)}, {"b": np.ones(2)}, {"a": np.ones((1, 2))}, {"a": np.zeros(2)},
              {"a": np.ones(2, "int32")}]
    digests = {params.digest(case) for case in values}
    assert len(digests) == len(values)
    assert digests == {params.digest({name: mx.nd.array(array, dtype=array.dtype) for name, array in case.items()})
                       for case in values}
