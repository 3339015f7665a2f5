"""Every check of an operator, once. Its folder in ``tests/ops`` supplies cases, a hand-computed table and the oracle.

Outputs and gradients are compared by name with an oracle in float64, written from the paper or the spec.
"""
import contextlib
import dataclasses
import functools
import importlib
import itertools
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import oracles
import pytest
from gluonops.contract import registry
from gluonops.cuda import rtc
from mxnet import autograd
from mxnet.gluon import HybridBlock, SymbolBlock

FOLDER = pathlib.Path(__file__).parent / "ops"
BACKENDS = ("custom", "reference", "native", "builtin", "cuda")
# Beside native, and reference or cuda: it runs the C++ kernel of the one by way of the Python code of the others.
CUSTOM = pytest.param("custom", marks=pytest.mark.slow)
MODES = ("imperative", "hybridized", "static", "reloaded")

# float16 is computed in float32 by the custom and native backends, and in float16 by MXNet's own operators.
TOLERANCE = {("custom", "float16"): 2e-3, ("native", "float16"): 2e-3, ("builtin", "float16"): 2e-2, "float32": 4e-6,
             "float64": 1e-12}


@dataclasses.dataclass(frozen=True)
class Case:
    """Shapes of the inputs, in order, and attributes."""
    id: str
    shapes: tuple
    attrs: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Row:
    """One hand-computed row: inputs, output, head gradient and the gradient of each input (None: not compared)."""
    id: str
    inputs: tuple
    attrs: dict
    output: list
    head: list
    gradients: tuple


@dataclasses.dataclass(frozen=True)
class Bad:
    """Input that is refused, and a part of the message."""
    id: str
    shapes: tuple
    attrs: dict
    text: str
    dtypes: tuple = ()
    spelled: bool = True     # False: the function's signature refuses it, only a node in a graph can have it
    first: bool = True       # False: Module refuses it before the operator does


class Layer(HybridBlock):
    """The operator as a user's block."""

    def __init__(self, function, attrs):
        super().__init__()
        self._function, self._attrs = function, attrs

    def hybrid_forward(self, F, data, *others):
        return self._function(data, *others, **self._attrs)


