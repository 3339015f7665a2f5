"""Writes the source of net.py from blocks and classes."""
from __future__ import annotations

import ast
import collections
import itertools
import re

from .blocks import BUFFER, IDENTITY, NAMES, PARAMETER, SEQUENTIAL, CompositeModule, Item, Module
from .classes import Class
from .converters import plain, snippets, usually

WIDTH = 100
LONGEST_NESTED = 60   # characters of an expression inside of another one
LONGEST_TUPLE = 70    # characters of a tuple that may be broken inside of an element only
SHORTEST_LOOP = 3     # equal modules that become a loop
INPUT_NAMES = ("x", "y", "z")
# A line of the imports -> the text of what needs it; empty for a line that every net has.
IMPORTS = {"import json": "", "import math": "math.", "from pathlib import Path": "",
           "from typing import Optional": "Optional[", "": "", "import torch": "",
           "import torch.nn.functional as F": "F.", "from torch import nn": ""}
NUMBER = re.compile(r"(?<![\w.{-])(\d+)(?![\w.])")
VARIABLES = re.compile(r"\[({\d+}(?:, {\d+})+)\]")   # a list of variables
SHORTER = [(re.compile(pattern), shorter) for pattern, shorter in (   # the same in fewer words
    (r"(?<=torch\.where\()\(([^()]*)\)\.to\(\w+\.dtype\) != 0(?=, )", r"\1"),
    (r"((?:^|, |= |\()torch\.)ones_like\((\w+)\) \* (-?[\d.e+]+)(?=$|, |\))", r"\1full_like(\2, \3)"),
    (r"\.reshape\([^()]*\)(?=\.reshape\((?:-?\d+(?:, |(?=\))))+\))", ""))]
TOKEN = re.compile(r"{(\d+)}")   # A text reads inputs by such numbers.


def net_source(net: CompositeModule, classes: list[Class], inputs: list[str], docstring: str,
               functions: list[str]) -> str:
    """The text of net.py, with numbers of float32 marked as such; see :class:`~gluonops.export.operators.forms.Single`.

    - ``inputs``: the names of the net's inputs.
    - ``functions``: sources that come behind the classes; some may be empty.
    """
    body = "\n\n\n".join(_class_source(owner, inputs if net in owner.blocks else None) for owner in classes)
    code = "\n\n\n".join([body, *filter(None, functions)])
    code = "\n\n\n".join([*_used_snippets(code), code, snippets()["load"]])
    imports = "\n".join(line for line, used in IMPORTS.items() if used in code)
    return f'"""{docstring}"""\n\n{imports}\n\n\n{code}\n'


def groups_source(pairs: dict[str, tuple[float, float] | None]) -> str:
    """The source of ``parameter_groups``, and of what it knows; empty if all parameters are trained alike.

    ``pairs``: parameter -> what its learning rate and its weight decay are multiplied by; None if it is not trained.
    """
    special = {}   # what names begin with -> the pair
    for key, pair in pairs.items():
        if pair != (1, 1) and not key.startswith(tuple(special)):
            fronts = [*(key[:match.end()] for match in re.finditer(r"\.", key)), key]
            special[next(front for front in fronts
                         if {pairs[other] for other in pairs if other.startswith(front)} == {pair})] = pair
    if not special:
        return ""
    entries = ", ".join(f'"{front}": {pair}' for front, pair in special.items() if pair)
    frozen = ", ".join(f'"{front}"' for front, pair in special.items() if not pair)
    lines = [f"FROZEN = [{frozen}]", f"MULTIPLIERS = {{{entries}}}"]
    return "\n".join(_wrapped(lines, 0)) + "\n\n\n" + snippets()["parameter_groups"]


def _used_snippets(body: str) -> list[str]:
    """The sources of what a text uses, and of what these use."""
    used, words = [], set(re.findall(r"\w+", body))
    for name, text in reversed(snippets().items()):   # a snippet uses those in front of it
        if name in words and f"def {name}(" not in body and name != "load":
            used.insert(0, text)
            words.update(re.findall(r"\w+", text))
    return used


