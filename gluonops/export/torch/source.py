"""Writes the source of net.py from blocks and classes."""
from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .blocks import IDENTITY, INPUT, NAMES, PARAMETER, SEQUENTIAL, Block, Class, Item, Module, Ref
from .registry import default_of, plain, snippets

WIDTH = 100
LONGEST_NESTED = 60   # characters of an expression inside of another one
SHORTEST_RUN = 3      # equal modules that become a loop
INPUT_NAMES = ("x", "y", "z")
TOKEN = re.compile("\0[^\0]+\0")   # of a variable in an expression; see :meth:`_Forward._token`


def net_source(net: Block, classes: list[Class], inputs: list[str], docstring: str, functions: list[str]) -> str:
    """The text of net.py, with numbers of float32 marked as such; see :class:`.registry.Single`.

    - ``inputs``: the names of the net's inputs.
    - ``functions``: sources that come behind the classes; some may be empty.
    """
    body = "\n\n\n".join(_class_source(owner, inputs if net in owner.blocks else None) for owner in classes)
    code = "\n\n\n".join([body, *filter(None, functions)])
    code = "\n\n\n".join([*_used_snippets(code), code, snippets()["load"]])
    imports = ["import json", "from pathlib import Path", "", "import torch"]
    if "Optional[" in code:
        imports.insert(2, "from typing import Optional")
    if "math." in code:
        imports.insert(1, "import math")
    if "F." in code:
        imports.append("import torch.nn.functional as F")
    imports.append("from torch import nn")
    return f'"""{docstring}"""\n\n' + "\n".join(imports) + "\n\n\n" + code + "\n"


def groups_source(frozen: list[str], multipliers: dict[str, tuple[float, float]]) -> str:
    """The source of ``parameter_groups``, and of what it knows; empty if all parameters are trained alike.

    - ``frozen``: the parameters that are not trained.
    - ``multipliers``: parameter -> what its learning rate and its weight decay are multiplied by.
    """
    if not frozen and not multipliers:
        return ""
    entries = ", ".join(f'"{key}": {pair}' for key, pair in multipliers.items())
    names = ", ".join(f'"{key}"' for key in frozen)
    lines = [f"FROZEN = [{names}]", f"MULTIPLIERS = {{{entries}}}"]
    return "\n".join(_wrapped(lines, 0)) + "\n\n\n" + snippets()["parameter_groups"]


def _used_snippets(body: str) -> list[str]:
    """The sources of what a text uses, and of what these use."""
    found, words = [], set(re.findall(r"\w+", body))
    for name, text in reversed(snippets().items()):   # a snippet uses those in front of it
        if name in words and f"def {name}(" not in body and name != "load":
            found.insert(0, text)
            words.update(re.findall(r"\w+", text))
    return found


def _class_source(owner: Class, inputs: list[str] | None) -> str:
    """The source of a class. ``inputs``: names for the inputs, None for the usual ones."""
    block = owner.template
    constructor = _constructor(owner.parameters)
    if owner.is_sequential:
        if owner.optional:
            texts = [module_source(item.module, owner.expressions) for item in block.items]
            texts = [f"{text} if {owner.optional[item]} else {IDENTITY}()" if item in owner.optional else text
                     for item, text in zip(block.items, texts)]
        else:
            texts = _children([item.module for item in block.items], owner.expressions)
        children = ", ".join(texts)
        return "\n".join([f"class {owner.name}(nn.Sequential):", constructor,
                          *_wrapped([f"super().__init__({children})"], 8)])
    lines = [f"class {owner.name}(nn.Module):"]
    modules = [item for item in block.items if item.own]
    if modules:
        lines += [constructor, "        super().__init__()"]
        for item in modules:
            lines += _assignment(owner, item)
        lines.append("")
    names = inputs or _names_of_inputs(block)
    lines.append(f"    def forward(self, {', '.join(names)}):" if names else "    def forward(self):")
    lines += _wrapped(_Forward(block, names).lines(), 8)
    return "\n".join(lines)


def _names_of_inputs(block: Block) -> list[str]:
    """Those of Gluon's where it has some: of a block with one input, it is x."""
    if len(block.inputs) == 1:
        return ["x"]
    others = [name for name in (*INPUT_NAMES, *(f"x{number}" for number in range(4, 99))) if name not in block.names]
    return [*block.names, *others][:len(block.inputs)]


def _constructor(parameters: dict[str, object]) -> str:
    """The line, or the three lines, that begin a constructor."""
    arguments = ", ".join(["self", *(name if default is None else f"{name}={default!r}"
                                     for name, default in parameters.items())])
    line = f"    def __init__({arguments}):"
    return line if len(line) <= WIDTH else f"    def __init__(\n        {arguments}\n    ):"