class OpSuite:
    """Derive, name it Test<Op>, and set ``name``, ``cases``, ``table`` and ``errors``; write ``oracle.py``."""

    name = None        # the operator
    cases = ()         # Case; the first one is small and typical
    table = ()         # Row
    errors = ()        # Bad
    texts = {}         # {attribute: its texts in a graph}, valid and not: the library reads them as the contract does
    exact = False      # whether elements only move
    empty = None       # Case with a batch of 0
    own_shapes = ()    # inputs whose shapes do not follow from the data's
    undefined = ()     # special values without a documented result: tests/fuzz runs them and compares nothing
    needs_types = ()   # dtypes whose results differ in a builtin graph of unknown types, where MXNet rounds otherwise
    determined = ()    # (known shapes by tensor, attrs, all shapes by tensor): inference from less than the data

    # -- the oracle ------------------------------------------------------------------------------------------
    def oracle(self, attrs, *inputs):
        """Output in float64 from float64 inputs (integers for integer types)."""
        return _outputs(self.name, attrs, *inputs)[self.op.outputs[0].name]

    def oracle_gradient(self, attrs, head, *inputs):
        """Gradient of every input that has one, by name."""
        return _gradients(self.name, attrs, head, *inputs)

    def scalar(self, attrs, head, *inputs):
        """Return what the gradient differentiates: sum(head * output) unless the op ignores the head gradient."""
        oracle = oracles.get(self.name)
        if hasattr(oracle, "objective"):
            return oracle.objective(attrs, head, *inputs)
        return (head * self.oracle(attrs, *inputs)).sum()

    def amplification(self, attrs, backend, *inputs):
        """Return how many times larger than 1 the numbers are whose differences make the gradient.

        Rounding errors grow by as much.
        """
        return 1.0

    def output_amplification(self, attrs, *inputs):
        """The same of the output: of statistics that are rounded before differences are computed with them."""
        return 1.0

    # -- helpers ---------------------------------------------------------------------------------------------
    @classmethod
    def axes(cls, name):
        """Return what the tests vary; a backend only where it has a kernel."""
        op = registry.get(cls.name).op
        kernels = {"native": "kernel.cc", "cuda": "kernel.cu"}
        return {"case": cls.cases, "dtype": op.types["T"], "row": cls.table, "error": cls.errors,
                "label_dtype": op.types.get("L", ()), "request_": ("write", "add", "null"),
                "backend": [backend for backend in BACKENDS if kernels.get(backend) not in op.unsupported],
                "mode": MODES}[name]

    @property
    def op(self):
        return registry.get(self.name).op

    @property
    def function(self):
        return getattr(gops.ops, self.name)

    def typed(self, case):
        return self.op.parse(case.attrs)

    def draw(self, case, dtype, rng, label_dtype="float32"):
        """Random inputs for a case, as NumPy arrays of their dtypes."""
        attrs, oracle = self.typed(case), oracles.get(self.name)
        shapes = {arg.name: shape for arg, shape in zip(self.op.inputs, case.shapes)}
        sizes = self.op.index_sizes(attrs, shapes)
        drawn = oracle.draw(attrs, shapes, rng) if hasattr(oracle, "draw") else {}
        for arg in self.op.inputs:
            shape, is_label = shapes[arg.name], self.op.type_vars(attrs)[arg.name] == "L"
            if arg.name in drawn:
                array = drawn[arg.name]
            elif arg.name in sizes:
                ignored = getattr(attrs, arg.values.ignore) if arg.values.ignore else None
                array = oracles.draw_labels(rng, shape, sizes[arg.name], ignored)
            elif np.dtype(dtype).kind in "iu":
                array = rng.randint(0 if dtype == "uint8" else -100, 100, shape)
            else:
                array = np.asarray(rng.randn(*shape) * 2)
            drawn[arg.name] = array.astype(label_dtype if is_label else dtype)
        return [drawn[arg.name] for arg in self.op.inputs]

    def differentiable(self, case):
        return [arg.name for arg in self.op.inputs if arg.has_gradient(self.typed(case))]

    def run(self, case, arrays, head, backend, mode="imperative", context="cpu"):
        """Output and gradients of all inputs; ``mode`` is how the operator is run."""
        context = mx.Context(context)
        inputs = [mx.nd.array(a, dtype=a.dtype).as_in_context(context) for a in arrays]
        with gops.backend(backend):
            net = self.net(case, mode)
            # Made on the CPU and copied: attach_grad needs a CUDA operator of MXNet's, which the newest GPUs lack.
            gradients = [mx.nd.zeros(a.shape, dtype=a.dtype).as_in_context(context) for a in arrays]
            autograd.mark_variables(inputs, gradients)
            for _ in range(2 if mode == "static" else 1):   # the second pass reuses the static graph's memory
                with autograd.record():
                    output = net(*inputs)
                output.backward(mx.nd.array(head, dtype=output.dtype).as_in_context(context))
        return output.asnumpy(), {arg.name: gradient.asnumpy() for arg, gradient in zip(self.op.inputs, gradients)}

    def net(self, case, mode):
        if mode == "imperative":
            return lambda *inputs: self.function(*inputs, **case.attrs)
        if mode == "reloaded":
            variables = [mx.sym.var(arg.name) for arg in self.op.inputs]
            graph = mx.sym.load_json(self.function(*variables, **case.attrs).tojson())
            return SymbolBlock(graph, variables)
        layer = Layer(self.function, case.attrs)
        layer.hybridize(**{"static_alloc": True, "static_shape": True} if mode == "static" else {})
        return layer

    def expected(self, case, arrays, head):
        inputs = [array.astype("float64") if array.dtype.kind == "f" else array for array in arrays]
        attrs = self.typed(case)
        return self.oracle(attrs, *inputs), self.oracle_gradient(attrs, head.astype("float64"), *inputs)

    def close(self, got, expected, what, backend="custom", dtype="float32", exact=None):
        """Equal where elements only move; else within a few units of the last place of the largest element."""
        exact = self.exact if exact is None else exact
        assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
        if exact or np.dtype(dtype).kind != "f":
            np.testing.assert_array_equal(got, expected.astype(got.dtype), err_msg=what)
            return
        tolerance = TOLERANCE.get((backend, dtype)) or TOLERANCE[dtype]
        finite = expected[np.isfinite(expected)]
        scale = max(1.0, np.abs(finite).max()) if finite.size else 1.0
        np.testing.assert_allclose(got.astype("float64"), expected, tolerance, tolerance * scale, err_msg=what)

    def head(self, case, arrays, rng):
        shape = self.oracle(self.typed(case), *[a.astype("float64") for a in arrays]).shape
        return rng.randn(*shape)

    def compare(self, case, dtype, arrays, head, backend, **how):
        head = head.astype(dtype)
        output, gradients = self.run(case, arrays, head, backend, **how)
        expected, expected_gradients = self.expected(case, arrays, head)
        self.close(output, expected, "output", backend, dtype)
        assert output.dtype == np.dtype(dtype)
        if np.dtype(dtype).kind != "f":
            return
        assert sorted(expected_gradients) == sorted(self.differentiable(case))
        for name, gradient in gradients.items():
            self.close(gradient, expected_gradients.get(name, np.zeros(gradient.shape)), f"gradient of {name}", backend,
                       dtype)

    # -- the checks ------------------------------------------------------------------------------------------
    def test_output_and_gradient(self, case, dtype, backend, mode, rng):
        arrays = self.draw(case, dtype, rng)
        self.compare(case, dtype, arrays, self.head(case, arrays, rng), backend, mode=mode)

    @pytest.mark.gpu
    @pytest.mark.parametrize("gpu_mode", ["imperative", "static"])
    def test_on_gpu(self, case, dtype, gpu_mode, rng):
        if "kernel.cu" in self.op.unsupported and not rtc.mxnet_computes(mx.gpu()):
            pytest.skip("it has no CUDA kernel, and MXNet's operators do not run on this GPU")
        arrays = self.draw(case, dtype, rng)
        self.compare(case, dtype, arrays, self.head(case, arrays, rng), "custom", mode=gpu_mode, context="gpu")

    def test_hand_computed(self, row, backend):
        case = Case(row.id, tuple(np.shape(i) for i in row.inputs), row.attrs)
        arrays = [np.array(values, "float32") for values in row.inputs]
        output, gradients = self.run(case, arrays, np.array(row.head, "float32"), backend)
        np.testing.assert_allclose(output, row.output, rtol=1e-6, atol=1e-6)
        for arg, expected in zip(self.op.inputs, row.gradients):
            if expected is not None:
                np.testing.assert_allclose(gradients[arg.name], expected, rtol=1e-6, atol=1e-6, err_msg=arg.name)

    def test_table_is_there(self):
        assert self.table and self.cases and self.errors

    def test_oracle_gradient_is_the_derivative(self, case, rng):
        """The oracles agree with each other: central differences in float64."""
        arrays = [a.astype("float64") for a in self.draw(case, "float64", rng)]
        if arrays[0].size > 400:
            pytest.skip("checked by the small cases: of many numbers, some change places in a step")
        attrs, head = self.typed(case), self.head(case, arrays, rng)
        gradients = self.oracle_gradient(attrs, head, *arrays)
        for arg, array in zip(self.op.inputs, arrays):
            if arg.name in gradients:
                self.is_derivative(gradients[arg.name], lambda: self.scalar(attrs, head, *arrays), array, rng, arg.name)

    def test_finite_differences_of_the_reference(self, backend):
        """The gradient that runs is the derivative of the forward pass that runs, in float64."""
        if "_grad" not in "".join(self.op.backward):
            pytest.skip("ignores the head gradient: its forward pass is not what it differentiates")
        arrays, head, differences = finite_differences(type(self))
        _, gradients = self.run(self.cases[0], arrays, head, backend)
        for name, expected in differences.items():
            np.testing.assert_allclose(gradients[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)

    @classmethod
    def is_derivative(cls, gradient, scalar, array, rng, what):
        """Compare with each element's difference, or along ten random directions, where a wrong element shows, too."""
        if array.size <= 20:
            numeric = cls.central_difference(scalar, array)
            np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6, err_msg=what)
            return
        start = array.copy()
        for direction in rng.standard_normal((10, *array.shape)):
            places = np.zeros(1)

            def along():
                array[...] = start + places[0] * direction   # noqa: B023
                return scalar()

            numeric = cls.central_difference(along, places)[0]
            np.testing.assert_allclose((gradient * direction).sum(), numeric, rtol=1e-6, atol=1e-6, err_msg=what)
        array[...] = start

    @staticmethod
    def central_difference(scalar, array, step=1e-5):
        gradient = np.zeros(array.shape)
        for index in np.ndindex(*array.shape):
            value = array[index]
            array[index] = value + step
            above = scalar()
            array[index] = value - step
            below = scalar()
            array[index] = value
            gradient[index] = (above - below) / (2 * step)
        return gradient

    def test_requests(self, request_, dtype, backend, rng):
        """write overwrites NaN, add adds to the old value, null changes nothing."""
        case = self.cases[0]
        arrays = self.draw(case, dtype, rng)
        head = self.head(case, arrays, rng).astype(dtype)
        expected, gradients = self.expected(case, arrays, head)
        with gops.backend(backend):
            graph = self.function(*[mx.sym.var(arg.name) for arg in self.op.inputs], **case.attrs)
        inputs = {arg.name: mx.nd.array(a, dtype=a.dtype) for arg, a in zip(self.op.inputs, arrays)}
        before = {name: np.full(a.shape, np.nan) if request_ == "write" else rng.randn(*a.shape)
                  for name, a in inputs.items()}
        stored = {name: mx.nd.array(before[name], dtype=a.dtype) for name, a in inputs.items()}
        before = {name: a.asnumpy().astype("float64") for name, a in stored.items()}
        executor = graph.bind(mx.cpu(), inputs, stored, request_)
        executor.outputs[0][:] = np.nan
        for passes in (1, 2):
            output = executor.forward(is_train=True)[0]
            self.close(output.asnumpy(), expected, "output", backend, dtype)
            if request_ != "null":
                executor.backward([mx.nd.array(head, dtype=dtype)])
            for name, gradient in stored.items():
                once = gradients.get(name, np.zeros(gradient.shape))
                want = {"write": once, "add": before[name] + passes * once, "null": before[name]}[request_]
                self.close(gradient.asnumpy(), want, f"gradient of {name}, pass {passes}", backend, dtype,
                           exact=self.exact and request_ != "add")

    def test_requests_of_arrays(self, request_, backend, mode, rng):
        """Gradients that are attached to arrays follow the same requests."""
        case = self.cases[0]
        arrays = self.draw(case, "float32", rng)
        head = self.head(case, arrays, rng).astype("float32")
        _, expected = self.expected(case, arrays, head)
        inputs = [mx.nd.array(array) for array in arrays]
        stored = [mx.nd.array(rng.randn(*array.shape)) for array in arrays]
        before = [gradient.asnumpy() for gradient in stored]
        needed = mx.nd.array(rng.randn(*head.shape))   # without it null would leave nothing to differentiate
        needed.attach_grad()
        autograd.mark_variables(inputs, stored, request_)
        with gops.backend(backend):
            net = self.net(case, mode)
            for _ in range(2):
                with autograd.record():
                    output = net(*inputs) + needed
                output.backward(mx.nd.array(head))
        for arg, old, gradient in zip(self.op.inputs, before, stored):
            once = expected.get(arg.name, np.zeros(gradient.shape))
            want = {"write": once, "add": old + 2 * once, "null": old}[request_]
            self.close(gradient.asnumpy(), want, f"gradient of {arg.name}", exact=self.exact and request_ != "add")

    def test_input_used_twice(self, backend, mode, rng):
        """If data is the input of two nodes, its gradient is the sum of both."""
        self.compare_sum(2, backend, mode, rng)

    def test_input_used_often(self, backend, rng):
        """From eight nodes on, MXNet asks them to add to the gradient instead of adding up what they write."""
        self.compare_sum(9, backend, "static", rng)

    def compare_sum(self, count, backend, mode, rng):
        """Compare the sum of the outputs of nodes with the same inputs."""
        case = self.cases[0]
        arrays = self.draw(case, "float32", rng)
        head = self.head(case, arrays, rng).astype("float32")
        expected, gradients = self.expected(case, arrays, head)
        once = self.function

        def often(*inputs, **attrs):
            return sum((once(*inputs, **attrs) for _ in range(count - 1)), once(*inputs, **attrs))

        suite = type(self)()
        suite.__class__ = type("Often", (type(self),), {"function": property(lambda _: often)})
        output, got = suite.run(case, arrays, head, backend, mode)
        np.testing.assert_allclose(output, count * expected, rtol=1e-5, atol=1e-5)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(got[name], count * gradient, rtol=1e-5, atol=1e-5, err_msg=name)

    def test_offset_view(self, dtype, backend, rng):
        """Inputs and gradients start in the middle of an array."""
        case = self.cases[0]
        arrays = self.draw(case, dtype, rng)
        head = self.head(case, arrays, rng).astype(dtype)
        expected, gradients = self.expected(case, arrays, head)
        inputs, stored = {}, {}
        for arg, array in zip(self.op.inputs, arrays):
            outside = np.nan if array.dtype.kind == "f" else 99
            whole = np.full((array.shape[0] + 2, *array.shape[1:]), outside, array.dtype)
            stored[arg.name] = mx.nd.array(whole, dtype=array.dtype)
            whole[1:-1] = array
            inputs[arg.name] = mx.nd.array(whole, dtype=array.dtype)[1:-1]
        with gops.backend(backend):
            graph = self.function(*[mx.sym.var(arg.name) for arg in self.op.inputs], **case.attrs)
            if len(self.op.inputs) == 1:
                output = self.function(inputs["data"], **case.attrs)
                self.close(output.asnumpy(), expected, "output", backend, dtype)
        views = {name: array[1:-1] for name, array in stored.items()}
        executor = graph.bind(mx.cpu(), inputs, views)
        self.close(executor.forward(is_train=True)[0].asnumpy(), expected, "output", backend, dtype)
        if np.dtype(dtype).kind != "f":
            return
        executor.backward([mx.nd.array(head, dtype=dtype)])
        for name, gradient in gradients.items():
            self.close(views[name].asnumpy(), gradient, f"gradient of {name}", backend, dtype)
            whole = stored[name].asnumpy()
            assert np.isnan(whole[0]).all() and np.isnan(whole[-1]).all(), "wrote outside the view"

    def test_module(self, backend, rng):
        """All inputs are data of a Module."""
        case = self.cases[0]
        arrays = self.draw(case, "float32", rng)
        head = self.head(case, arrays, rng).astype("float32")
        expected, gradients = self.expected(case, arrays, head)
        names = [arg.name for arg in self.op.inputs]
        # No axis is a batch axis: Module would cut the head gradient to the batch of the first input.
        with gops.backend(backend), mx.AttrScope(__layout__="C"):
            graph = self.function(*[mx.sym.var(name) for name in names], **case.attrs)
        layouts = ["N"] + ["C"] * (len(names) - 1)
        module = mx.mod.Module(graph, names, None)
        module.bind([mx.io.DataDesc(name, array.shape, array.dtype, layout)
                     for name, array, layout in zip(names, arrays, layouts)], inputs_need_grad=True)
        module.init_params()
        module.forward(mx.io.DataBatch([mx.nd.array(array, dtype=array.dtype) for array in arrays]), is_train=True)
        self.close(module.get_outputs()[0].asnumpy(), expected, "output")
        module.backward([mx.nd.array(head)])
        for name, gradient in zip(names, module.get_input_grads()):
            self.close(gradient.asnumpy(), gradients.get(name, np.zeros(gradient.shape)), f"gradient of {name}")

    def test_label_dtypes(self, label_dtype, backend, rng):
        case = self.cases[0]
        arrays = self.draw(case, "float32", rng, label_dtype)
        self.compare(case, "float32", arrays, self.head(case, arrays, rng), backend)

    def test_empty_batch(self, dtype, backend, rng):
        with mx.util.np_shape(True):
            arrays = self.draw(self.empty, dtype, rng)
            inputs = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
            inputs[0].attach_grad()
            with gops.backend(backend), autograd.record():
                output = self.function(*inputs, **self.empty.attrs)
            output.backward()
            expected = self.oracle(self.typed(self.empty), *[a.astype("float64") for a in arrays])
            assert output.shape == expected.shape and 0 in output.shape
            assert output.asnumpy().size == 0 and inputs[0].grad.asnumpy().size == 0

    def test_shapes_change_from_call_to_call(self, backend, rng):
        """One hybridized block runs all cases that share the first one's attributes, one after another."""
        same = [case for case in self.cases if case.attrs == self.cases[0].attrs]
        assert len(same) > 1, "give the first case's attributes to another shape"
        with gops.backend(backend):
            layer = self.net(same[0], "hybridized")
            for case in same + same[:1]:
                arrays = self.draw(case, "float32", rng)
                expected = self.oracle(self.typed(case), *[a.astype("float64") for a in arrays])
                self.close(layer(*[mx.nd.array(a) for a in arrays]).asnumpy(), expected, case.id)

    # -- the graph -------------------------------------------------------------------------------------------
    def symbol(self, case, name="node"):
        return mx.sym.Custom(op_type=self.op.graph_name, name=name, **{k: str(v) for k, v in case.attrs.items()})

    def test_names(self):
        graph = self.symbol(self.cases[0])
        assert graph.list_arguments() == [f"node_{arg.name}" for arg in self.op.inputs]
        assert graph.list_outputs() == [f"node_{out.name}" for out in self.op.outputs]

    def test_node_in_json(self, case):
        """Attributes survive the graph as the strings the contract writes; outputs are named after the node."""
        with gops.backend("custom"):
            graph = self.function(*[mx.sym.var(arg.name) for arg in self.op.inputs], name="node", **case.attrs)
        assert graph.list_outputs() == ["node_output"]
        nodes = [node for node in json.loads(graph.tojson())["nodes"] if node["op"] == "Custom"]
        attrs = dict(nodes[0]["attrs"])
        assert len(nodes) == 1 and attrs.pop("op_type") == self.op.graph_name
        assert self.op.parse(attrs) == self.typed(case)

    def test_builtin_graph_has_no_custom_node(self, case):
        with gops.backend("builtin"):
            graph = self.function(*[mx.sym.var(arg.name) for arg in self.op.inputs], name="node", **case.attrs)
        assert graph.list_outputs() == ["node_output"]
        operators = {node["op"] for node in json.loads(graph.tojson())["nodes"]}
        assert not any("Custom" in operator or "gluonops" in operator for operator in operators)

    def test_builtin_graph_refuses_other_shapes(self, case, rng):
        """In a file that runs without gluonops, MXNet's inference is all that checks. It takes the right shapes."""
        names = [arg.name for arg in self.op.inputs]
        with gops.backend("builtin"):
            graph = mx.sym.load_json(self.function(*map(mx.sym.var, names), **case.attrs).tojson())
        expected = self.op.infer_shape(self.typed(case), dict(zip(names, case.shapes)))
        assert graph.infer_shape(**dict(zip(names, case.shapes)))[1] == [expected[self.op.outputs[0].name]]
        refused = [shapes for shapes in other_shapes(case.shapes) if self.refuses(case, dict(zip(names, shapes)))]
        for i in rng.permutation(len(refused))[:20]:
            with pytest.raises(mx.MXNetError):
                assert not graph.infer_shape(**dict(zip(names, refused[i]))), refused[i]

    def test_builtin_graph_of_nothing(self, case):
        """MXNet infers shapes without elements, or refuses them; some of its operators divide by such a size."""
        with gops.backend("builtin"):
            graph = self.function(*[mx.sym.var(arg.name) for arg in self.op.inputs], **case.attrs)
        names, first = [arg.name for arg in self.op.inputs], case.shapes[0]
        for k in range(len(first)):
            shapes = dict(zip(names, (first[:k] + (0,) + first[k + 1:], *case.shapes[1:])))
            with mx.util.np_shape(True), contextlib.suppress(mx.MXNetError, gops.OpError):
                expected = self.op.infer_shape(self.typed(case), {names[0]: shapes[names[0]]})
                shapes.update((name, expected[name]) for name in names if -1 not in expected.get(name, (-1,)))
                expected = self.op.infer_shape(self.typed(case), shapes)
                assert graph.infer_shape(**shapes)[1] in ([expected[self.op.outputs[0].name]], None)

    def refuses(self, case, shapes):
        try:
            self.op.infer_shape(self.typed(case), shapes)
        except gops.OpError:
            return True
        return False

    def test_shape_inference(self, case, rng):
        """The data alone, or little more, tell every other input's shape and every output's."""
        first = self.op.inputs[0].name
        has_class_ids = bool(self.op.index_sizes(self.typed(case), {first: case.shapes[0]}))
        if has_class_ids and len(case.shapes[1]) == len(case.shapes[0]):
            pytest.skip("a label that keeps its axis is not what follows from the data alone")
        input_shapes = {f"node_{arg.name}": shape for arg, shape in zip(self.op.inputs, case.shapes)
                        if arg.name == first or arg.name in self.own_shapes}
        arguments, outputs, _ = self.symbol(case).infer_shape(**input_shapes)
        assert arguments == [tuple(shape) for shape in case.shapes]
        expected = self.oracle(self.typed(case), *[a.astype("float64") for a in self.draw(case, "float64", rng)])
        assert outputs[0] == expected.shape

    def test_determined_shapes(self):
        for shapes, attrs, everything in self.determined:
            assert self.op.infer_shape(self.op.parse(attrs), shapes) == everything

    def test_type_inference(self, dtype):
        graph = self.symbol(self.cases[0])
        arguments, outputs, _ = graph.infer_type(**{f"node_{self.op.inputs[0].name}": dtype})
        assert set(arguments) == {np.dtype(dtype).type}
        assert outputs[0] == np.dtype(dtype).type

    # -- refusals --------------------------------------------------------------------------------------------
    def test_refused_imperative(self, error, backend):
        if not error.spelled:
            pytest.skip("Python refuses it")
        with gops.backend(backend), pytest.raises(gops.OpError) as caught:
            self.function(*self.bad_inputs(error), **error.attrs).wait_to_read()
        self.says(caught, error)

    def test_refused_in_a_graph(self, error, capfd):
        with pytest.raises(gops.OpError) as caught:
            graph = self.symbol(error)
            inputs = self.bad_inputs(error)
            names = [f"node_{arg.name}" for arg in self.op.inputs]
            graph.infer_type(**{name: array.dtype for name, array in zip(names, inputs)})
            graph.infer_shape(**{name: array.shape for name, array in zip(names, inputs)})
        self.says(caught, error)

    def test_refused_in_module(self, error):
        if not error.first:
            pytest.skip("Module refuses it")
        with pytest.raises(gops.OpError) as caught:
            names = [f"node_{arg.name}" for arg in self.op.inputs]
            inputs = [mx.io.DataDesc(name, array.shape, array.dtype)
                      for name, array in zip(names, self.bad_inputs(error))]
            module = mx.mod.Module(self.symbol(error), names[:1], names[1:] or None)
            module.bind(inputs[:1], inputs[1:] or None)
        self.says(caught, error)

    def bad_inputs(self, error):
        dtypes = error.dtypes or ("float32",) * len(error.shapes)
        return [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in zip(error.shapes, dtypes)]

    def says(self, caught, error):
        text = str(caught.value)
        assert text.startswith(f"gluonops.{self.name}: ") and error.text in text and text.endswith("."), text


