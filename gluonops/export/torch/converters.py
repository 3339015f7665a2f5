"""The table of converters: what each operator is in torch."""
from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection
from typing import Any

from ...contract.errors import OpError, plural
from ..graph import Node, is_ours, our_name
from ..operators.forms import Form, number
from ..operators.rule_registry import NOT_TAKEN, TORCH, operator_of, traits_of
from ..sizes import SizedNode
from .expressions import SELF, Expression, filled, parsed

WHERE = "export.torch"
SNIPPETS = [pathlib.Path(__file__).with_name(name)
            for name in ("snippets.txt", "loss_functions.txt", "image_functions.txt")]
CONVERTERS: dict[str, str | Form | Callable] = TORCH   # those of our operators are entered as gluonops_<name>


class TorchCall(SizedNode):
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

    def from_front(self, axis: int | None) -> int:
        self.refuse_if(axis is None, "runs over the flattened data; expected an axis")
        return super().from_front(axis)

    def refuse_if(self, has_it: bool, what: str) -> None:
        """Raise an OpError for a node that has what its converter does not support."""
        if has_it:
            raise self.refuse(what)

    def refuse(self, what: str) -> OpError:
        """Return an OpError for this node. See :func:`refusal`."""
        return refusal(self.node, what)

    def chosen_type(self, dtype: str) -> str:
        """Return the type that an attribute chooses, as text.

        A type of the net's own becomes the one that ``load`` was asked for, which is that of the node's last input.
        """
        if dtype in self.own and (self.dtypes[0].name in self.own or len(self.node.inputs) > 1):
            return f"{{{len(self.node.inputs) - 1}}}.dtype"
        return f"torch.{dtype}"

    def snippet(self, name: str, *arguments: Any, inputs: str = "*{inputs}", **options: Any) -> str:
        """Return a call of a function of the snippets, with the options that are neither None nor its defaults.
        """
        defaults, written = arguments_of(name), [inputs, *map(repr, arguments)]
        for option, value in options.items():
            if value is not None and value != defaults[option]:
                is_float = isinstance(defaults[option], float) and type(value) is int
                written.append(f"{option}={float(value) if is_float else value!r}")
        return f"{name}({', '.join(written)})"

    def form(self) -> Form:
        """Return what the node is in torch, from its converter."""
        converter = converter_of(self.node)
        self.refuse_if(traits_of(self.node).is_of_floats and self.dtypes[0].kind in "iu",
                       f"computes in {self.dtypes[0]} with integers as results, which torch does not; cast its input "
                       "to float32")
        try:
            form = converter(self) if callable(converter) else converter
            form = Form(form) if isinstance(form, str) else form
            count = len(self.node.inputs)
            return dataclasses.replace(form, text=form.text and self._expression(form.text, count),
                                       call=self._expression(form.call, count - len(form.state)))
        except OpError:
            raise
        except NOT_TAKEN as error:
            what = f"has an attribute that the operator does not take ({type(error).__name__}: {error})"
            raise refusal(self.node, what) from error

    def _expression(self, text: str, count: int) -> Expression:
        """Return the expression that a text says, with the values of attributes, and with so many inputs."""
        expression = Expression.of(text, count)
        attributes = {name: parsed(number(self.attributes[name])) for name in expression.places
                      if name != SELF and not name.isdigit()}
        if attributes:
            expression = Expression(filled(expression.tree, attributes))
        self.refuse_if(max(expression.reads, default=-1) >= count, f"has {plural(count, 'input')}; expected more")
        return expression


def converter_of(node: Node) -> str | Form | Callable | None:
    return CONVERTERS.get(operator_of(node))


@functools.cache
def snippets() -> dict[str, str]:
    """Name -> the source of a class or a function that a net may need."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SNIPPETS)
    lines = text.split("\n")
    return {node.name: _source(lines, node) for node in ast.parse(text).body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def _source(lines: list[str], node: ast.stmt) -> str:
    """The source of a class or a function. ``ast.get_source_segment`` would split the whole text for each of them."""
    *above, last = lines[node.lineno - 1:node.end_lineno]
    return "\n".join([*above, last[:node.end_col_offset]])   # without a comment behind it


def arguments_of(name: str) -> dict[str, Any]:
    """Return the arguments of a function of the snippets with their defaults, which are None for those without one."""
    arguments = ast.parse(snippets()[name]).body[0].args
    names = [argument.arg for argument in arguments.args]
    values = [ast.literal_eval(default) for default in arguments.defaults]
    return {**dict.fromkeys(names), **dict(zip(reversed(names), reversed(values)))}


def refusal(node: Node, what: str) -> OpError:
    """Return an OpError for a node that has no converter, or that its converter does not support."""
    op = our_name(node) if is_ours(node) else node.op
    return OpError(WHERE, f"the node {node.name!r} ({op}) cannot be exported to PyTorch: it {what}",
                   "Replace it in the net, or export ONNX")


