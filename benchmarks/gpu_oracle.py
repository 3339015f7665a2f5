"""What the kernels of benchmarks/gpu.py have to compute: NumPy, in float64 where it is not a mere move of elements."""
import numpy as np

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}   # of the value and of the largest value
MOVES = ("reorg", "tile")


def inputs(case):
    """What the user puts in: data, and a label and head gradient where the operator takes them; name -> array."""
    rng, arrays = np.random.default_rng(0), case["arrays"]
    found = {}
    for name in ("data", "output_grad"):
        if name in arrays:
            shape, dtype = arrays[name]
            found[name] = rng.standard_normal(shape, np.float32).astype(dtype)
    if "label" in arrays:
        shape, dtype = arrays["label"]
        found["label"] = rng.integers(case["shape"][-1], size=shape).astype(dtype)
    return found


def forward(case, given):
    """Every output by name."""
    op, data = case["op"], given["data"]
    if op in MOVES:
        return {"output": _moved(case, data)}
    if op == "abs":
        return {"output": np.abs(data)}
    logits = data.astype("float64")
    top = logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(logits - top)
    total = exponentials.sum(axis=-1, keepdims=True)
    if op != "softmax_cross_entropy":
        return {"output": exponentials / total}
    picked = np.take_along_axis(logits, given["label"].astype("int64")[..., None], axis=-1)
    return {"output": (np.log(total) + top - picked)[..., 0], "max": top[..., 0], "log_sum": np.log(total)[..., 0]}


def backward(case, given):
    """The gradient of the data, from the inputs, the head gradient, and the outputs as the kernel gets them."""
    op, data = case["op"], given["data"]
    if op in MOVES:   # each element of the output gives its gradient to the element that it is a copy of
        origin = _moved(case, np.arange(data.size).reshape(data.shape))
        return {"data_grad": np.bincount(origin.ravel(), given["output_grad"].ravel(), data.size).reshape(data.shape)}
    if op == "abs":
        return {"data_grad": given["output_grad"] * np.sign(data)}
    if op == "softmax":
        output, head = given["output"].astype("float64"), given["output_grad"].astype("float64")
        return {"data_grad": output * (head - (head * output).sum(axis=-1, keepdims=True))}
    if op == "softmax_output":
        gradient, head = given["output"].astype("float64"), 1
    else:
        normal = given["max"].astype("float64") + given["log_sum"]
        gradient, head = np.exp(data - normal[..., None]), given["output_grad"].astype("float64")[..., None]
    label = given["label"].astype("int64")[..., None]
    np.put_along_axis(gradient, label, np.take_along_axis(gradient, label, axis=-1) - 1, axis=-1)
    return {"data_grad": gradient * head}


def _moved(case, data):
    """reorg or tile of an array."""
    attrs = case["attrs"]
    if case["op"] == "tile":
        axis = attrs.get("axis", -1) % data.ndim
        return np.concatenate([data] * attrs["tiles"], axis=axis)
    s, (b, c, h, w) = attrs.get("stride", 2), data.shape
    larger = b, c * s * s, h // s, w // s
    if attrs["mode"] == "darknet":   # DCR of the same memory, read as fewer channels of a larger image
        c, h, w = c // (s * s), h * s, w * s
    blocks = data.reshape(b, c, h // s, s, w // s, s)
    order = (0, 1, 3, 5, 2, 4) if attrs["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(blocks.transpose(order)).reshape(larger)


def differs(case, name, got, expected):
    """What is wrong with an array, or None."""
    if tuple(got.shape) != tuple(expected.shape):
        return f"{name} has shape {tuple(got.shape)}; expected {tuple(expected.shape)}"
    adds = case["op"] not in (*MOVES, "abs") or (case["op"], name) == ("tile", "data_grad")
    tolerance = TOLERANCE[case["dtype"]] if adds else 0
    largest = max(float(np.abs(expected).max()), 1e-30)
    close = np.isclose(got.astype("float64"), expected.astype("float64"), tolerance, tolerance * largest)
    if close.all():
        return None
    first = np.unravel_index(int(np.argmin(close)), got.shape)
    return (f"{name} is {float(got[first]):.6g} at {tuple(map(int, first))}; expected {float(expected[first]):.6g}; "
            f"{int((~close).sum())} of {got.size} differ")
