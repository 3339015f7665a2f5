"""Parses PTX, the assembly that NVRTC makes, into a :class:`Kernel`: one list of instructions, all calls inlined."""
from __future__ import annotations

import dataclasses
import re

SIZES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4,
         "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
WAITS = ("bar", "barrier", "shfl", "vote", "match", "redux", "activemask")   # instructions that threads do together
ENDS = ("bra", "ret", "exit", *WAITS)

_FUNCTION = re.compile(r"^(?:\.weak|\.visible|\.extern)?\s*\.(?:entry|func)\s+((?:\([^)]*\)\s*)?)([\w$]+)\s*\(([^)]*)\)"
                       r"\s*((?:\.\w+[^\n{;]*\n)*)\s*([{;])", re.MULTILINE)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)")
_VARIABLE = re.compile(r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$")
_TABLE = re.compile(r"\.global\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d+)\]\s*=\s*\{([\d,\s]+)\}")
_LABEL = re.compile(r"^([\w$]+):\s*")
_GUARD = re.compile(r"@(!?)(%\w+)\s+")
_WORD = re.compile(r"%?[A-Za-z_$][\w$]*")
_IGNORED = (".loc ", ".loc\t", ".pragma", ".file", ".param", ".section")


class PtxError(Exception):
    """PTX that is not understood, or that does what it must not."""


@dataclasses.dataclass
class Instruction:
    """One instruction. ``guard``: the predicate register that it depends on; ``negated``: it must be false."""
    text: str
    parts: list
    operands: list
    guard: str | None = None
    negated: bool = False

    @property
    def root(self) -> str:
        """The first part of its name: ``ld`` of ``ld.global.f32``."""
        return self.parts[0]

    @property
    def type(self) -> str:
        """The last part of its name."""
        return self.parts[-1]


@dataclasses.dataclass
class Function:
    """A function as it is written.

    ``variables`` maps shared and local ones to (space, alignment, bytes). ``tables``: those of its module.
    """
    name: str
    parameters: list
    result: str | None
    instructions: list
    labels: dict
    registers: dict
    variables: dict
    tables: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Kernel:
    """What is executed.

    ``parameters``: (type, name) of each. ``labels``: name -> position. ``registers``: name, or the prefix that it
    shares with others, -> type. ``shared``, ``local``: name -> offset, with the size of all as ``shared_size``.
    ``tables``: variable in global memory with initial values -> (alignment, values as bytes). ``leaders``: the
    positions at which threads may meet.
    """
    name: str
    parameters: list
    instructions: list
    labels: dict
    registers: dict
    shared: dict
    shared_size: int
    local: dict
    local_size: int
    tables: dict
    leaders: frozenset

    def register_type(self, name: str) -> str:
        return self.registers[name] if name in self.registers else self.registers[re.sub(r"\d+$", "", name)]


def parse(ptx: str) -> dict[str, Function]:
    """Return the functions of a PTX module by name."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", ptx, flags=re.DOTALL)
    functions, outside = {}, []
    end = 0
    for match in _FUNCTION.finditer(text):
        outside.append(text[end:match.start()])
        end = match.end()
        if match[5] == ";":   # declared only
            continue
        end = _closing(text, match.end())
        functions[match[2]] = _function(match, text[match.end():end - 1])
    outside.append(text[end:])
    shared, tables = _module_variables("".join(outside)), _module_tables("".join(outside))
    for function in functions.values():
        function.tables = tables
        function.variables = {**shared, **function.variables}
    return functions


def _closing(text: str, start: int) -> int:
    """Return the position behind the brace that closes the one before ``start``."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    raise PtxError("a brace is not closed")


def _module_variables(text: str) -> dict:
    variables = {}
    for statement in text.split(";"):
        match = _VARIABLE.search(" ".join(statement.split()))
        if match:
            variables[match[4]] = _variable(match)
    return variables


def _module_tables(text: str) -> dict[str, tuple[int, bytes]]:
    """Table -> (alignment, values). What is given no value is zero."""
    tables = {}
    for alignment, name, size, values in _TABLE.findall(text):
        content = bytes(int(value) for value in values.split(","))
        tables[name] = int(alignment), content.ljust(int(size), b"\0")
    return tables


def _variable(match: re.Match) -> tuple[str, int, int]:
    size = SIZES[match[3]]
    return match[1], int(match[2] or size), size * int(match[5] or 1)


def _function(match: re.Match, body: str) -> Function:
    result = re.search(r"([\w$]+)\s*\)", match[1])
    function = Function(match[2], _PARAMETER.findall(match[3]), result and result[1], [], {}, {}, {})
    for statement in _statements(body):
        _add(function, statement)
    return function


def _statements(body: str) -> list[str]:
    """Return the statements without the braces of scopes. A brace inside a statement is a vector's."""
    statements, current = [], ""
    for part in re.split(r"([;{}]|:\s*\n)", body):
        if part == ";" or part.startswith(":"):
            statements.append(current + part.strip(";\n "))
            current = ""
        elif part in ("{", "}") and not current.strip():
            current = ""
        else:
            current += part
    return [" ".join(statement.split()) for statement in statements]


def _add(function: Function, statement: str) -> None:
    """Add a statement to a function: labels, a declaration or an instruction."""
    label = _LABEL.match(statement)
    while label:
        function.labels[label[1]] = len(function.instructions)
        statement = statement[label.end():]
        label = _LABEL.match(statement)
    if not statement or statement.startswith(_IGNORED):
        return
    if statement.startswith(".reg"):
        _, kind, names = statement.split(None, 2)
        for name in names.split(","):
            function.registers[re.sub(r"<\d+>", "", name.strip())] = kind[1:]
        return
    variable = _VARIABLE.match(statement)
    if variable:
        function.variables[variable[4]] = _variable(variable)
        return
    if statement.startswith("."):
        raise PtxError(f"unknown declaration: {statement}")
    function.instructions.append(_instruction(statement))


def _instruction(statement: str) -> Instruction:
    text, guard = statement, _GUARD.match(statement)
    if guard:
        statement = statement[guard.end():]
    name, _, rest = statement.partition(" ")
    return Instruction(text, name.split("."), split_operands(rest), guard and guard[2], bool(guard and guard[1]))


def split_operands(text: str) -> list[str]:
    """``%r1, {%r2, %r3}, [%rd1+4]`` as three operands."""
    operands, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and not depth:
            operands.append(current.strip())
            current = ""
        else:
            current += character
    return [*operands, current.strip()] if current.strip() else operands


class _Inliner:
    """Collects the instructions of a kernel and of the functions that it calls."""

    def __init__(self, functions: dict[str, Function]):
        self.functions, self.calls = functions, 0
        self.instructions, self.labels, self.registers, self.variables = [], {}, {}, {}

    def add(self, function: Function, prefix: str, arguments: dict, end: str | None) -> None:
        """Add a function whose names get a prefix. ``end``: the label behind the call."""
        for name, kind in function.registers.items():
            self.registers[f"%{prefix}{name.lstrip('%')}"] = kind
        for name, variable in function.variables.items():
            self.variables[self._variable_name(function, prefix, name)] = variable
        labels = {}
        for name, position in function.labels.items():
            labels.setdefault(position, []).append(name)

        for position, instruction in enumerate(function.instructions):
            self._place(labels.get(position, ()), prefix)
            if instruction.root == "call":
                self._call(instruction, prefix)
                continue
            renamed = dataclasses.replace(instruction, operands=[
                self._renamed(operand, function, prefix, arguments) for operand in instruction.operands])
            if instruction.guard:
                renamed.guard = f"%{prefix}{instruction.guard[1:]}"
            if instruction.root == "ret" and end:
                renamed.parts, renamed.operands = ["bra"], [end]
            self.instructions.append(renamed)
        self._place(labels.get(len(function.instructions), ()), prefix)

    def _place(self, names: list[str], prefix: str) -> None:
        for name in names:
            self.labels[prefix + name] = len(self.instructions)

    def _call(self, instruction: Instruction, prefix: str) -> None:
        if instruction.guard:
            raise PtxError(f"unknown instruction: {instruction.text}")
        operands = list(instruction.operands)
        results = split_operands(operands.pop(0).strip("()")) if operands[0].startswith("(") else []
        callee = self.functions[operands[0]]
        passed = split_operands(operands[1].strip("()")) if len(operands) > 1 else []
        self.calls += 1
        inner = f"{prefix}call{self.calls}_"
        arguments = {name: prefix + value for (_, name), value in zip(callee.parameters, passed)}
        arguments.update((callee.result, prefix + value) for value in results)
        self.add(callee, inner, arguments, f"{inner}end")
        self._place(["end"], inner)

    def _renamed(self, operand: str, function: Function, prefix: str, arguments: dict) -> str:
        if operand.startswith(("0f", "0d", "0F", "0D")):
            return operand

        def rename(match: re.Match) -> str:
            word = match[0]
            if word in arguments:
                return arguments[word]
            if word.startswith("%"):
                declared = word in function.registers or re.sub(r"\d+$", "", word) in function.registers
                return f"%{prefix}{word[1:]}" if declared else word
            if word in function.variables:
                return self._variable_name(function, prefix, word)
            return prefix + word if word in function.labels or word.startswith(("param", "retval")) else word
        return _WORD.sub(rename, operand)

    @staticmethod
    def _variable_name(function: Function, prefix: str, name: str) -> str:
        """Shared memory is the block's, however often a function is called."""
        return name if function.variables[name][0] == "shared" else prefix + name


def kernel(functions: dict[str, Function], name: str) -> Kernel:
    """Return the kernel of that name, ready to be executed."""
    entry, inliner = functions[name], _Inliner(functions)
    inliner.add(entry, "", {}, None)
    inliner.instructions.append(Instruction("ret", ["ret"], []))

    used = " ".join(instruction.text for instruction in inliner.instructions)
    shared, shared_size = _placed(inliner.variables, "shared", used)
    local, local_size = _placed(inliner.variables, "local", None)
    tables = {name: table for name, table in entry.tables.items() if name in used}
    leaders = {0, *inliner.labels.values()}
    for position, instruction in enumerate(inliner.instructions):
        if instruction.root in ENDS:
            leaders.add(position + 1)
        if instruction.root in WAITS:
            leaders.add(position)
    return Kernel(name, entry.parameters, inliner.instructions, inliner.labels, inliner.registers, shared, shared_size,
                  local, local_size, tables, frozenset(leaders))


def _placed(variables: dict, space: str, used: str | None) -> tuple[dict, int]:
    """(Variable -> offset, size of all) of a space; only of those whose names are used."""
    offsets, end = {}, 0
    for name, (where, alignment, size) in variables.items():
        if where == space and (used is None or name in used):
            end = -(-end // alignment) * alignment
            offsets[name] = end
            end += size
    return offsets, -(-max(end, 1) // 16) * 16
