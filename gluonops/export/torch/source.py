"""Makes the program net.py of blocks and classes: a class for each class, and functions behind them."""
from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator

from .blocks import BUFFER, IDENTITY, NAMES, PARAMETER, SEQUENTIAL, CompositeModule, Item, Module
from .classes import Class
from .converters import snippets
from .expressions import (
    SELF,
    Expression,
    call_of,
    filled,
    literal,
    name_of,
    names_in,
    outline,
    parsed,
    place,
    place_of,
    places_in,
    replaced,
    shortened,
    walk,
)
from .statements import (
    IMPORTS,
    Statement,
    assigned,
    bare,
    called,
    class_of,
    definition_of,
    method,
    module_text,
    name_bound,
    names_read,
    repeated,
)

LONGEST_NESTED = 60   # characters of an expression inside of another one, with brackets around each one in it
SHORTEST_LOOP = 3     # equal modules that become a loop
INPUT_NAMES = ("x", "y", "z")


def net_source(net: CompositeModule, classes: list[Class], inputs: list[str], docstring: str,
               functions: list[Statement]) -> str:
    """Return the text of net.py.

    - ``inputs``: the names of the net's inputs.
    - ``functions``: statements that come behind the classes.
    """
    body = [*(_class_of(owner, inputs if net in owner.blocks else None) for owner in classes), *functions]
    used, names = _used_snippets(body)
    imports = [[line for line in group if name_bound(line) in names] for group in IMPORTS]
    return module_text(docstring, imports, [*used, *body, snippets()["load"]])


def parameter_groups(pairs: dict[str, tuple[float, float] | None]) -> list[Statement]:
    """Return ``parameter_groups`` and its tables. It is empty if all parameters are trained alike.

    ``pairs``: parameter -> what its learning rate and its weight decay are multiplied by; None if it is not trained.
    """
    special = {}   # what names begin with -> the pair
    for key, pair in pairs.items():
        if pair != (1, 1) and not key.startswith(tuple(special)):
            fronts = [*(key[:match.end()] for match in re.finditer(r"\.", key)), key]
            special[next(front for front in fronts
                         if {pairs[other] for other in pairs if other.startswith(front)} == {pair})] = pair
    if not special:
        return []
    frozen = [front for front, pair in special.items() if not pair]
    multipliers = {front: pair for front, pair in special.items() if pair}
    return [assigned("FROZEN", literal(frozen)), assigned("MULTIPLIERS", literal(multipliers)),
            snippets()["parameter_groups"]]


def _used_snippets(body: list[Statement]) -> tuple[list[str], set[str]]:
    """Return the sources of the snippets that statements need, and the names that the statements and they read."""
    words = names_read(body) | _words_of("load")
    own = {getattr(definition_of(statement), "name", "") for statement in body}
    used = []
    for name, text in reversed(snippets().items()):   # a snippet uses those in front of it
        if name in words - own and name != "load":
            used.insert(0, text)
            words |= _words_of(name)
    return used, words


@functools.cache
def _words_of(name: str) -> set[str]:
    """Return the names that a snippet reads."""
    return names_read([snippets()[name]])


def _class_of(owner: Class, inputs: list[str] | None) -> ast.ClassDef:
    """Return a class. ``inputs``: names for the inputs, None for the usual ones."""
    block, base = owner.template, SEQUENTIAL if owner.is_sequential else "nn.Module"
    defaults = {name: None if default is None else literal(default) for name, default in owner.parameters.items()}
    if owner.is_sequential:
        methods = [method("__init__", defaults, [called("super().__init__", _children(block.children,
                                                                                     owner.expressions))])]
    else:
        stored = [assigned(f"self.{name}", name_of(name)) for name in owner.stored]
        made = [called("super().__init__"), *stored, *_assignments(owner)]
        names = inputs or _names_of_inputs(block)
        methods = [method("__init__", defaults, made)] if block.children or stored else []
        methods.append(method("forward", dict.fromkeys(names), _forward(block, names)))
    return class_of(owner.name, parsed(base), methods)


