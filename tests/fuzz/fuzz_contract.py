"""What the random tester reads of an operator: its contract, and its test's oracle. No other file looks into them."""
import math
import pathlib
import sys

import gluonops as gops

TESTS = pathlib.Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))

import op_suite  # noqa: E402  (from tests/, which is on the path by now)
from gluonops.contract import registry  # noqa: E402
from gluonops.contract.errors import OpError  # noqa: E402

UNKNOWN = -1
MAX_NDIM = 8


def operators():
    """The names of all operators."""
    return list(registry.entries())


def contract(name):
    """The contract of an operator."""
    return registry.get(name).op


def suite(name):
    """The suite of an operator's test, which calls its oracle."""
    class Fuzzed(op_suite.suite_of(name)):
        """The same; of an operator that returns several arrays the first one."""

        @property
        def function(self):
            function = getattr(gops.ops, name)

            def first(*inputs, **attrs):
                result = function(*inputs, **attrs)
                return result[0] if isinstance(result, (tuple, list)) else result
            return first
    return Fuzzed()


def input_names(name):
    """The names of the inputs, in order."""
    return [arg.name for arg in contract(name).inputs]


def output_names(name):
    """The names of the outputs, the hidden ones too."""
    return [out.name for out in contract(name).outputs]


def kinds(name):
    """(kind, default) of every attribute, by name."""
    return {attr.name: (attr.kind, attr.default) for attr in contract(name).attrs}


def parse(name, attrs):
    """The typed attributes; None where the contract refuses them."""
    try:
        return contract(name).parse(attrs)
    except OpError:
        return None


def dtypes(name, variable):
    """What a type variable may be: "T" the data, "L" the labels; nothing where the operator has no such variable."""
    return contract(name).types.get(variable, ())


def variables(name, attrs):
    """The type variable of every input, by name."""
    op = contract(name)
    found = op.type_vars(attrs)
    return {arg.name: found[arg.name] for arg in op.inputs}


def classes(name, attrs, shapes):
    """How many classes each input of class labels counts, by name; ``shapes`` in the order of the inputs."""
    return contract(name).index_sizes(attrs, dict(zip(input_names(name), shapes)))


def ordinary_inputs(name):
    """The inputs whose values are not free: labels, and what the contract checks the values of."""
    return [arg.name for arg in contract(name).inputs if arg.values or not arg.gradient]


def infer(name, attrs, known):
    """Every tensor's shape as the contract infers it from those known, by name; None where it refuses."""
    try:
        found = contract(name).infer_shape(attrs, known)
    except OpError:
        return None
    return {tensor: tuple(int(size) for size in shape) for tensor, shape in found.items()}


def ranks(name, attrs, known, tensor):
    """The numbers of dimensions that ``tensor`` may have beside the known shapes."""
    return [ndim for ndim in range(MAX_NDIM + 1)
            if (infer(name, attrs, {**known, tensor: (UNKNOWN,) * ndim}) or {}).get(tensor) is not None]


def complete(shapes):
    """Whether every shape is known."""
    return all(UNKNOWN not in shape for shape in shapes)


def elements(shapes):
    """How many elements the largest has, unknown sizes counted as 1."""
    return max((math.prod(max(size, 1) for size in shape) for shape in shapes), default=0)
