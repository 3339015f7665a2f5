"""The softmax family on a CPU where fewer numbers than a vector has lanes follow the classes: columns are packed."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest

# The last group of columns is smaller than the others; a column fills no vector; the classes are too many to be packed.
SHAPES = ((67, 9, 3), (131, 2, 15), (3, 3000, 2))


def functions(shape, rng):
    """Name -> (function, further inputs): what there is of the family, with the classes on axis 1."""
    rows = (shape[0], shape[2])
    label = rng.randint(-1, shape[1], rows).astype("float32")
    dense = rng.dirichlet(np.ones(shape[1]), rows).transpose(0, 2, 1).astype("float32")
    loss = gops.ops.softmax_cross_entropy
    return {
        "softmax": (lambda x: gops.ops.softmax(x, axis=1, temperature=1.5), ()),
        "output": (lambda x, y: gops.ops.softmax_output(x, y, axis=1, ignore_label=-1), (label,)),
        "sparse": (lambda x, y: loss(x, y, axis=1, ignore_label=-1, smoothing=0.1), (label,)),
        "dense": (lambda x, y: loss(x, y, axis=1, sparse_label=False), (dense,)),
    }


def run(function, arrays, head):
    """The output and the gradient of the data."""
    inputs = [mx.nd.array(array, dtype="float32") for array in arrays]
    inputs[0].attach_grad()
    with mx.autograd.record():
        output = function(*inputs)
    output.backward(mx.nd.array(head))
    return output.asnumpy(), inputs[0].grad.asnumpy()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_batch_equals_its_parts(shape, rng):
    """Bit for bit: one image alone is not packed."""
    data = rng.standard_normal(shape)
    with gops.backend("native"):
        for name, (function, more) in functions(shape, rng).items():
            heads = rng.standard_normal(shape if name in ("softmax", "output") else (shape[0], shape[2]))
            whole = run(function, (data, *more), heads)
            for i in (0, shape[0] // 2, shape[0] - 1):
                here = slice(i, i + 1)
                part = run(function, [array[here] for array in (data, *more)], heads[here])
                for ours, theirs in zip(part, whole):
                    np.testing.assert_array_equal(ours, theirs[here], err_msg=f"{name}, {i}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_of_few_neighbours(shape, rng):
    data = rng.standard_normal(shape).astype("float32")
    with gops.backend("native"):
        output = gops.ops.softmax(mx.nd.array(data), axis=1).asnumpy()
    exponentials = np.exp(data.astype("float64"))
    np.testing.assert_allclose(output, exponentials / exponentials.sum(1, keepdims=True), rtol=1e-5)
