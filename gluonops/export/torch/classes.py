"""The classes of a net, and what the instances of a class differ in.

Two blocks are equal if they compute the same with modules of the same kinds. The arguments of the modules may differ:
where they do, the class takes them as its own. A block that lacks one module of another one, such as the projection of
a shortcut, is an instance of the other one's class, too.
"""
from __future__ import annotations

import ast
import collections
import dataclasses
import keyword
import re
import string
from collections.abc import Collection, Iterable
from typing import Any

from .blocks import CALL, CONV_BLOCK, IDENTITY, SEQUENTIAL, CompositeModule, Item, Module
from .converters import snippets
from .expressions import Expression, parsed, replaced, walk
from .statements import IMPORTED

MOST_TIMES = 4   # A number in forward that is a larger multiple of an argument is so by chance.
FEWEST = 3   # equal chains of modules that become a class; fewer are written where they are
# The public attributes of every nn.Module.
ATTRIBUTES = (
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu",
    "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state",
    "get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers",
    "named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook", "register_buffer",
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook",
    "requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train",
    "training", "type", "xpu", "zero_grad")


@dataclasses.dataclass(eq=False)
class Slot:
    """An argument that a module of a class takes.

    - ``module``: of the template; ``owner``: which takes the argument, the module itself or one in a row of modules.
    - ``name``: of the argument; ``values``: in each instance of the class, None in one that lacks the module.
    """
    module: Module
    owner: Module
    name: str
    values: list

    def differs(self) -> bool:
        """Return whether it has several values."""
        return len(set(self.values) - {None}) > 1