def _class_source(owner: Class, inputs: list[str] | None) -> str:
    """The source of a class. ``inputs``: names for the inputs, None for the usual ones."""
    block, base = owner.template, SEQUENTIAL if owner.is_sequential else "nn.Module"
    arguments = ["self", *(name if default is None else f"{name}={default!r}"
                           for name, default in owner.parameters.items())]
    constructor = _wrapped([f"def __init__({', '.join(arguments)}):"], 4)
    lines = [f"class {owner.name}({base}):"]
    if owner.is_sequential:
        layers = ", ".join(_children(block.children, owner.expressions))
        return "\n".join([*lines, *constructor, *_wrapped([f"super().__init__({layers})"], 8)])
    if block.children or owner.stored:
        stored = [f"self.{name} = {name}" for name in owner.stored]
        lines += [*constructor, *_wrapped(["super().__init__()", *stored, *_assignments(owner)], 8), ""]
    names = inputs or _names_of_inputs(block)
    lines += _wrapped([f"def forward({', '.join(['self', *names])}):"], 4)
    return "\n".join([*lines, *_wrapped(_forward(block, names), 8)])


def _names_of_inputs(block: CompositeModule) -> list[str]:
    """Those of Gluon's where it has some: of a block with one input, it is x."""
    if len(block.inputs) == 1:
        return ["x"]
    others = [name for name in (*INPUT_NAMES, *(f"x{number}" for number in range(4, 99))) if name not in block.names]
    return [*block.names, *others][:len(block.inputs)]


def _assignments(owner: Class) -> list[str]:
    """The lines of a constructor that make the modules. A parameter that two of them have is that of the first one."""
    lines, holders = [], {}
    for module in owner.template.children:
        target = f"self.{module.attribute}"
        paths = {variable: f"{target}.{name}".rstrip(".") for name, variable in module.state.items()}
        ties = [f"{path} = {holders[variable]}" for variable, path in paths.items() if variable in holders]
        holders = {**paths, **holders}
        source = module_source(module, owner.expressions)
        if module.kind == BUFFER:
            lines.append(f'self.register_buffer("{module.attribute}", {source})')
        elif not ties or module.kind != PARAMETER:
            lines.append(f"{target} = {source}")
        lines += ties
    return lines


def module_source(module: Module, expressions: dict[tuple[int, str], str]) -> str:
    """The call of a constructor. ``expressions``: see :class:`.classes.Class`."""
    texts = {name: expressions.get((id(module), name), repr(value)) for name, value in module.args.items()}
    if module.kind == SEQUENTIAL:
        arguments = _children(module.children, expressions)
    elif module.kind in (PARAMETER, BUFFER):
        shape = texts["shape"].strip("()").removesuffix(",") or "()"
        arguments = [f"torch.empty({shape})" if module.kind == PARAMETER else shape]
    else:
        defaults = {name: module.default(name) for name in texts}
        usual = {name for name, text in texts.items() if plain(text) == repr(defaults[name])}
        arguments = [text if defaults[name] is None else f"{name}={usually(text) if name in usual else text}"
                     for name, text in texts.items() if text != repr(defaults[name])]
    call, switch = f"{module.kind}({', '.join(arguments)})", expressions.get((id(module), IDENTITY))
    return f"{call} if {switch} else {IDENTITY}()" if switch else call


def _children(children: list[Module], expressions: dict) -> list[str]:
    """The modules of an ``nn.Sequential``; equal ones, and those in which one number grows evenly, as a loop."""
    waiting, texts = [module_source(child, expressions) for child in children], []
    while waiting:
        count, pieces, numbers = _progression(waiting)
        growing = [index for index, (_, step) in enumerate(numbers) if step]
        if count < SHORTEST_LOOP or len(growing) > 1:
            texts.append(waiting.pop(0))
            continue
        name, values = "_", f"range({count})"
        if growing:
            first, step = numbers[growing[0]]
            name, values = "channels", f"range({first}, {first + count * step}, {step})"
        texts.append(f"*({_filled(pieces, numbers, name)} for {name} in {values})")
        del waiting[:count]
    return texts