def _names_of_inputs(block: CompositeModule) -> list[str]:
    """Return the names of a block's inputs: x if there is one, or else those of Gluon's where it has some."""
    if len(block.inputs) == 1:
        return ["x"]
    others = [name for name in (*INPUT_NAMES, *(f"x{number}" for number in range(4, 99))) if name not in block.names]
    return [*block.names, *others][:len(block.inputs)]


def _assignments(owner: Class) -> list[ast.stmt]:
    """Return the statements of a constructor that make the modules.

    A parameter that two modules share is made by the first one.
    """
    statements, holders = [], {}
    for module in owner.template.children:
        target = f"self.{module.attribute}"
        paths = {variable: f"{target}.{name}".rstrip(".") for name, variable in module.state.items()}
        ties = [assigned(path, parsed(holders[variable])) for variable, path in paths.items() if variable in holders]
        holders = {**paths, **holders}
        made = constructed(module, owner.expressions)
        if module.kind == BUFFER:
            statements.append(called("self.register_buffer", [literal(module.attribute), made]))
        elif not ties or module.kind != PARAMETER:
            statements.append(assigned(target, made))
        statements += ties
    return statements


def constructed(module: Module, expressions: dict[tuple[int, str], ast.expr]) -> ast.expr:
    """Return the call of a constructor. ``expressions``: see :class:`.classes.Class`."""
    values = {name: expressions.get((id(module), name)) or literal(value) for name, value in module.args.items()}
    if module.kind == SEQUENTIAL:
        made = call_of(module.kind, _children(module.children, expressions))
    elif module.kind in (PARAMETER, BUFFER):
        shape = values["shape"]
        made = call_of(BUFFER, getattr(shape, "elts", None) or [shape])
        made = call_of(PARAMETER, [made]) if module.kind == PARAMETER else made
    else:
        defaults = {name: module.default(name) for name in values}
        said = {name: value for name, value in values.items() if ast.unparse(value) != repr(defaults[name])}
        made = call_of(module.kind, [value for name, value in said.items() if defaults[name] is None],
                       **{name: value for name, value in said.items() if defaults[name] is not None})
    switch = expressions.get((id(module), IDENTITY))
    return ast.IfExp(switch, made, call_of(IDENTITY, [])) if switch else made


@dataclasses.dataclass
class _Pattern:
    """What expressions have in common that differ in whole numbers only: the outline, and the numbers in it."""
    tree: ast.expr
    text: str
    numbers: list[ast.Constant]

    @classmethod
    def of(cls, tree: ast.expr) -> _Pattern:
        """Return the pattern of an expression. A negative number is a part of its outline."""
        tree = replaced(tree, {})   # Here each number is a node of its own. Elsewhere equal ones may be one node.
        negative = {node.operand for node in walk(tree) if isinstance(node, ast.UnaryOp)}
        numbers = [node for node in walk(tree)
                   if isinstance(node, ast.Constant) and type(node.value) is int and node not in negative]
        return cls(tree, outline(tree, numbers), numbers)

    @property
    def values(self) -> list[int]:
        return [number.value for number in self.numbers]


def _children(children: list[Module], expressions: dict) -> list[ast.expr]:
    """Return the modules of an ``nn.Sequential``.

    Modules that are equal, or in which one number grows evenly, become a loop.
    """
    waiting, trees = [_Pattern.of(constructed(child, expressions)) for child in children], []
    while waiting:
        count, steps = _progression(waiting)
        growing = [number for number, step in steps.items() if step]
        if count < SHORTEST_LOOP or len(growing) > 1:
            trees.append(waiting.pop(0).tree)
            continue
        element, variable, values = waiting[0].tree, "_", [count]
        for number in growing:
            first, step = number.value, steps[number]
            variable = _free("channels", names_in(element))   # The class may have an argument of this name.
            values = [first, first + count * step, step]
            element = replaced(element, {number: name_of(variable)})
        trees.append(ast.Starred(_loop(ast.GeneratorExp, element, variable, values), ast.Load()))
        del waiting[:count]
    return trees


