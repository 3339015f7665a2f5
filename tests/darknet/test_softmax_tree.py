"""Trees of classes: the file, the softmax over groups, products along the way from the root."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.darknet.tree import Ancestors, TreeSoftmax, read_map
from recorded import FOLDER


@pytest.fixture(scope="module")
def tree():
    return gops.darknet.read_tree(FOLDER / "mini.tree")


def test_read_tree(tree):
    assert tree.names[:3] == ["animal", "thing", "dog"] and len(tree) == 10 and tree.depth == 3
    assert tree.parents == [-1, -1, 0, 0, 0, 1, 2, 2, 2, 4]
    assert tree.groups == [(0, 2), (2, 3), (5, 1), (6, 3), (9, 1)]


@pytest.mark.parametrize("text, message", [
    ("a -1\nb 1\n", "line 2: the parent is '1'; expected -1 or the number of an earlier class, up to 0"),
    ("a x\n", "line 1: the parent is 'x'"), ("a -2\n", "line 1: the parent is '-2'"),
    ("a -1\n\n", "line 2 is empty"), ("", "is empty; expected a line")])
def test_malformed_trees(text, message, tmp_path):
    (tmp_path / "a.tree").write_text(text)
    with pytest.raises(gops.OpError, match=f"gluonops.darknet.read_tree: a.tree.* ?{message}"):
        gops.darknet.read_tree(tmp_path / "a.tree")


def test_a_missing_tree(tmp_path):
    with pytest.raises(gops.OpError, match="the tree .* cannot be read: No such file"):
        gops.darknet.read_tree(tmp_path / "missing")


@pytest.mark.parametrize("word", ["10", "-1", "x", "²", "9" * 5000])
def test_a_map_of_what_is_not_a_class(word, tmp_path):
    (tmp_path / "my.map").write_text(f"3\n{word}\n", encoding="utf-8")
    with pytest.raises(gops.OpError, match="my.map, line 2 is '.+; expected a class from 0 to 9") as caught:
        read_map(tmp_path / "my.map", 10)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax_and_products(dtype, hybridize, tree, rng):
    data = rng.randn(2, 10, 3).astype(dtype)
    softmax, ancestors = TreeSoftmax(tree, 0.5), Ancestors(tree)
    for block in (softmax, ancestors):
        block.initialize()
        block.hybridize(hybridize)
    softmax.cast(dtype)
    found = softmax(mx.nd.array(data, dtype=dtype))
    expected = np.empty(data.shape)
    for first, count in tree.groups:
        powers = np.exp(data[:, first:first + count].astype("float64") / 0.5)
        expected[:, first:first + count] = powers / powers.sum(1, keepdims=True)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-3 if dtype == "float16" else 1e-5)
    for number, parent in enumerate(tree.parents):
        if parent >= 0:
            expected[:, number] *= expected[:, parent]
    products = ancestors(found.astype("float32")).asnumpy()
    np.testing.assert_allclose(products, expected, rtol=5e-3 if dtype == "float16" else 1e-5)