def _progression(texts: list[str]) -> tuple[int, list[str], list[tuple[int, int]]]:
    """How many of the first texts differ in numbers that grow evenly, what is around the numbers, and (first, step)."""
    split = [NUMBER.split(text) for text in texts]
    pieces, values = split[0][::2], [list(map(int, each[1::2])) for each in split]
    numbers = [(first, second - first) for first, second in zip(values[0], values[min(1, len(values) - 1)])]
    alike = itertools.takewhile(lambda index: split[index][::2] == pieces and values[index] == [
        first + index * step for first, step in numbers], range(len(texts)))
    return len(list(alike)), pieces, numbers


def _filled(pieces: list[str], numbers: list[tuple[int, int]], name: str) -> str:
    """The text of a progression, with a variable for what grows: the number, or ``i`` that counts."""
    texts = []
    for first, step in numbers:
        grown = name if name != "i" else ("i" if step == 1 else f"{step} * i") + (f" + {first}" if first else "")
        texts.append(grown if step else str(first))
    return "".join(itertools.chain(*itertools.zip_longest(pieces, texts, fillvalue="")))


def _forward(block: CompositeModule, names: list[str]) -> list[str]:
    """The lines of a ``forward``: expressions are put into those that read them, and ``x`` is used again.

    ``names``: of the inputs.
    """
    statements = _looped(_statements(block))
    reads = [list(map(int, TOKEN.findall(text))) for _, text, _ in statements]
    last = {number: index for index, numbers in enumerate(reads) for number in numbers}
    variables = dict(enumerate(names))
    kept = set(names).difference(INPUT_NAMES)   # names with a meaning, which are not used again for something else
    lines = []
    for index, (targets, text, wishes) in enumerate(statements):
        line = _tidied(TOKEN.sub(lambda token: variables[int(token[1])], text))
        dying = [variables[number] for number in reads[index]
                 if last[number] == index and variables[number] not in kept] if len(targets) == 1 else []
        taken = {name for number, name in variables.items() if last.get(number, -1) > index}
        for number in targets:
            wanted = [name for name in wishes.get(number, []) if not dying and name not in taken]
            kept.update(wanted)
            others = (["x"] if kept else []) + ["out", *(f"out{count}" for count in range(2, 1000))]
            variables[number] = next(name for name in wanted + dying + others if name not in taken)
            taken.add(variables[number])
        assigned = ", ".join(variables[number] for number in targets)
        if line != assigned:   # A cast of floats, say, leaves them as they are.
            lines.append(f"{assigned} = {line}" if targets else line)
    assigned = lines[-1].replace("return ", "", 1) + " = "
    if len(lines) > 1 and lines[-2].startswith(assigned):
        lines[-2:] = [f"return {lines[-2][len(assigned):]}"]
    groups = [(line, len(list(equal))) for line, equal in itertools.groupby(lines)]
    return [text for line, count in groups for text in (
        [line] * count if count < SHORTEST_LOOP else [f"for _ in range({count}):", f"    {line}"])]


def _looped(statements: list) -> list:
    """Statements in which numbers grow evenly become a loop in the list that reads them."""
    makers = {targets[0]: text for targets, text, _ in statements if len(targets) == 1}
    reads = collections.Counter(int(number) for _, text, _ in statements for number in TOKEN.findall(text))
    dropped = set()

    def loop(match: re.Match) -> str:
        variables = list(map(int, TOKEN.findall(match[1])))
        texts = [re.sub(r"(?<=[\[ ]):(?=\d)", "0:", makers[variable]) for variable in variables
                 if variable in makers and reads[variable] == 1]
        count, pieces, numbers = _progression(texts or [""])
        if not SHORTEST_LOOP <= count == len(variables):
            return match[0]
        dropped.update(variables)
        return f"[{_filled(pieces, numbers, 'i')} for i in range({count})]"

    looped = [(targets, VARIABLES.sub(loop, text), wishes) for targets, text, wishes in statements]
    return [statement for statement in looped if dropped.isdisjoint(statement[0])]