@oracles.remembered
def _outputs(name, attrs, *inputs):
    """Return the oracle's outputs. Several tests ask for them, and some twice: for the head gradient's shape, too."""
    return _kept(oracles.get(name).forward(attrs, *inputs))


@oracles.remembered
def _gradients(name, attrs, head, *inputs):
    return _kept(oracles.get(name).backward(attrs, head, *inputs))


def _kept(results):
    """Return arrays that nobody can change."""
    for array in results.values():
        np.asarray(array).setflags(write=False)
    return results


@functools.cache
def finite_differences(suite_class):
    """Inputs of the first case, a head gradient, and what MXNet's own operators differ by: once for all backends."""
    suite, case, rng = suite_class(), suite_class.cases[0], np.random.RandomState(0)
    arrays = suite.draw(case, "float64", rng)
    head = suite.head(case, arrays, rng)
    with gops.backend("builtin"):
        net = suite.net(case, "static")
        net(*[mx.nd.array(a, dtype=a.dtype) for a in arrays])

    def scalar():
        return (net(*[mx.nd.array(a, dtype=a.dtype) for a in arrays]).asnumpy() * head).sum()

    drawn = dict(zip((arg.name for arg in suite.op.inputs), arrays))
    return arrays, head, {name: suite.central_difference(scalar, drawn[name]) for name in suite.differentiable(case)}


