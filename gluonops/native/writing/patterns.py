"""The function that says what the shapes of an operator are, in the classes of ``native/mxnet/dims.h``."""
from __future__ import annotations

from ...contract.expressions import Expression
from ...contract.op import Op
from ...contract.shapes import Group, Named, Shapes, Sized, Term, bare_name
from .text import indented, itemized, listed, of_attrs, quoted
from .translator import SizeTranslator, Translator


class Patterns:
    """Writes ``shapes(attrs, ndims)`` of an operator."""

    def __init__(self, op: Op):
        self.op = op
        self.condition = Translator(op)
        self.size = SizeTranslator(op)

    def lines(self) -> list[str]:
        """Return the lines of the function."""
        body = [f"const int {arg.name}_ndim = ndims[{i}];" for i, arg in enumerate(self.op.inputs)
                if self._reads_ndim(arg.name, first=i == 0)]
        for rule in self.op.rules:
            lines = self._rule(rule)
            if rule.when is not None:
                lines = [f"if ({self.condition(rule.when)}) {{", *indented(lines), "}"]
            body += lines
        return of_attrs("static Shapes shapes", ["const std::vector<int> &ndims"], body)

    def _reads_ndim(self, tensor: str, first: bool) -> bool:
        """Return whether the shapes need the number of dimensions of an input."""
        conditions = [rule.when.text for rule in self.op.rules if rule.when]
        conditions += [refused.when for refused in self.op.refused]
        if any(f"{tensor}.ndim" in text for text in conditions):
            return True
        return first and any(isinstance(term, Group) for rule in self.op.rules for term in rule.first)

    def _rule(self, rule: Shapes) -> list[str]:
        lines = self._groups(rule)
        for tensor, terms in rule.patterns.items():
            lines += [f"// {tensor}: {rule.texts[tensor]}", *self._pattern(tensor, terms)]
        lines += self.condition.refusals(reads_ndim=True)
        if rule.whole:
            lines += self._pattern("whole", rule.whole)
        tensors = listed([tensor.name for tensor in self.op.tensors])
        texts = {**self.op.remedies, **rule.remedies}
        remedies = listed([f"{{{quoted(name)}, {quoted(text)}}}" for name, text in texts.items()])
        counts = listed([f"{{{quoted(name)}, {quoted(dimension)}, number_of(attrs.{name})}}"
                         for name, dimension in self.op.counts.items()])
        return [*lines, f"return {{{{{tensors}}}, {'whole' if rule.whole else '{}'}, {{{remedies}}}, {{{counts}}}}};"]

    def _groups(self, rule: Shapes) -> list[str]:
        """Return the variables that hold the dimensions of the groups, from the first pattern."""
        first, tensor = rule.first, self.op.inputs[0].name
        groups = [term for term in first if isinstance(term, Group)]
        axis = rule.axis
        if axis:
            normalized = f"normalized_axis(NAME, attrs.{axis}, {tensor}_ndim, {quoted(tensor)})"
            return [f"const int64_t {axis} = {normalized};",
                    self._group_dims(groups[0], "0", axis),
                    self._group_dims(groups[1], f"{axis} + 1", f"{tensor}_ndim")]
        if not groups:
            return []
        begin = first.index(groups[0])
        behind = len(first) - 1 - begin
        end = f"{tensor}_ndim - {behind}" if behind else f"{tensor}_ndim"
        return [self._group_dims(groups[0], begin, end)]

    @staticmethod
    def _group_dims(group: Group, begin: str | int, end: str) -> str:
        return f"const Pattern {_variable_of(group)} = group({quoted(group.name)}, {begin}, {end});"

    def _pattern(self, name: str, terms: tuple[Term, ...]) -> list[str]:
        opening = f"const Pattern {name} = "
        if not any(isinstance(term, Group) for term in terms):
            return itemized(opening + "{", [self._dim(term) for term in terms], "};")
        parts = [self._group(term) if isinstance(term, Group) else f"{{{self._dim(term)}}}" for term in terms]
        return itemized(opening + "joined({", parts, "});") if len(parts) > 1 else [f"{opening}{parts[0]};"]

    def _group(self, term: Group) -> str:
        variable = _variable_of(term)
        if term.counts is None:
            return variable
        counts = f"attrs.{term.counts}.values"
        if term.axis is not None:
            counts = f"counts_at(NAME, attrs.{term.counts}, attrs.{term.axis}, {variable})"
        return f"repeated(NAME, {variable}, {quoted(term.counts)}, {counts})"

    def _dim(self, term: Term) -> str:
        if isinstance(term, Sized):
            label = f", {quoted(term.size.text)}" if term.size.names else ""
            return f"fixed(NAME, {self.size(term.size)}{label})"
        if bare_name(term):
            return f"named({quoted(term.name)})"
        return f"named({quoted(term.name)}, {quoted(term.text)}, {self._factor(term.mul)}, {self._factor(term.div)})"

    def _factor(self, factor: Expression | None) -> str:
        return "{}" if factor is None else f"factor(NAME, {quoted(factor.text)}, {self.size(factor)})"


def _variable_of(group: Group) -> str:
    return f"{group.name or 'other'}_dims"


def size_of(op: Op, rule: Shapes, name: str) -> str:
    """Return the expression for the size of a dimension or a group, from an input that has it."""
    for i, arg in enumerate(op.inputs):
        terms = rule.patterns[arg.name]
        for index, term in enumerate(terms):
            if bare_name(term) == name:
                return f"inputs[{i}].{_size_at(terms, index)}"
    raise ValueError(f"{op.name}: no input has the bare dimension {name!r}")


def _size_at(terms: tuple[Term, ...], index: int) -> str:
    """Return the member of an input that is the size of a term."""
    term, behind = terms[index], len(terms) - 1 - index
    groups = [i for i, other in enumerate(terms) if isinstance(other, Group)]
    if isinstance(term, Named) and term.axis:
        return f"along(attrs.{term.axis})"
    if len(groups) == 2:
        axis = f"inputs[0].axis(attrs.{next(term.axis for term in terms if isinstance(term, Named) and term.axis)})"
        return f"product(0, {axis})" if index == groups[0] else f"product({axis} + 1, inputs[0].ndim())"
    if isinstance(term, Group):
        return f"product({index}, inputs[0].ndim() - {behind})"
    is_in_front = not groups or index < groups[0]
    return f"along({index if is_in_front else index - len(terms)})"