def _statements(block: CompositeModule) -> list[tuple[list[int], str, dict[int, list[str]]]]:
    """(variables, expression, what to call variables) of each statement; the last one returns.

    Variables are numbers, and ``{number}`` in an expression. One that several steps read is called like its module.
    """
    tokens = [f"{{{index}}}" for index in range(len(block.results))]
    items = [*block.items, Item(f"return {', '.join(tokens)}", block.results, [])]
    entries = [*block.inputs, *(entry for item in block.items for entry in item.makes)]
    numbers = {entry: number for number, entry in enumerate(entries)}
    texts = {entry: f"{{{number:04}}}" for entry, number in numbers.items()}   # All have the same length.
    used = {item: [item.reads[int(index)] for index in TOKEN.findall(item.text)] for item in items}
    uses = collections.Counter(itertools.chain(*used.values()))
    readers = {entry: [item for item in items if entry in used[item]] for entry in entries}
    statements = []
    for item in items:
        attribute = item.module.attribute if item.calls else ""
        text = item.text.format(*(texts[entry] for entry in item.reads), self=f"self.{attribute}")
        is_short = len(text) <= LONGEST_NESTED and [uses[entry] for entry in item.makes] == [1]
        is_tensor = item.calls and item.module.kind in (PARAMETER, BUFFER) or TOKEN.fullmatch(text)
        if is_tensor or is_short and _may_nest(item, *readers[item.makes[0]]):
            texts[item.makes[0]] = f"({text})"
        else:
            others = (*NAMES.values(), *snippets(), "self")   # A variable would hide the function of its name.
            is_name = item.calls and item.module.name and attribute.rstrip("0123456789_") not in others
            wishes = {numbers[entry]: [attribute] for entry in item.makes if is_name and len(readers[entry]) > 1}
            statements.append(([numbers[entry] for entry in item.makes], text, wishes))
    return statements


def _may_nest(item: Item, reader: Item) -> bool:
    """Whether an expression may be put into the step that reads it: no call into a call, or beside other results."""
    is_result = not reader.makes and len(reader.reads) > 1
    return item.text == "{0}" or not (is_result or item.calls and reader.calls)


def _tidied(statement: str) -> str:
    """An expression, or what returns one, without the parentheses that it does not need. A long tuple keeps its own."""
    prefix = "return " if statement.startswith("return ") else ""
    tree = ast.parse(statement[len(prefix):], mode="eval")
    tidy = ast.unparse(tree)
    for pattern, shorter in SHORTER:
        tidy = pattern.sub(shorter, tidy)
    if isinstance(tree.body, ast.Tuple) and len(plain(tidy)) < LONGEST_TUPLE:
        tidy = tidy[1:-1]
    return prefix + tidy.replace("'", '"')


def _wrapped(lines: list[str], indent: int) -> list[str]:
    """Lines with an indent; those that are too long are broken at the commas of their outermost brackets."""
    result = []
    for line in lines:
        begin, *commas, end = _brackets(line) if indent + len(plain(line)) > WIDTH else (None, None)
        if begin is None:
            result.append(" " * indent + line)
            continue
        whole = line[begin + 1:end]
        parts = [line[first + 1:last].strip() for first, last in zip([begin, *commas], [*commas, end])]
        is_group = not re.match(r"[\w\])]", line[begin - 1:begin])   # a comma would make it a tuple
        comma = "" if len(parts) == 1 and (is_group or " for " in whole and not whole.startswith("*")) else ","
        fits = "(" not in whole and indent + 4 + len(plain(whole)) < WIDTH
        inside = [whole] if fits else [part + comma for part in parts if part]
        result += [" " * indent + line[:begin + 1], *_wrapped(inside, indent + 4), " " * indent + line[end:]]
    return result


def _brackets(line: str) -> list[int | None]:
    """The positions of the longest outermost pair of brackets, and between them those of the commas in it."""
    depth, pairs = 0, [[None, None]]
    for index, letter in enumerate(line):
        depth -= letter in ")]}"
        if letter in "([{" and depth == 0:
            pairs.append([index])
        elif letter in ")]}" and depth == 0 or letter == "," and depth == 1:
            pairs[-1].append(index)
        depth += letter in "([{"
    return max(pairs[1:], key=lambda pair: pair[-1] - pair[0], default=pairs[0])
