"""Nets with a user's own CustomOp: whatever its class does, every export says it in an error, and the process lives.

All cases run in one process of their own, which MXNet 1.9.1 would end: it does so if the constructor of a CustomOpProp
raises an error, or does not take an attribute that an AttrScope has set.
"""
import json

import fresh
import pytest

PROGRAM = """
import json, sys, warnings
import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet.gluon import nn

warnings.simplefilter("ignore")
kind = failing = ""


def step(name):
    if name == failing:
        raise RuntimeError(f"{name} is broken")


class Scale(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        step("forward")
        self.assign(out_data[0], req[0], in_data[0] * 2 if in_data else mx.nd.ones((2, 3)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        step("backward")
        for i, grad in enumerate(in_grad):
            self.assign(grad, req[i], out_grad[0] * 2)


@mx.operator.register("scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)
        step("constructor")

    def list_arguments(self):
        step("list_arguments")
        return [] if kind == "without_inputs" else ["data"]

    def list_auxiliary_states(self):
        return ["state"] if kind == "with_state" else []

    def infer_shape(self, in_shape):
        step("infer_shape")
        states = [[1]] if kind == "with_state" else []
        return in_shape, [in_shape[0] if in_shape else [2, 3]], states

    def infer_type(self, in_type):
        step("infer_type")
        return super().infer_type(in_type) if in_type else ([], [np.float32], [])

    def create_operator(self, ctx, shapes, dtypes):
        step("create_operator")
        return Scale()


class Net(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first, self.last = nn.Dense(3, in_units=4), nn.Dense(2, in_units=3)
            if kind == "with_state":
                self.state = self.params.get("state", shape=(1,), grad_req="null")

    def hybrid_forward(self, F, x, state=None):
        x = self.first(x)
        with mx.AttrScope(ctx_group="stage") if kind == "in_a_group" else mx.AttrScope():
            if kind == "without_inputs":
                made = F.broadcast_add(x, F.Custom(op_type="scale", name="own"))
            else:
                made = F.Custom(*([x, state] if state is not None else [x]), op_type="scale", name="own")
        return self.last(made)


def exported():
    net = Net()
    net.initialize()
    shape, found = (2, 4), {}
    exports = {
        "symbol": lambda: gops.export.symbol(net, f"net{kind}{failing}", shape),
        "rewrite": lambda: gops.export.rewrite(files, "again", data_shape=shape),
        "compare": lambda: gops.export.compare(files, "again", shape),
        "onnx": lambda: gops.export.onnx(net, "net.onnx", shape),
        "onnx_of_files": lambda: gops.export.onnx(files, "net.onnx", shape),
        "torch": lambda: gops.export.torch(net, "port", shape),
        "torch_of_files": lambda: gops.export.torch(files, "port", shape),
        "torch_below": lambda: gops.export.torch(files, "below", shape, outputs=["net_dense0_fwd"]),
        "onnx_below": lambda: gops.export.onnx(files, "below.onnx", shape, outputs=["net_dense0_fwd"]),
        "picture": lambda: gops.export.picture(net, "net.svg", shape),
        "quantize": lambda: gops.export.quantize(files, "small", np.ones((12, 4), "float32"), limit=9, layer_limit=9),
    }
    for name, export in exports.items():
        try:
            export()
            found[name] = "written"
        except gops.OpError as error:
            found[name] = str(error)
        except Exception as error:
            found[name] = f"{type(error).__name__}, which is no OpError: {error}"
    return found


for kind, failing in json.loads(sys.argv[1]):
    # What fails when the graph is made leaves no files: those of a class that works are there.
    files = f"net{kind}" if failing else f"net{kind}{failing}"
    print(f"RESULT {json.dumps(exported())}", flush=True)
"""
KINDS = ("plain", "with_state", "without_inputs", "in_a_group")
BEFORE = ("constructor", "list_arguments", "infer_shape", "infer_type")   # Methods that MXNet calls for a graph,
RUNNING = ("create_operator", "forward", "backward")                      # and for a net that runs.
CASES = [*((kind, "") for kind in KINDS), *(("plain", method) for method in (*BEFORE, *RUNNING))]
BELOW = ("torch_below", "onnx_below")   # They do not need the operator, but for the file.


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each export returns or says, by its name, for each case."""
    done = fresh.python("-c", PROGRAM, json.dumps(CASES), cwd=tmp_path_factory.mktemp("custom"))
    found = [json.loads(line[len("RESULT "):]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, (f"the process ended in the case {CASES[len(found)]}", done.stderr[-2000:])
    return dict(zip(CASES, found))


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_works(kind, results):
    refused = {name: text for name, text in results[kind, ""].items() if text != "written"}
    if kind == "without_inputs":   # Its output is for the batch of 2, and quantize takes batches of 4.
        assert "MXNet does not run the net: " in refused.pop("quantize")
    assert refused.keys() == {"onnx", "onnx_of_files", "torch", "torch_of_files"}, refused
    for text in refused.values():
        assert "the node 'net_own' is the operator scale, which has no converter to" in text
        assert "outputs=['net_dense0_fwd'], or --output net_dense0_fwd" in text


@pytest.mark.parametrize("failing", BEFORE)
def test_a_class_that_fails_before_it_runs(failing, results):
    """The graph itself cannot be made. What is below the operator in a file is exported all the same."""
    found = results["plain", failing]
    assert {name: found.pop(name) for name in BELOW} == dict.fromkeys(BELOW, "written")
    assert all(text.startswith("gluonops.") for name, text in found.items() if name != "compare"), found
    assert found["compare"].startswith(("gluonops.", "written"))   # A net runs without infer_type.
    if failing == "constructor":
        assert "the constructor of ScaleProp raised RuntimeError: constructor is broken" in found["symbol"]


@pytest.mark.parametrize("failing", RUNNING)
def test_a_class_that_fails_when_it_runs(failing, results):
    """Graphs are written. What runs the net says why it does not."""
    found = results["plain", failing]
    written = {name for name, text in found.items() if text == "written"}
    assert failing == "backward" or "a CustomOp of the net fails" in found["quantize"]
    assert written >= {"symbol", "rewrite", "picture", *BELOW}, found
    assert all(text == "written" or text.startswith("gluonops.") for text in found.values()), found
