"""Loads a graph whose JSON has another text for an attribute: it means what the contract reads in it, or is refused."""
import json
import warnings

import fuzz_contract as contracts
import gluonops as gops
import mxnet as mx

RUN = 1 << 16   # elements of the largest tensor of a graph that is also run
BACKENDS = ("custom", "native")


def rewritten(case, name):
    """The operator's graph as JSON, with the attribute's text replaced."""
    with gops.backend(name):
        symbol = contracts.suite(case.op).function(
            *[mx.sym.var(arg) for arg in contracts.input_names(case.op)], **case.attrs)
    graph = json.loads(symbol.tojson())
    nodes = [node for node in graph["nodes"]
             if f"gluonops_{case.op}" in (node["op"], node.get("attrs", {}).get("op_type"))]
    assert len(nodes) == 1, f"{len(nodes)} nodes of {case.op}"
    nodes[0].setdefault("attrs", {})[case.attr] = case.text
    return json.dumps(graph, ensure_ascii=False)   # MXNet reads no \\u


def check(case):
    """What is wrong, a list of (where, how, details)."""
    text = {**case.attrs, case.attr: case.text}
    typed = contracts.parse(case.op, text)
    names = contracts.input_names(case.op)
    expected = None if typed is None else contracts.infer(case.op, typed, dict(zip(names, case.shapes)))
    found = []
    for name in BACKENDS:
        try:
            with warnings.catch_warnings(), mx.util.np_shape(not all(case.shapes)):
                warnings.simplefilter("ignore")
                symbol = mx.sym.load_json(rewritten(case, name))
                arguments, outputs, _ = symbol.infer_shape(**dict(zip(names, case.shapes)))
                if expected is None:
                    found.append((name, "takes what the contract refuses", case.text[:40]))
                    continue
                found += [(name, *wrong) for wrong in _shapes(case, expected, symbol, arguments, outputs)]
                if not found and contracts.elements(expected.values()) <= RUN:
                    symbol.simple_bind(mx.cpu(), grad_req="write", **dict(zip(names, case.shapes))).forward()
                    mx.nd.waitall()
        except (gops.OpError, mx.MXNetError) as error:
            found += [(name, *wrong) for wrong in _refusal(case, expected, str(error))]
        except Exception as error:
            found.append((name, f"raises {type(error).__name__}", str(error)[:300]))
    return found


def _shapes(case, expected, symbol, arguments, outputs):
    if arguments is None:
        yield "infers nothing from the shapes of all inputs", str(outputs)
        return
    output = contracts.output_names(case.op)[0]
    if tuple(outputs[0]) != expected[output]:
        yield "infers the wrong output", f"{outputs[0]}, expected {expected[output]}"


def _refusal(case, expected, text):
    """Refusing is right where the contract refuses, and where sizes are beyond what MXNet can hold."""
    if expected is not None and contracts.elements(expected.values()) < 2 ** 31:
        yield "refuses what the contract takes", text[-300:]
    elif f"gluonops.{case.op}: " not in text:
        yield "refuses without a text of ours", text[-300:]
