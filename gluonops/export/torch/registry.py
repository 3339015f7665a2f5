"""The table of converters: what each operator is in torch."""
from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ...contract.errors import OpError
from ..graph import Node, is_ours, our_name
from ..sizes import SizedNode

WHERE = "export.torch"
SNIPPETS = [pathlib.Path(__file__).with_name(name) for name in ("snippets.txt", "losses.txt", "images.txt")]
# The defaults of the arguments of torch's classes and of those in snippets.txt, by class where they differ. An argument
# without a default is written by its position.
DEFAULTS = {
    "affine": False, "bias": True, "bidirectional": False, "ceil_mode": False, "count_include_pad": True, "dilation": 1,
    "dropout": 0.0, "eps": 1e-5, "fix_gamma": False, "groups": 1, "momentum": 0.1, "negative_slope": 0.01,
    "nonlinearity": "tanh", "num_layers": 1, "num_parameters": 1, "output_padding": 0, "padding": 0, "stride": 1,
    "use_global_stats": False,
    "nn.ELU.alpha": 1.0, "nn.LocalResponseNorm.alpha": 1e-4, "nn.LocalResponseNorm.beta": 0.75,
    "nn.LocalResponseNorm.k": 1.0, "nn.MaxPool.stride": None, "nn.AvgPool.stride": None, "nn.Upsample.scale_factor": 0,
    "DarknetBatchNorm.eps": 1e-12, "DarknetBatchNorm.momentum": 0.01,
}


@dataclasses.dataclass
class Form:
    """What a node is in torch.

    - ``text``: an expression of the inputs ``{0}``, ``{1}``, ..., of which ``{*}`` are all; None if only a module
      computes it. ``<name>`` and ``<name=default>`` are attributes of the node. Of a node with a state it is for
      parameters that are computed.
    - ``module``: the class of a module that computes it from its data; None if there is none.
    - ``args``: the arguments of the module, all whose value may differ from the default.
    - ``state``: the module's parameters and buffers -> the position of the variable among the node's inputs.
    - ``call``: how the module is called, with the inputs that are none of its state.
    - ``outputs``: how many tensors it returns; more than one is a tuple.
    """
    text: str | None = None
    module: str | None = None
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: dict[str, int] = dataclasses.field(default_factory=dict)
    call: str = "{self}({*})"
    outputs: int = 1


CONVERTERS: dict[str, str | Form | Callable] = {}   # those of our operators are entered as gluonops.<name>
# What torch makes floats of, or does not have for integers, where MXNet's results are integers.
OF_FLOATS = {
    "LeakyReLU", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "erf", "exp", "expm1",
    "hard_sigmoid", "log", "log10", "log1p", "log2", "log_softmax", "mean", "norm", "reciprocal", "rsqrt", "sigmoid",
    "sin", "sinh", "smooth_l1", "softmax", "softmin", "softsign", "sqrt", "tan", "tanh"}