def _assignment(owner: Class, item: Item) -> list[str]:
    """The lines of a constructor that make the module of an item."""
    name, text = item.attribute, module_source(item.module, owner.expressions)
    if item not in owner.optional:
        ties = {key: f"self.{owner.template.holder(other).attribute}.{place}".rstrip(".")
                for key, (other, place) in item.module.ties.items()}
        if item.module.kind == PARAMETER and ties:
            return [f"        self.{name} = {ties['']}"]
        return _wrapped([f"self.{name} = {text}", *(f"self.{name}.{key} = {text}" for key, text in ties.items())], 8)
    return [f"        self.{name} = {IDENTITY}()", f"        if {name}:", *_wrapped([f"self.{name} = {text}"], 12)]


def module_source(module: Module, expressions: dict[tuple[int, str], str]) -> str:
    """The call of a constructor. ``expressions``: arguments that are written as an expression of parameters."""
    if module.kind == PARAMETER:
        shape = expressions.get((id(module), "shape"), module.args["shape"])
        is_trained = "" if module.args["requires_grad"] else ", requires_grad=False"
        return f"nn.Parameter(torch.empty({shape}){is_trained})"
    if module.kind == SEQUENTIAL:
        return f"{SEQUENTIAL}({', '.join(_children(module.children, expressions))})"
    texts = []
    for name, value in module.args.items():
        default = module.block.owner.parameters[name] if module.block else default_of(module.kind, name)
        text = expressions.get((id(module), name), repr(value))
        if default is None:
            texts.append(text)
        elif text != repr(default):
            texts.append(f"{name}={text}")
    return f"{module.kind}({', '.join(texts)})"


def _children(children: list[Module], expressions: dict) -> list[str]:
    """The modules of an ``nn.Sequential``; those that are equal, or whose numbers grow evenly, as a loop."""
    texts, place = [], 0
    while place < len(children):
        length = _run(children, place, expressions)
        if length >= SHORTEST_RUN:
            texts.append(_loop(children[place:place + length]))
        else:
            length = 1
            texts.append(module_source(children[place], expressions))
        place += length
    return texts


def _run(children: list[Module], begin: int, expressions: dict) -> int:
    """How many modules from here on are equal but for numbers that grow evenly."""
    first = children[begin]
    length = 1
    while begin + length < len(children):
        module = children[begin + length]
        if module.key() != first.key() or any((id(owner), name) in expressions for owner, name in module.slots()):
            break
        if length == 1:
            steps = _steps(first, module)
        if steps is None or _steps(children[begin + length - 1], module) != steps:
            break
        length += 1
    return length


def _steps(first: Module, second: Module) -> list | None:
    """By how much each argument grows from one module to the next; None if one changes otherwise."""
    steps = []
    for before, after in zip(first.values(), second.values()):
        if before == after:
            steps.append(0)
        elif type(before) is int and type(after) is int:
            steps.append(after - before)
        else:
            return None
    return steps


def _loop(run: list[Module]) -> str:
    """A generator that makes the modules."""
    steps = _steps(run[0], run[1])
    grown = {(id(owner), name): f"{owner.args[name]} {'+' if step > 0 else '-'} {abs(step)} * i"
             for (owner, name), step in zip(run[0].slots(), steps) if step}
    return f"*({module_source(run[0], grown)} for {'i' if grown else '_'} in range({len(run)}))"


