"""Asks a graph for shapes and dtypes of which only some are known, and compares with what the contract infers.

Whatever is known, an answer is complete, open, or an error of MXNet's or ours; it contradicts the contract's nowhere,
and asking again and again harms nothing.
"""
import math
import warnings

import fuzz_contract as contracts
import gluonops as gops
import mxnet as mx
import numpy as np
from fuzz_contract import UNKNOWN

REPEATS = 20
BACKENDS = ("custom", "native", "builtin")
REFUSALS = (gops.OpError, mx.MXNetError)


def graph(case):
    """The operator on variables; a layer behind it; or a sum with a tensor of the output's shape."""
    output = contracts.suite(case.op).function(*[mx.sym.var(arg) for arg in contracts.input_names(case.op)],
                                               **case.attrs)
    if case.graph == "layer":
        return mx.sym.FullyConnected(output, num_hidden=3, name="layer")
    return output + mx.sym.var("other") if case.graph == "sum" else output


def check(case):
    """What is wrong, a list of (where, how, details)."""
    typed = contracts.parse(case.op, case.attrs)
    found = []
    with mx.util.np_shape(case.np_shape), warnings.catch_warnings():
        warnings.simplefilter("ignore")   # "Cannot decide shape": that is the question
        expected = _expected(case, typed)
        for name in BACKENDS:
            with gops.backend(name):
                symbol = graph(case)
                found += [(f"{name} {case.graph}", *what) for what in _ask(case, symbol, expected, name)]
    return found


def _known(case, typed):
    """What is given, as MXNet writes it: an unknown size is 0, or -1 where 0 is a size."""
    known = dict(case.known)
    if case.graph == "sum":   # backwards: the output's shape is all that is known of some
        whole = contracts.infer(case.op, typed, {name: shape for name, shape in known.items()
                                                 if contracts.complete([shape])}) or {}
        output = whole.get(contracts.output_names(case.op)[0])
        if output and contracts.complete([output]):
            known["other"] = output
            known.pop(contracts.input_names(case.op)[0], None)
    return known


def _expected(case, typed):
    """Every tensor's shape by the contract, None where it refuses."""
    known = _known(case, typed)
    if "other" in known:
        known[contracts.output_names(case.op)[0]] = known.pop("other")
    elsewhere = {name: shape for name, shape in known.items() if case.np_shape or shape}
    return contracts.infer(case.op, typed, elsewhere)


def _written(case, shape):
    return tuple((UNKNOWN if case.np_shape else 0) if size == UNKNOWN else size for size in shape)


def _ask(case, symbol, expected, name):
    typed = contracts.parse(case.op, case.attrs)
    known = {arg: _written(case, shape) for arg, shape in _known(case, typed).items()}
    answers = []
    for ask in (symbol.infer_shape_partial, symbol.infer_shape):
        answer = None
        for _ in range(REPEATS):
            try:
                answer = ask(**known)
            except REFUSALS as error:
                answer = error
            except Exception as error:
                yield f"{ask.__name__} raises {type(error).__name__}", str(error)[:300]
                break
        answers.append(answer)
        yield from _compare(case, symbol, expected, answer, ask.__name__, name)
    if case.graph == "alone" and expected is not None and not isinstance(answers[1], tuple) and _decided(
            case, expected) and answers[1] is not None:
        yield "infer_shape refuses what the contract takes", str(answers[1])[-300:]
    yield from _bind(case, symbol, known)
    yield from _types(case, symbol, typed)


def _decided(case, expected):
    """Whether all inputs are given in full, so that every backend has to know the rest."""
    shapes = [case.known.get(arg) for arg in contracts.input_names(case.op)]
    given = None not in shapes and (case.np_shape or () not in shapes)   # else () is unknown
    return given and contracts.complete(shapes)


def _compare(case, symbol, expected, answer, asked, name):
    if isinstance(answer, Exception):
        if "bad_alloc" in str(answer) or "length_error" in str(answer):
            yield f"{asked} runs out of memory", str(answer)[-200:]
        return
    if answer is None or answer[0] is None:
        return
    shapes = dict(zip(symbol.list_arguments(), answer[0]))
    output = answer[1][0]
    if expected is None:
        if case.graph == "alone" and asked == "infer_shape" and (name != "builtin" or _computes(symbol, shapes)):
            yield f"{asked} takes what the contract refuses", f"{shapes}, output {output}"
        return
    wanted = dict(expected)
    first = contracts.output_names(case.op)[0]
    if case.graph == "layer":
        behind = wanted.get(first)
        open_ = behind is None or UNKNOWN in behind[1:] or not behind
        wanted["layer_weight"] = (3, UNKNOWN if open_ else math.prod(behind[1:]))
    elif first in wanted:
        shapes["the output"], wanted["the output"] = output, wanted[first]
    for tensor, shape in shapes.items():
        text = _contradiction(case, shape, wanted.get(tensor), tensor == "layer_weight")
        if text:
            yield f"{asked} is wrong about {tensor}", text


def _computes(symbol, shapes):
    """Whether a graph that infers shapes also gives numbers."""
    try:
        symbol.simple_bind(mx.cpu(), grad_req="null", **shapes).forward()
        mx.nd.waitall()
    except REFUSALS:
        return False
    return True


def _contradiction(case, shape, wanted, is_weight):
    """How a shape that MXNet inferred differs from the contract's, where both know something."""
    if shape is None or wanted is None or not (case.np_shape or shape):
        return None
    unknown = UNKNOWN if case.np_shape else 0
    if any(size < unknown for size in shape):
        return f"has the negative shape {shape}"
    if len(shape) != len(wanted):
        return f"has shape {shape}, expected {wanted}"
    for size, other in zip(shape, wanted):
        if size not in (unknown, other) and (other != UNKNOWN or is_weight):
            return f"has shape {shape}, expected {wanted}"
    return None


def _bind(case, symbol, known):
    """Binding with what is known: an executor or an error."""
    inputs = {arg: shape for arg, shape in known.items() if min(shape, default=case.np_shape) >= 0}
    inputs = {arg: shape for arg, shape in inputs.items() if shape or case.np_shape}   # it takes no -1
    try:
        symbol.simple_bind(mx.cpu(), **inputs)
    except (*REFUSALS, RuntimeError) as error:
        if "bad_alloc" in str(error) or "length_error" in str(error):
            yield "simple_bind runs out of memory", str(error)[-200:]
    except Exception as error:
        yield f"simple_bind raises {type(error).__name__}", str(error)[:300]


def _types(case, symbol, typed):
    """dtypes that contradict the contract's."""
    if not case.dtypes:
        return
    try:
        answer = symbol.infer_type(**case.dtypes)
    except REFUSALS:
        return
    except Exception as error:
        yield f"infer_type raises {type(error).__name__}", str(error)[:300]
        return
    variables = contracts.variables(case.op, typed)
    data = contracts.input_names(case.op)[0]
    if answer[0] is None or data not in case.dtypes:
        return
    for arg, dtype in zip(symbol.list_arguments(), answer[0]):
        if variables.get(arg) == variables[data] and np.dtype(dtype).name != case.dtypes[data]:
            yield f"infer_type is wrong about {arg}", f"{np.dtype(dtype).name}, expected {case.dtypes[data]}"