class Class:
    """A class of the net's own.

    - ``blocks``: its instances; ``template``: one that has all modules, whose source is that of the class.
    - ``structure``: of blocks that have all modules; ``optional_index``: of the item that others lack, or None.
    - ``parameters``: of its constructor -> default, None for none. ``vectors``: -> its value in each instance.
    - ``expressions``: an argument of one of the template's modules -> the tree of what of the parameters it is; of an
      optional module also IDENTITY -> the parameter that says whether it is there.
    - ``stored``: the parameters that its ``forward`` reads.
    - ``is_sequential``: whether it derives from ``nn.Sequential``.
    """

    def __init__(self, template: CompositeModule, structure: tuple):
        self.template, self.structure = template, structure
        self.blocks: list[CompositeModule] = []
        self.optional_index: int | None = None
        self.name = ""
        self.parameters: dict[str, Any] = {}
        self.vectors: dict[str, list] = {}
        self.expressions: dict[tuple[int, str], ast.expr] = {}
        self.stored: list[str] = []
        self.is_sequential = False

    def adapts(self, block: CompositeModule, structure: tuple) -> bool:
        """Let it have an optional module, if a block lacks one of the instances' or has one more.

        Blocks that Gluon calls differently may lack a layer only.
        """
        kinds = {block.kind, self.template.kind}
        is_list = any("Sequential" in kind for kind in kinds) and block.is_chain()   # It may have any length.
        if self.optional_index is not None or is_list or self in _classes_in([block]):
            return False
        self.optional_index = _lacking(self.template, structure, kinds)
        if self.optional_index is None:
            self.optional_index = _lacking(block, self.structure, kinds)
            if self.optional_index is not None:
                self.template, self.structure = block, structure
                for smaller in self.blocks:
                    _leave_out(smaller, self.optional_index)
        return self.optional_index is not None

    def complete(self) -> None:
        """Name the modules, and find the arguments. The classes of the modules are complete."""
        self.is_sequential = self.template.is_chain() and self.template.kind != "Net"
        _name_modules(self.template)
        for block in self.blocks:
            if self.is_sequential:   # its base class calls the modules
                block.become_sequential()
                continue
            for module, of_template in zip(block.children, self.template.children):
                module.attribute = of_template.attribute
        self._take_arguments()

    def _take_arguments(self) -> None:
        """Make parameters of what the instances differ in, and give each instance its values."""
        optional = self.template.items[self.optional_index].module if self.optional_index is not None else None
        slots = self._slots(optional)
        result = next((slot for slot in reversed(slots) if slot.name == "out_channels"), None)
        for slot in slots:
            if slot.differs() or slot.module is optional and _agree(slot.values, self.vectors.get(slot.name, ())):
                self._share(slot, result)
        if optional:
            self._make_optional(optional)
        if not self.is_sequential:
            self._take_constants()
        self._hand_out()

    def _slots(self, optional: Module | None) -> list[Slot]:
        """Return the arguments of all modules, those of the optional one last, with their values in the instances."""
        slots = []
        for module, theirs in sorted(self._instances_of_modules(), key=lambda pair: pair[0] is optional):
            others = [None if each.kind == IDENTITY else each.slots() for each in theirs]
            slots += [Slot(module, owner, name, [each and each[index][0].args[name] for each in others])
                      for index, (owner, name) in enumerate(module.slots())]
        return slots

    def _instances_of_modules(self) -> Iterable[tuple[Module, tuple[Module, ...]]]:
        """Return the template's modules, each with the modules that take its place in the instances."""
        return zip(self.template.children, zip(*(block.children for block in self.blocks)))

    def _share(self, slot: Slot, result: Slot | None) -> None:
        """Let an argument be one of the class, or be computed from one.

        ``result`` are the channels of what the class computes. Channels that have nothing to do with them are hidden.
        """
        name = slot.name
        if name == "out_channels" and not _are_related(slot.values, result.values):
            name = "hidden_channels"
        default = None if isinstance(slot.owner, CompositeModule) else slot.owner.default(slot.name)
        wanted = self._parameter(name, slot.module, slot.owner)
        self.expressions[id(slot.owner), slot.name] = self._expression(slot.values, self.vectors, wanted, default)

    def _make_optional(self, module: Module) -> None:
        """Let a parameter say whether an instance has a module."""
        name = (module.name or module.usual_name) if self.is_sequential else module.attribute
        theirs = dict(self._instances_of_modules())[module]
        self.expressions[id(module), IDENTITY], self.parameters[name] = parsed(name), False
        self.vectors[name] = [each.kind != IDENTITY for each in theirs]

    def _hand_out(self) -> None:
        """Give each instance its arguments; those without a default come first."""
        self.parameters = dict(sorted(self.parameters.items(), key=lambda item: item[1] is not None))
        for i, block in enumerate(self.blocks):
            block.args = {name: _filled(self.vectors[name])[i] for name in self.parameters}

    def _take_constants(self) -> None:
        """Make parameters of the numbers in ``forward`` that differ between the instances."""
        for i, item in enumerate(self.template.items):
            tree, others = item.expression.tree, {}
            factors = {node.right for node in walk(tree)
                       if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv))}
            of_instances = zip(*(block.items[i].expression.constants for block in self.blocks))
            for constant, theirs in zip(item.expression.constants, of_instances):
                values = [each.value for each in theirs]
                if len(set(values)) > 1:
                    others[constant] = self._constant(values, "scale" if constant in factors else "size")
            if others:
                item.expression = Expression(replaced(tree, others))

    def _constant(self, values: list, name: str) -> ast.expr:
        """Return the tree that stands for a number in ``forward``, made of a parameter or of a new one of this name."""
        name = _free(name, {*self.vectors, *(module.attribute for module in self.template.children)})
        near = {parameter: vector for parameter, vector in self.vectors.items() if _agree(values, vector) or max(
            _factor(values, vector), _factor(vector, values)) in range(2, MOST_TIMES + 1)}
        expression = self._expression(values, near, name, None)
        self.vectors.update(near)
        read = {node: node.id for node in walk(expression) if isinstance(node, ast.Name)}
        self.stored = list(dict.fromkeys([*self.stored, *read.values()]))
        return replaced(expression, {node: parsed(f"self.{parameter}") for node, parameter in read.items()})

    def _parameter(self, name: str, module: Module, owner: Module) -> str:
        """Return the name that an argument of a module gets if it becomes a parameter."""
        name = {"num_features": "channels"}.get(name, name)   # most classes call it so
        prefix = owner.usual_name if self.is_sequential or name.startswith("hidden") else module.attribute
        if module.attribute.startswith("branch") and name in ("out_channels", "hidden_channels"):
            *_, last = (each for each, argument in module.slots() if argument == "out_channels")
            return _free(f"{module.attribute}_{'channels' if owner is last else 'hidden'}", self.vectors)
        return _free(f"{prefix}_{name}" if name in self.vectors else name, self.vectors)

    def _expression(self, values: list, vectors: dict[str, list], name: str, default: Any) -> ast.expr:
        """Return the tree of these values: a parameter, a multiple or a part of one, or a new one of this name."""
        for parameter, vector in vectors.items():
            if _agree(values, vector):
                return parsed(parameter)
        for parameter, vector in vectors.items():
            if _factor(values, vector):
                return parsed(f"{_factor(values, vector)} * {parameter}")
            if _factor(vector, values):
                return parsed(f"{parameter} // {_factor(vector, values)}")
            if (name, parameter) == ("padding", "kernel_size") and _are_halves(values, vector):
                return parsed(f"{parameter} // 2")
        vectors[name], self.parameters[name] = list(values), default
        return parsed(name)


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken."""
    while name in taken:
        name += "_"
    return name


def _agree(values: list, vector: list) -> bool:
    """Return whether a vector has these values, as far as they are known."""
    pairs = [(left, right) for left, right in zip(values, vector) if left is not None]
    return bool(pairs) and all(left == right and type(left) is type(right) for left, right in pairs)


def _factor(values: list, vector: list) -> int:
    """Return the integer of at least 2 by which ``vector`` is multiplied in ``values``, or 0 if there is none."""
    pairs = [(left, right) for left, right in zip(values, vector) if left is not None]
    if not all(type(left) is int and type(right) is int and right > 1 and left % right == 0 for left, right in pairs):
        return 0
    factors = {left // right for left, right in pairs}
    return factors.pop() if len(factors) == 1 and min(factors) > 1 else 0


def _are_related(values: list, vector: list) -> bool:
    """Return whether values are those of a vector, multiples of it, or parts."""
    return bool(_agree(values, vector) or _factor(values, vector) or _factor(vector, values))


def _are_halves(values: list, vector: list) -> bool:
    """Return whether numbers are halves of others, rounded down."""
    pairs = [(left, right) for left, right in zip(values, vector) if left is not None]
    return all(type(right) is int and left == right // 2 for left, right in pairs)


def _filled(vector: list) -> list:
    """Return a vector with its first known value where an instance does not need one."""
    first_value = next(value for value in vector if value is not None)
    return [first_value if value is None else value for value in vector]


def _name_modules(block: CompositeModule) -> None:
    """Name the attributes that hold the modules."""
    joined = {entry for item in block.items if item.expression.function == "torch.cat" for entry in item.reads}
    branches = [item.module for item in block.items if item.calls and joined.intersection(item.makes)
                and not item.module.name and item.module.kind in (SEQUENTIAL, CONV_BLOCK)]
    wanted = ["branch" if len(branches) > 1 and module in branches else module.name or module.usual_name
              for module in block.children]
    counts, taken = collections.Counter(), {*ATTRIBUTES, *IMPORTED, *keyword.kwlist}
    for module, name in zip(block.children, wanted):
        if wanted.count(name) > 1:
            counts[name] += 1
            name = f"{name}{counts[name]}"
        while name in taken:
            name += "_"
        module.attribute = name
        taken.add(name)


def classes_of(net: CompositeModule) -> list[Class]:
    """Return the classes of all blocks, inner ones first. Each instance gets the arguments of its constructor."""
    owners = {}   # the structure of a block -> its class
    for block in net.blocks():
        if block.kind != SEQUENTIAL:
            structure = block.structure()
            if structure not in owners:
                adapted = next((owner for owner in owners.values() if owner.adapts(block, structure)), None)
                owners[structure] = adapted or Class(block, structure)
            block.owner = owners[structure]
            block.owner.blocks.append(block)
            if structure != block.owner.structure:
                _leave_out(block, block.owner.optional_index)
    classes, taken = [], {"Net", *IMPORTED, *snippets()}
    for owner in sorted(dict.fromkeys(owners.values()), key=lambda owner: len(_classes_in(owner.blocks))):
        is_plain = len(owner.blocks) < FEWEST or "Sequential" in owner.template.kind
        if is_plain and owner.optional_index is None and owner is not net.owner and owner.template.is_chain():
            for block in owner.blocks:
                block.kind, block.owner = SEQUENTIAL, None
                block.become_sequential()
        else:
            owner.complete()
            classes.append(owner)
    for owner in classes:
        owner.name = "Net" if owner is net.owner else _class_name(owner.template.kind, taken)
        for block in owner.blocks:
            block.kind = owner.name
    return classes


def _classes_in(blocks: list[CompositeModule]) -> set[Class]:
    """Return the classes in blocks, in any depth."""
    classes, waiting = set(), list(blocks)
    while waiting:
        for block in waiting.pop().blocks():
            if block.owner and block.owner not in classes:
                classes.add(block.owner)
                waiting += block.owner.blocks
    return classes


def _lacking(block: CompositeModule, structure: tuple, kinds: set[str]) -> int | None:
    """Return the index of the item without which a block has a structure, or None. See :meth:`Class.adapts`."""
    if len(block.items) == len(structure[0]) + 1 and len(structure[0]) > 1:
        for item in block.links():
            is_essential = any(item.module.variables()) and (len(kinds) > 1 or block.is_chain())
            may_lack = item.calls and not (isinstance(item.module, CompositeModule) and is_essential)
            if may_lack and block.structure(without=item) == structure:
                return block.items.index(item)
    return None


def _leave_out(block: CompositeModule, index: int) -> None:
    """Let a block have nothing at an index."""
    block.items.insert(index, Item(CALL, [], [], Module(IDENTITY)))


def _class_name(kind: str, taken: set[str]) -> str:
    """Return a name that no other class has."""
    kind = re.sub(r"\W|^_+|^Hybrid(?!Seq)", "", kind)
    kind = "Block" if not kind.isidentifier() or "Sequential" in kind else kind[0].upper() + kind[1:]
    kinds = [f"{kind}{letter}" for letter in string.ascii_uppercase[1:]] if kind[-1].isdigit() else []   # V2B, not V22
    name = next(name for name in (kind, *kinds, *(f"{kind}{number}" for number in range(2, 1000))) if name not in taken)
    taken.add(name)
    return name