class _Forward:
    """The lines of a ``forward``: expressions are put into those that read them, and ``x`` is used again."""

    def __init__(self, block: Block, names: list[str]):
        self.block, self.names = block, names
        self.meaningful = set(names).difference(INPUT_NAMES)   # they are not used again for something else
        self.numbers = {item: number for number, item in enumerate([INPUT, *self.block.items], -1)}
        refs = [ref for item in self.block.items for ref in item.refs] + self.block.returns
        self.reads = list(map(self._token, refs))

    def lines(self) -> list[str]:
        statements = self._statements()
        last = {}   # variable -> the number of the last statement that reads it
        for number, (_, text, _) in enumerate(statements):
            for token in TOKEN.findall(text):
                last[token] = number
        variables = {self._token((INPUT, place)): name for place, name in enumerate(self.names)}
        lines = []
        for number, (targets, text, wish) in enumerate(statements):
            read = TOKEN.findall(text)
            line = _tidied(TOKEN.sub(lambda token: variables[token[0]], text))
            if not targets:
                lines.append(line)
                continue
            dying = [variables[token] for token in read
                     if last[token] == number and variables[token] not in self.meaningful]
            alive = {name for token, name in variables.items() if last.get(token, -1) > number}
            names = []
            for target in targets:
                name = dying[0] if dying and len(targets) == 1 else self._free(target, wish, alive.union(names))
                variables[target] = name
                names.append(name)
            lines.append(f"{', '.join(names)} = {line}")
        assigned = lines[-1].replace("return ", "", 1) + " = "
        if len(lines) > 1 and lines[-2].startswith(assigned):
            lines[-2:] = [f"return {lines[-2][len(assigned):]}"]
        return lines

    def _statements(self) -> list[tuple[list[str], str, str]]:
        """(variables, expression, what to call them) of each statement; the last one returns."""
        statements, nested = [], {}
        for item in self.block.items:
            texts = [f"({nested[ref]})" if ref in nested else self._token(ref) for ref in item.refs]
            text = item.text.format(*texts, self=f"self.{item.attribute}")
            if self._is_nested(item, text):
                nested[item, 0] = text
            else:
                variables = [self._token((item, place)) for place in range(item.outputs)]
                statements.append((variables, text, item.attribute))
        results = [nested.get(ref) or self._token(ref) for ref in self.block.returns]
        return [*statements, ([], f"return {', '.join(results)}", "")]

    def _token(self, ref: Ref) -> str:
        """The place of a variable in an expression, before it has a name."""
        item, place = ref
        return f"\0{self.numbers[item]},{place}\0"

    def _is_nested(self, item: Item, text: str) -> bool:
        """Whether an expression is put into the one that reads it."""
        if item.calls and item.module.kind == PARAMETER:
            return True
        if item.outputs != 1 or self.reads.count(self._token((item, 0))) != 1 or len(text) > LONGEST_NESTED:
            return False
        reader = next((other for other in self.block.items if (item, 0) in other.refs), None)
        if reader is None:
            return len(self.block.returns) == 1 or item.text == "{0}"
        place = f"{{{reader.refs.index((item, 0))}}}"
        if reader.text.count(place) != 1:
            return False
        return not (reader.calls and item.calls)

    def _free(self, token: str, wish: str, taken: set[str]) -> str:
        """A name for a variable that no other one has: that of its module if several steps read it."""
        is_plain = wish and not re.search(r"\d$", wish) and wish not in NAMES.values()
        if is_plain and self.reads.count(token) > 1 and wish not in taken:
            self.meaningful.add(wish)
            return wish
        candidates = ["x"] if self.meaningful else []
        candidates += ["out", *(f"out{number}" for number in range(2, 1000))]
        return next(name for name in candidates if name not in taken)


def _tidied(statement: str) -> str:
    """An expression, or what returns one, without the parentheses that it does not need."""
    prefix = "return " if statement.startswith("return ") else ""
    tree = ast.parse(statement[len(prefix):], mode="eval")
    tidy = ast.unparse(tree)
    if isinstance(tree.body, ast.Tuple):
        tidy = tidy[1:-1]
    return prefix + tidy.replace("'", '"')


def _wrapped(lines: list[str], indent: int) -> list[str]:
    """Lines with an indent; those that are too long are broken at the commas of their outermost brackets."""
    result = []
    for line in lines:
        begin, end = _outermost(line) if indent + len(plain(line)) > WIDTH else (None, None)
        if begin is None:
            result.append(" " * indent + line)
            continue
        result.append(" " * indent + line[:begin + 1])
        whole = line[begin + 1:end]
        parts = _split(whole)
        if "(" not in whole and indent + 4 + len(plain(whole)) < WIDTH:
            result.append(" " * (indent + 4) + whole)
        elif len(parts) == 1 and " for " in whole and not whole.startswith("*"):
            result += _wrapped([whole], indent + 4)
        else:
            is_group = len(parts) == 1 and not re.match(r"[\w\])]", line[begin - 1:begin])   # with a comma, a tuple
            result += _wrapped(parts if is_group else [f"{part}," for part in parts], indent + 4)
        result.append(" " * indent + line[end:])
    return result


def _outermost(line: str) -> tuple[int | None, int | None]:
    """The positions of the brackets of the longest outermost pair."""
    places = [place for place, (letter, depth) in enumerate(_depths(line)) if letter in "([{)]}" and depth == 0]
    pairs = zip(places[::2], places[1::2])
    return max(pairs, key=lambda pair: pair[1] - pair[0], default=(None, None))


def _split(text: str) -> list[str]:
    """The parts between the commas outside of brackets."""
    commas = [place for place, found in enumerate(_depths(text)) if found == (",", 0)]
    parts = [text[begin + 1:end].strip() for begin, end in zip([-1, *commas], [*commas, len(text)])]
    return parts if parts[-1] else parts[:-1]


def _depths(text: str) -> Iterator[tuple[str, int]]:
    """Each letter, and the number of brackets around it."""
    depth = 0
    for letter in text:
        depth -= letter in ")]}"
        yield letter, depth
        depth += letter in "([{"