def recorded(function, *arrays, head=None, **attrs):
    """Output and the first input's gradient of an imperative call, both in NumPy."""
    inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
    inputs[0].attach_grad()
    with autograd.record():
        output = function(*inputs, **attrs)
    output.backward(head)
    return output.asnumpy(), inputs[0].grad.asnumpy()


def other_shapes(shapes):
    """Shapes with another size of one axis, with an axis more or fewer, and with two axes exchanged."""
    for i, shape in enumerate(shapes):
        others = [shape[:k] + (size,) + shape[k + 1:] for k, n in enumerate(shape) for size in (n + 1, 2 * n, 1)]
        others += [shape[:k] + (size,) + shape[k:] for k in range(len(shape) + 1) for size in (1, 2)]
        if len(shape) > 1:   # () is an unknown shape
            others += [shape[:k] + shape[k + 1:] for k in range(len(shape))]
        for k, m in itertools.combinations(range(len(shape)), 2):
            exchanged = list(shape)
            exchanged[k], exchanged[m] = shape[m], shape[k]
            others.append(tuple(exchanged))
        for other in others:
            yield (*shapes[:i], other, *shapes[i + 1:])


def largest_finite(array):
    """Return the largest number of an array, at least 1."""
    return array[np.isfinite(array)].max(initial=1.0)


def suite_of(name):
    """Return the suite of an operator, from ``ops/<name>/test_<name>.py``: as pytest imports it, by its basename."""
    if str(FOLDER / name) not in sys.path:
        sys.path.append(str(FOLDER / name))
    module = importlib.import_module(f"test_{name}")
    suites = [value for value in vars(module).values()
              if isinstance(value, type) and issubclass(value, OpSuite) and value.name == name]
    assert len(suites) == 1, f"{module.__file__} has {len(suites)} suites of {name}; expected one"
    return suites[0]
