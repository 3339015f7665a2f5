"""The softmax family on a CPU where fewer numbers than a vector has lanes follow the classes.

Short columns are packed. Of long ones, a line of a matrix has several elements.
"""
import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
from gluonops.contract import registry
from in_turn import in_turn

# The last group of columns is smaller than the others; a column fills no vector; the columns are long, and the last
# line is shorter than the others.
SHAPES = ((67, 9, 3), (131, 2, 15), (3, 3001, 2), (3, 75, 7))


def functions(shape, dtype, rng):
    """Name -> (function, further inputs): what there is of the family, with the classes on axis 1."""
    rows = (shape[0], shape[2])
    label = rng.randint(-1, shape[1], rows).astype("float32")
    dense = rng.dirichlet(np.ones(shape[1]), rows).transpose(0, 2, 1).astype(dtype)
    weights = tuple(np.linspace(0.5, 2, shape[1]))
    loss = gops.ops.softmax_cross_entropy
    return {
        "softmax": (lambda x: gops.ops.softmax(x, axis=1, temperature=1.5), ()),
        "output": (lambda x, y: gops.ops.softmax_output(x, y, axis=1, ignore_label=-1), (label,)),
        "sparse": (lambda x, y: loss(x, y, axis=1, ignore_label=-1, smoothing=0.1), (label,)),
        "weights": (lambda x, y: loss(x, y, axis=1, ignore_label=-1, class_weight=weights), (label,)),
        "dense": (lambda x, y: loss(x, y, axis=1, sparse_label=False), (dense,)),
    }


def run(function, arrays, head):
    """Return the output and the gradient of the data."""
    inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
    inputs[0].attach_grad()
    with mx.autograd.record():
        output = function(*inputs)
    output.backward(mx.nd.array(head, dtype=output.dtype))
    return output.asnumpy(), inputs[0].grad.asnumpy()


@in_turn("dtype", ["float32", "float64"])   # they have kernels of different targets with AVX-512
@in_turn("shape", SHAPES)
def test_a_batch_equals_its_parts(shape, dtype, rng):
    """It does bit for bit: one image alone is not packed."""
    data = rng.standard_normal(shape).astype(dtype)
    with gops.backend("native"):
        for name, (function, more) in functions(shape, dtype, rng).items():
            heads = rng.standard_normal(shape if name in ("softmax", "output") else (shape[0], shape[2]))
            whole = run(function, (data, *more), heads)
            for i in (0, shape[0] // 2, shape[0] - 1):
                here = slice(i, i + 1)
                part = run(function, [array[here] for array in (data, *more)], heads[here])
                for ours, theirs in zip(part, whole):
                    np.testing.assert_array_equal(ours, theirs[here], err_msg=f"{name}, {i}")


@in_turn("shape", SHAPES)
def test_softmax_of_few_neighbours(shape, rng):
    data = rng.standard_normal(shape).astype("float32")
    with gops.backend("native"):
        output = gops.ops.softmax(mx.nd.array(data), axis=1).asnumpy()
    exponentials = np.exp(data.astype("float64"))
    np.testing.assert_allclose(output, exponentials / exponentials.sum(1, keepdims=True), rtol=1e-5)


LONG = (3, 301, 6)
CASES = {
    "softmax": {"temperature": 1.5},
    "softmax_output": {"ignore_label": -1, "normalization": "valid"},
    "softmax_cross_entropy": {"ignore_label": -1},
    "softmax_cross_entropy smooth": {"ignore_label": -1, "smoothing": 0.1},
    "softmax_cross_entropy dense": {"sparse_label": False, "smoothing": 0.1},
    "softmax_cross_entropy weights": {"ignore_label": -1, "class_weight": tuple(np.linspace(0.5, 2, LONG[1]))},
}


@in_turn("dtype, tolerance", [("float16", 2e-3), ("float32", 2e-6), ("float64", 1e-13)])
@in_turn("case", CASES)
def test_long_columns(case, dtype, tolerance, rng):
    """Every class is the label of a row, and rows are ignored."""
    name = case.split()[0]
    batch, classes, inner = LONG
    attrs = {"axis": 1, **CASES[case]}
    arrays = [rng.standard_normal(LONG).astype(dtype)]
    rows = (batch, inner)
    if "sparse_label" in attrs:
        arrays.append(rng.dirichlet(np.ones(classes), rows).transpose(0, 2, 1).astype(dtype))
    elif name != "softmax":
        arrays.append(oracles.draw_labels(rng, rows, classes, -1).astype("float32"))
        arrays[1][0, :3] = 0, classes - 1, -1
    head = rng.standard_normal(rows if "entropy" in name else LONG).astype(dtype)

    inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
    for array in inputs[:1 + ("sparse_label" in attrs)]:
        array.attach_grad()
    with gops.backend("native"), mx.autograd.record():
        output = getattr(gops.ops, name)(*inputs, **attrs)
    output.backward(mx.nd.array(head, dtype=dtype))

    oracle, typed = oracles.get(name), registry.get(name).op.parse(attrs)
    wide = [array.astype("float64") for array in arrays]
    expected = oracle.backward(typed, head.astype("float64"), *wide)
    expected["output"] = oracle.forward(typed, *wide)["output"]
    got = {"output": output, "data": inputs[0].grad, "label": inputs[-1].grad}
    for what, values in expected.items():
        scale = max(1, np.abs(values).max())
        np.testing.assert_allclose(got[what].asnumpy(), values, tolerance, tolerance * scale, err_msg=what)