class Call(SizedNode):
    """A node to convert, with its attributes as values.

    - ``free``: for each input the axes whose size differs between images or batches.
    - ``free_output``: those of the first output.
    - ``own``: the types of floats that the net's inputs and parameters have.
    """

    def __init__(self, node: Node, sizes: Any, free: dict, own: Collection[str] = ("float32",)):
        super().__init__(node, sizes)
        self.own = own
        self.free = [free[entry] for entry in node.inputs]
        self.free_output = free.get((node, 0), set())

    @property
    def ndim(self) -> int:
        return len(self.shapes[0])

    def value(self, name: str, default: Any = None) -> Any:
        """An attribute as a number, a tuple or None. A scalar has the type that MXNet holds it in."""
        value = super().value(name, default)
        if name != "scalar":
            return value
        held = self.held(value)
        self.refuse_if(held is None, f"has the scalar {value}, which {self.dtypes[0]} does not hold")
        return held

    def axis(self, name: str = "axis", default: int = -1) -> int:
        self.refuse_if(self.value(name, default) is None, "runs over the flattened data; expected an axis")
        return super().axis(name, default)

    def refuse_if(self, has_it: bool, what: str) -> None:
        """Raise an OpError for a node that has what its converter does not support."""
        if has_it:
            raise refusal(self.node, what)

    def single(self, name: str, default: Any = None) -> Single:
        """An attribute that MXNet holds in float32."""
        return Single(self.value(name, default))

    def singles(self, name: str, default: tuple) -> list[Single]:
        """An attribute of several such numbers."""
        return list(map(Single, self.ints(name, default)))

    def snippet(self, name: str, *arguments: Any, **options: Any) -> str:
        """A call of a function of the snippets: its inputs, arguments, and the options that are not its defaults.

        An option that is None is left out, too.
        """
        defaults, given = arguments_of(name), ["{*}", *map(repr, arguments)]
        for option, value in options.items():
            if value is not None and value != defaults[option]:
                is_float = isinstance(defaults[option], float) and type(value) is int
                given.append(f"{option}={float(value) if is_float else value!r}")
        return f"{name}({', '.join(given)})"

    def form(self) -> Form:
        """What the node is in torch, from its converter."""
        found = converter_of(self.node)
        self.refuse_if(self.node.op in OF_FLOATS and self.dtypes[0].kind in "iu",
                       f"computes in {self.dtypes[0]} with integers as results, which torch does not; cast its input "
                       "to float32")
        try:
            form = found(self) if callable(found) else found
            form = Form(form) if isinstance(form, str) else form
            count = len(self.node.inputs)
            return dataclasses.replace(form, text=form.text and self._written(form.text, count),
                                       call=self._written(form.call, count - len(form.state)))
        except OpError:
            raise
        except Exception as error:   # an attribute is none of the operator's, whatever it is
            what = f"has an attribute that the operator does not take ({type(error).__name__}: {error})"
            raise refusal(self.node, what) from error

    def _written(self, text: str, inputs: int) -> str:
        """A text with the values of attributes, and with as many inputs for ``{*}``."""
        text = re.sub(r"<(\w+)(?:=([^>]*))?>", self._attribute, text)
        read = list(map(int, re.findall(r"{(\d+)}", text)))
        self.refuse_if(max(read, default=-1) >= inputs, f"has {inputs} inputs; expected more")
        return text.replace("{*}", ", ".join(f"{{{i}}}" for i in range(inputs)))

    def _attribute(self, match: re.Match) -> str:
        value = self.value(match[1]) if match[1] in self.node.attrs else None
        return number(value) if value is not None or match[2] is None else match[2]


class Single(float):
    """A number that MXNet holds in float32, whatever the data are.

    net.py has it as it was meant: see :func:`plain`.
    """

    def __repr__(self) -> str:   # no class of objects has this name
        return f"__single__({float(self)!r})"


def usually(text: str) -> str:
    """Such a number that is the default of an argument of a class, which a user does not write."""
    return text.replace("__single__", "__usual__")


def plain(text: str) -> str:
    """A source with such numbers as they were meant."""
    without = re.sub(r"(,\s+)?\w+=__usual__\([^()]+\)", "", text)
    return re.sub(r"__single__\(([^()]+)\)", r"\1", without)


def number(value: object) -> str:
    """An attribute as an engineer writes it: 2, and not 2.0."""
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e6
    return str(int(value)) if is_whole else repr(value)


def converts(*names: str) -> Callable:
    """Enter the decorated function for these operators: ``convert(call)`` returns a Form, or its text."""
    def enter(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function
    return enter


def converter_of(node: Node) -> str | Form | Callable | None:
    return CONVERTERS.get(f"gluonops.{our_name(node)}" if is_ours(node) else node.op)


@functools.cache
def snippets() -> dict[str, str]:
    """Name -> the source of a class or a function that a net may need."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SNIPPETS)
    return {node.name: ast.get_source_segment(text, node) for node in ast.parse(text).body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def arguments_of(name: str) -> dict[str, Any]:
    """The arguments of a function of the snippets, and their defaults; None for those without one."""
    arguments = ast.parse(snippets()[name]).body[0].args
    names = [argument.arg for argument in arguments.args]
    values = [ast.literal_eval(default) for default in arguments.defaults]
    return {**dict.fromkeys(names), **dict(zip(reversed(names), reversed(values)))}


def default_of(module: str, name: str) -> Any:
    """The default of an argument of a class; None if it has none."""
    module = re.sub(r"\dd$", "", module)
    return DEFAULTS.get(f"{module}.{name}", DEFAULTS.get(name))


def refusal(node: Node, what: str) -> OpError:
    """An OpError for a node that has no converter, or that its converter does not support."""
    op = our_name(node) if is_ours(node) else node.op
    return OpError(WHERE, f"the node {node.name!r} ({op}) {what}", "Replace it in the net, or export ONNX")


def one(values: tuple) -> Any:
    """A kernel, stride or padding: the number if all axes have the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)