def _loop(kind: type, element: ast.expr, variable: str, values: list[int]) -> ast.expr:
    """Return a comprehension over a range."""
    numbers = call_of("range", map(literal, values))
    return kind(element, [ast.comprehension(ast.Name(variable, ast.Store()), numbers, [], 0)])


def _progression(patterns: list[_Pattern]) -> tuple[int, dict[ast.Constant, int]]:
    """Return how many of the first patterns differ in evenly growing numbers only, and the step of each number."""
    first, second = patterns[0], patterns[min(1, len(patterns) - 1)]
    steps = [new - old for old, new in zip(first.values, second.values)]
    alike = itertools.takewhile(
        lambda index: patterns[index].text == first.text and patterns[index].values == [
            value + index * step for value, step in zip(first.values, steps)], range(len(patterns)))
    return len(list(alike)), dict(zip(first.numbers, steps))


@dataclasses.dataclass
class _Statement:
    """An assignment to variables, which are places. A statement without targets returns.

    ``wishes``: what to call a variable.
    """
    targets: list[str]
    tree: ast.expr
    wishes: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def reads(self) -> list[str]:
        return places_in(self.tree)


def _forward(block: CompositeModule, names: list[str]) -> list[ast.stmt]:
    """Return the statements of a ``forward``.

    ``names``: of the inputs.
    """
    steps = []   # (the variables that are assigned, none in the last step; the value)
    statements = _statements(block)
    taken = {*names, *(name for statement in statements for wished in statement.wishes.values() for name in wished)}
    for statement, variables in _with_names(_looped(statements, _free("i", taken)), names):
        targets = ", ".join(variables[target] for target in statement.targets)
        value = shortened(filled(statement.tree, {variable: name_of(variables[variable])
                                                  for variable in statement.reads()}))
        if bare(value) != targets:   # A cast of floats, say, leaves them as they are.
            steps.append((targets, value))
    if len(steps) > 1 and steps[-2][0] == bare(steps[-1][1]):
        steps[-2:] = [("", steps[-2][1])]
    made = [assigned(targets, value) if targets else ast.Return(value) for targets, value in steps]
    groups = [list(equal) for _, equal in itertools.groupby(made, key=ast.dump)]
    return [statement for equal in groups for statement in (
        equal if len(equal) < SHORTEST_LOOP else [repeated(equal[0], len(equal))])]


def _with_names(statements: list[_Statement], names: list[str]) -> Iterator[tuple[_Statement, dict[str, str]]]:
    """Yield the statements, each with the names of its variables.

    The name of a variable that nothing reads any more is used again.
    """
    last = {variable: index for index, statement in enumerate(statements) for variable in statement.reads()}
    variables = {_variable(number): name for number, name in enumerate(names)}
    kept = set(names).difference(INPUT_NAMES)   # names with a meaning, which are not used again for something else
    for index, statement in enumerate(statements):
        dying = [variables[variable] for variable in statement.reads() if last[variable] == index
                 and variables[variable] not in kept] if len(statement.targets) == 1 else []
        taken = {name for variable, name in variables.items() if last.get(variable, -1) > index}
        for target in statement.targets:
            wanted = [name for name in statement.wishes.get(target, []) if not dying and name not in taken]
            kept.update(wanted)
            others = (["x"] if kept else []) + ["out", *(f"out{count}" for count in range(2, 1000))]
            variables[target] = next(name for name in wanted + dying + others if name not in taken)
            taken.add(variables[target])
        yield statement, dict(variables)


