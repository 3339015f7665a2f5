"""Loads a graph whose JSON has another text for an attribute, another operator, or another number of inputs.

It means what the contract reads in it, or is refused: by MXNet, and by gluonops.export, which reads it from a file.
"""
import json
import pathlib
import tempfile
import warnings

import fuzz_contract as contracts
import fuzz_files
import gluonops as gops
import mxnet as mx
from gluonops.contract.op import PREFIX
from gluonops.export.graph import Graph

RUN = 1 << 16   # elements of the largest tensor of a graph that is also run
BACKENDS = ("builtin", "custom", "native")
OF_NODES = ("op", "inputs")


def rewritten(case, name, content):
    """The operator's graph with its node changed, as JSON; or one of MXNet's nodes, of a builtin graph."""
    if name == "builtin":
        what = case.attr if case.attr in OF_NODES else "attr"
        value = case.text if what == "inputs" else json.dumps(case.text)
        return fuzz_files.damaged(content.encode(), [(what, case.place, value.encode().hex())]).decode()
    graph = json.loads(content)
    nodes = [node for node in graph["nodes"]
             if f"{PREFIX}{case.op}" in (node["op"], node.get("attrs", {}).get("op_type"))]
    assert len(nodes) == 1, f"{len(nodes)} nodes of {case.op}"
    if case.attr == "inputs":
        nodes[0]["inputs"] = (nodes[0]["inputs"] * int(case.text))[:int(case.text)]
    elif case.attr == "op" and name == "native":
        nodes[0]["op"] = case.text
    else:
        nodes[0].setdefault("attrs", {})["op_type" if case.attr == "op" else case.attr] = case.text
    return json.dumps(graph, ensure_ascii=False)   # MXNet reads no \\u


def meaning(case):
    """Our operator that the changed node names, and its tensors' shapes; None where the contract refuses the node."""
    name = case.text if case.attr == "op" else f"{PREFIX}{case.op}"
    op = name[len(PREFIX):]
    if not name.startswith(PREFIX) or op not in contracts.operators():
        return None, None
    count = int(case.text) if case.attr == "inputs" else len(case.shapes)
    typed = contracts.parse(op, case.attrs if case.attr in OF_NODES else {**case.attrs, case.attr: case.text})
    names = contracts.input_names(op)
    fits = typed is not None and count == len(names)
    return op, contracts.infer(op, typed, dict(zip(names, case.shapes))) if fits else None


def check(case):
    """What is wrong, a list of (where, how, details)."""
    found, inputs = [], dict(zip(contracts.input_names(case.op), case.shapes))
    op, expected = meaning(case)
    with tempfile.TemporaryDirectory() as folder, mx.util.np_shape(not all(case.shapes)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in BACKENDS:
            with gops.backend(name):
                symbol = contracts.suite(case.op).function(*map(mx.sym.var, inputs), **case.attrs)
            prefix = pathlib.Path(folder, name, "net")
            prefix.parent.mkdir()
            path = pathlib.Path(gops.export.ExportedModel(Graph.of(symbol), {}, inputs).save(prefix)[0])
            content = rewritten(case, name, path.read_text())
            path.write_text(content)
            found += [(name, *how) for _, *how in fuzz_files.outcome("symbol_json", path)]
            if name == "builtin" or op is None:
                continue
            if expected is None and (path.parent / "again" / path.name).exists():
                found.append((name, "is rewritten, though the contract refuses it", case.text[:40]))
            found += [(name, *how) for how in _load(case, content, op, expected, inputs)]
    return found


def _load(case, content, op, expected, inputs):
    """What is wrong with how MXNet loads the graph and runs it, (how, details)."""
    try:
        symbol = mx.sym.load_json(content)
        shapes = {arg: shape for arg, shape in inputs.items() if arg in symbol.list_inputs()}
        symbol.infer_type_partial()
        symbol.infer_shape_partial()
        arguments, outputs, _ = symbol.infer_shape(**shapes)
        if expected is None:
            yield "takes what the contract refuses", case.text[:40]
            return
        wrong = list(_shapes(op, expected, arguments, outputs))
        yield from wrong
        if not wrong and contracts.elements(expected.values()) <= RUN:
            symbol.simple_bind(mx.cpu(), grad_req="write", **shapes).forward()
            mx.nd.waitall()
    except (gops.OpError, mx.MXNetError) as error:
        yield from _refusal(op, expected, str(error))
    except Exception as error:
        yield f"raises {type(error).__name__}", str(error)[:300]


def _shapes(op, expected, arguments, outputs):
    if arguments is None:
        yield "infers nothing from the shapes of all inputs", str(outputs)
        return
    output = contracts.output_names(op)[0]
    if tuple(outputs[0]) != expected[output]:
        yield "infers the wrong output", f"{outputs[0]}, expected {expected[output]}"


def _refusal(op, expected, text):
    """Refusing is right where the contract refuses, and where sizes are beyond what MXNet can hold."""
    if expected is not None and contracts.elements(expected.values()) < 2 ** 31:
        yield "refuses what the contract takes", text[-300:]
    elif f"gluonops.{op}: " not in text:
        yield "refuses without a text of ours", text[-300:]