def _variable(number: int) -> str:
    """Return the place of a variable. All have names of the same length."""
    return f"{number:04}"


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken."""
    return name if name not in taken else next(f"{name}{count}" for count in itertools.count(2)
                                               if f"{name}{count}" not in taken)


def _looped(statements: list[_Statement], counter: str) -> list[_Statement]:
    """Make a loop of the statements in which numbers grow evenly, in the list that reads them.

    ``counter``: what the variable of the loop is called.
    """
    makers = {statement.targets[0]: statement.tree for statement in statements if len(statement.targets) == 1}
    reads = collections.Counter(variable for statement in statements for variable in statement.reads())
    once = {variable: tree for variable, tree in makers.items() if reads[variable] == 1}
    dropped, looped = set(), []
    for statement in statements:
        loops = {}
        for node in walk(statement.tree):
            variables = list(map(place_of, node.elts)) if isinstance(node, ast.List) else []
            if len(variables) >= SHORTEST_LOOP and all(variable in once for variable in variables):
                loop = _loop_of([_Pattern.of(_with_starts(once[variable])) for variable in variables], counter)
                if loop:
                    loops[node] = loop
                    dropped.update(variables)
        looped.append(dataclasses.replace(statement, tree=replaced(statement.tree, loops)))
    return [statement for statement in looped if dropped.isdisjoint(statement.targets)]


def _loop_of(patterns: list[_Pattern], counter: str) -> ast.expr | None:
    """Return a list of expressions as a loop, or None if their numbers do not grow evenly."""
    count, steps = _progression(patterns)
    if count < len(patterns):
        return None
    grown = {number: f"{step} * {counter}" if step != 1 else counter for number, step in steps.items() if step}
    grown = {number: parsed(text + (f" + {number.value}" if number.value else "")) for number, text in grown.items()}
    return _loop(ast.ListComp, replaced(patterns[0].tree, grown), counter, [count])


def _with_starts(tree: ast.expr) -> ast.expr:
    """Return a tree whose slices that end at a number say where they start."""
    return replaced(tree, {node: ast.Slice(literal(0), node.upper, node.step) for node in walk(tree)
                           if isinstance(node, ast.Slice) and not node.lower and isinstance(node.upper, ast.Constant)})


def _statements(block: CompositeModule) -> list[_Statement]:
    """Return the statements of a ``forward``, of which the last one returns.

    A variable that several steps read is called like its module.
    """
    results = [place(str(index)) for index in range(len(block.results))]
    returned = results[0] if len(results) == 1 else ast.Tuple(results, ast.Load())
    items = [*block.items, Item(Expression(returned), block.results, [])]
    entries = [*block.inputs, *(entry for item in block.items for entry in item.makes)]
    variables = {entry: _variable(number) for number, entry in enumerate(entries)}
    trees = {entry: place(variable) for entry, variable in variables.items()}
    brackets = dict.fromkeys(entries, 0)   # around what a tree is made of, if each expression had them
    used = {item: [item.reads[index] for index in item.expression.reads] for item in items}
    uses = collections.Counter(itertools.chain(*used.values()))
    readers = {entry: [item for item in items if entry in used[item]] for entry in entries}
    statements = []
    for item in items:
        attribute = item.module.attribute if item.calls else ""
        values = {str(index): trees[entry] for index, entry in enumerate(item.reads)}
        tree = filled(item.expression.tree, {**values, SELF: parsed(f"self.{attribute}")} if item.calls else values)
        around = sum(brackets[entry] for entry in used[item])
        is_short = [uses[entry] for entry in item.makes] == [1] and len(ast.unparse(tree)) + around <= LONGEST_NESTED
        is_tensor = item.calls and item.module.kind in (PARAMETER, BUFFER) or place_of(tree)
        if item.makes and is_tensor or is_short and _may_nest(item, *readers[item.makes[0]]):
            trees[item.makes[0]], brackets[item.makes[0]] = tree, around + len("()")
        else:
            others = (*NAMES.values(), *snippets(), "self")   # A variable would hide the function of its name.
            is_name = item.calls and item.module.name and attribute.rstrip("0123456789_") not in others
            wishes = {variables[entry]: [attribute] for entry in item.makes if is_name and len(readers[entry]) > 1}
            statements.append(_Statement([variables[entry] for entry in item.makes], tree, wishes))
    return statements


def _may_nest(item: Item, reader: Item) -> bool:
    """Return whether an expression may be put into the step that reads it.

    The call of a module does not go into another one, nor among several results.
    """
    is_result = not reader.makes and len(reader.reads) > 1
    return bool(place_of(item.expression.tree)) or not (is_result or item.calls and reader.calls)
