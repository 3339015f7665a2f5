"""What the instructions of PTX compute that concern one thread alone, on NumPy arrays with an element per thread.

:func:`operation` gives the function of an instruction with the types of its operands. Where the ISA allows an error
(``ex2.approx``), the value here is the nearest one. ``fma.rn.f64`` is computed in ``long double``.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from .parse import Instruction, PtxError

DTYPES = {"pred": np.bool_, "u8": np.uint8, "s8": np.int8, "b8": np.uint8, "u16": np.uint16, "s16": np.int16,
          "b16": np.uint16, "f16": np.float16, "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32,
          "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "f64": np.float64}
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
               "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
SMALLEST_NORMAL = np.float32(2.0 ** -126)


@dataclasses.dataclass(frozen=True)
class Operation:
    """``function(*operands) -> result`` with the types of the operands and of the result."""
    function: Callable
    operands: tuple
    result: str


def operation(instruction: Instruction) -> Operation:
    """Return what an instruction computes.

    Raises
    ------
    PtxError
        It is not known here; the text names it.
    """
    build = _BUILDERS.get(instruction.root)
    is_known = build and instruction.type in DTYPES and _MODIFIERS.issuperset(instruction.parts[1:])
    rule = build(instruction.parts, instruction.type) if is_known else None
    if rule is None:
        raise PtxError(f"unknown instruction: {instruction.text}")
    return rule


def is_float(kind: str) -> bool:
    return kind.startswith("f")


def _same(function: Callable, count: int) -> Callable:
    """Return a builder for operands and a result of one type."""
    def build(parts: list, kind: str) -> Operation | None:
        dtype = DTYPES[kind]
        if "rm" in parts and parts[0] != "fma":
            return None

        def compute(*values):
            result = _flushed(function(*map(_flushed_if(parts, kind), values)), parts, kind)
            return _saturated(result, kind) if "sat" in parts else result.astype(dtype, copy=False)
        return Operation(compute, (kind,) * count, kind)
    return build


def _flushed_if(parts: list, kind: str) -> Callable:
    return lambda values: _flushed(values, parts, kind)


def _flushed(values: np.ndarray, parts: list, kind: str) -> np.ndarray:
    """``.ftz``: subnormal numbers are zero."""
    if "ftz" not in parts or kind != "f32":
        return values
    return np.where(np.abs(values) < SMALLEST_NORMAL, np.copysign(np.float32(0), values), values)


def _saturated(values: np.ndarray, kind: str) -> np.ndarray:
    """``.sat``: into [0, 1], NaN to 0."""
    return np.where(np.isnan(values), 0, np.clip(values, 0, 1)).astype(DTYPES[kind])


def _minimum(parts, kind):
    return _same(np.fmin if is_float(kind) else np.minimum, 2)(parts, kind)


def _maximum(parts, kind):
    return _same(np.fmax if is_float(kind) else np.maximum, 2)(parts, kind)


def _multiply(parts, kind):
    if "wide" in parts:
        wide = DTYPES[WIDE[kind]]
        return Operation(lambda a, b: a.astype(wide) * b.astype(wide), (kind, kind), WIDE[kind])
    if "hi" in parts:
        return Operation(lambda a, b: _high(a, b, kind), (kind, kind), kind)
    return _same(np.multiply, 2)(parts, kind)


def _high(a, b, kind):
    """Return the upper half of a product."""
    bits = 8 * np.dtype(DTYPES[kind]).itemsize
    wide = DTYPES[WIDE[kind]] if kind in WIDE else object   # Python's integers are as long as it takes
    product = a.astype(wide) * b.astype(wide)
    return (product >> (bits if wide is object else wide(bits))).astype(DTYPES[kind])


def _multiply_add(parts, kind):
    if is_float(kind):
        return _fused(parts, kind)
    product = _multiply(parts, kind)
    return Operation(lambda a, b, c: product.function(a, b) + c, (kind, kind, product.result), product.result)


def _fused(parts, kind):
    exact = np.float64 if kind == "f32" else np.longdouble
    dtype = DTYPES[kind]

    def fma(a, b, c):
        result = a.astype(exact) * b.astype(exact) + c.astype(exact)
        rounded = result.astype(dtype)
        if "rm" in parts:   # towards minus infinity
            rounded = np.where(rounded.astype(exact) > result, np.nextafter(rounded, dtype(-np.inf)), rounded)
        return rounded
    return _same(fma, 3)(parts, kind)


def _divide(parts, kind):
    if is_float(kind):
        return _same(np.divide, 2)(parts, kind)
    return Operation(lambda a, b: _quotient(a, b), (kind, kind), kind)


def _remainder(parts, kind):
    return Operation(lambda a, b: a - _quotient(a, b) * b, (kind, kind), kind)


def _quotient(a, b):
    """Return the quotient of integers, rounded towards zero. By zero it has all bits set, as on a GPU.

    That is no error: a compiler may divide before it knows whether the quotient is used.
    """
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    floor = a // divisor
    if a.dtype.kind == "i":
        floor = floor + (((a < 0) != (divisor < 0)) & (floor * divisor != a))
    return np.where(b == 0, ~np.zeros_like(b), floor)


def _logical(name: str) -> Callable:
    bitwise = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name]
    return lambda parts, kind: Operation(bitwise, (kind, kind), kind)


def _shift(left: bool) -> Callable:
    """A shift by the width or more leaves zeros, or the sign."""
    def build(parts, kind):
        bits = 8 * np.dtype(DTYPES[kind]).itemsize

        def shift(values, by):
            limited = np.minimum(by, bits - 1).astype(values.dtype)
            if left:
                return np.where(by >= bits, 0, values << limited).astype(values.dtype)
            shifted = values >> limited
            return shifted if values.dtype.kind == "i" else np.where(by >= bits, 0, shifted).astype(values.dtype)
        return Operation(shift, (kind, "u32"), kind)
    return build


def _funnel_shift(parts, kind):
    """``shf``: 32 bits of two registers side by side."""
    def shift(low, high, by):
        by = (np.minimum(by, 32) if "clamp" in parts else by & np.uint32(31)).astype(np.uint64)
        both = high.astype(np.uint64) << np.uint64(32) | low
        return (both >> by if "r" in parts else (both << by) >> np.uint64(32)).astype(np.uint32)
    return Operation(shift, ("u32", "u32", "u32"), "u32")


def _extract_bits(parts, kind):
    """``bfe``, of unsigned numbers and of signed ones, whose sign is extended."""
    bits = 8 * np.dtype(DTYPES[kind]).itemsize

    def extract(values, position, length):
        position, length = (n.astype(np.int64) & 255 for n in (position, length))
        end = np.minimum(position + length, bits)
        up = bits - end
        shifted = _shift(True)(parts, kind).function(values, up.astype(np.uint32))
        down = np.where(length == 0, bits, up + position)
        result = _shift(False)(parts, kind).function(shifted, down.astype(np.uint32))
        return np.where(length == 0, 0, result).astype(DTYPES[kind])
    return Operation(extract, (kind, "u32", "u32"), kind)


def _insert_bits(parts, kind):
    dtype = DTYPES[kind]
    bits = 8 * np.dtype(dtype).itemsize

    def insert(values, into, position, length):
        position, length = (n.astype(np.uint32) & 255 for n in (position, length))
        left, right = _shift(True)(parts, kind).function, _shift(False)(parts, kind).function
        ones = np.full(np.shape(position), np.iinfo(dtype).max, dtype)
        mask = np.where(length == 0, 0, right(ones, (bits - np.minimum(length, bits)).astype(np.uint32))).astype(dtype)
        mask = left(mask, position)
        return into & ~mask | left(values, position) & mask
    return Operation(insert, (kind, kind, "u32", "u32"), kind)


def _permute_bytes(parts, kind):
    """``prmt``: a selector of four bits for each byte of the result; its highest bit repeats the byte's sign."""
    if parts != ["prmt", "b32"]:
        return None

    def permute(a, b, selectors):
        both = b.astype(np.uint64) << np.uint64(32) | a
        result = np.zeros(np.broadcast(both, selectors).shape, np.uint64)
        for place in range(4):
            selector = selectors >> np.uint32(4 * place) & np.uint32(15)
            byte = both >> ((selector & np.uint32(7)).astype(np.uint64) * np.uint64(8)) & np.uint64(255)
            sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
            result |= np.where(selector & np.uint32(8), sign, byte) << np.uint64(8 * place)
        return result.astype(np.uint32)
    return Operation(permute, ("b32", "b32", "b32"), "b32")


def _dot_product(lanes: int) -> Callable:
    """``dp4a``, ``dp2a``: the sum of the products of bytes, added to a number."""
    def build(parts, kind):
        a_kind, b_kind = parts[-2:]
        result = "u32" if (a_kind, b_kind) == ("u32", "u32") else "s32"

        def dot(a, b, c):
            total = c.astype(np.int64)
            first = 2 if lanes == 2 and "hi" in parts else 0
            for place in range(lanes):
                a_bits = 32 // lanes
                total = total + _part(a, a_kind, place, a_bits) * _part(b, b_kind, first + place, 8)
            return total.astype(DTYPES[result])
        return Operation(dot, (a_kind, b_kind, result), result)
    return build


def _part(values, kind, place, bits):
    """Return the bits of one place as numbers, with a sign if the type has one."""
    part = values.astype(np.int64) >> np.int64(bits * place) & np.int64((1 << bits) - 1)
    return np.where(part >> (bits - 1), part - (1 << bits), part) if kind.startswith("s") else part


def _compare(parts, kind):
    """``setp``, perhaps combined with another predicate."""
    name = parts[1]
    unordered = is_float(kind) and len(name) == 3 and name.endswith("u")
    comparison = COMPARISONS.get(name[:2])
    combined = LOGIC.get(parts[2]) if len(parts) > 3 else None
    if comparison is None and name not in ("num", "nan"):
        return None

    def compare(a, b, *others):
        has_nan = np.isnan(a) | np.isnan(b) if is_float(kind) else False
        if name in ("num", "nan"):
            result = has_nan if name == "nan" else ~has_nan
        else:
            result = comparison(a, b) & ~np.asarray(has_nan) | (has_nan if unordered else False)
        return combined(result, others[0]) if others else result
    return Operation(compare, (kind, kind, "pred") if combined else (kind, kind), "pred")


def _select(parts, kind):
    return Operation(lambda a, b, condition: np.where(condition, a, b), (kind, kind, "pred"), kind)


def _count(function: Callable) -> Callable:
    return lambda parts, kind: Operation(lambda values: function(values, 8 * values.itemsize), (kind,), "u32")


def _ones(values, bits):
    return sum((values >> values.dtype.type(i) & values.dtype.type(1)).astype(np.uint32) for i in range(bits))


def _leading_zeros(values, bits):
    counts = np.full(np.shape(values), bits, np.uint32)
    for i in range(bits):
        counts = np.where(values >> values.dtype.type(i) & values.dtype.type(1), np.uint32(bits - 1 - i), counts)
    return counts


def _reverse(parts, kind):
    def reverse(values):
        result = np.zeros_like(values)
        for i in range(8 * values.itemsize):
            result = result << values.dtype.type(1) | values >> values.dtype.type(i) & values.dtype.type(1)
        return result
    return Operation(reverse, (kind,), kind)


def _highest_bit(parts, kind):
    """``bfind`` of unsigned numbers."""
    if not kind.startswith("u"):
        return None

    def find(values):
        zeros = _leading_zeros(values, 8 * values.itemsize)
        return (np.uint32(8 * values.itemsize - 1) - zeros if "shiftamt" not in parts else zeros).astype(np.uint32)
    return Operation(find, (kind,), "u32")


def _approximate(function: Callable) -> Callable:
    """Return a function of the special function unit, computed in float64."""
    def build(parts, kind):
        def compute(values):
            return function(values.astype(np.float64)).astype(DTYPES[kind])
        return _same(compute, 1)(parts, kind)
    return build


def _reciprocal(parts, kind):
    def reciprocal(values):
        if kind == "f64" and "approx" in parts:   # the lower half of the mantissa is zero
            bits = (1 / values).view(np.uint64)
            return (bits & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        return DTYPES[kind](1) / values
    return _same(reciprocal, 1)(parts, kind)


def _convert(parts, kind):
    """``cvt.<modifiers>.<to>.<from>``."""
    to, dtype = parts[-2], DTYPES.get(parts[-2])
    if dtype is None:
        return None
    whole = next((TO_WHOLE[part] for part in parts if part in TO_WHOLE), None)

    def convert(values):
        values = _flushed(values, parts, kind)
        if is_float(to):
            result = (whole(values) if whole else values).astype(dtype)
            return _saturated(result, to) if "sat" in parts else _flushed(result, parts, to)
        if is_float(kind):
            return _to_integer(whole(values.astype(np.float64)), dtype)
        if "sat" in parts:
            return np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
        return values.astype(dtype)
    return Operation(convert, (kind,), to)


def _to_integer(values, dtype):
    """Return a GPU's conversion: what is too large becomes the largest integer, NaN becomes 0."""
    limits = np.iinfo(dtype)
    inside = (values > float(limits.min)) & (values < float(limits.max))
    result = np.where(inside, values, 0).astype(dtype)
    result = np.where(values >= float(limits.max), dtype(limits.max), result)
    return np.where(values <= float(limits.min), dtype(limits.min), result)


def _absolute_difference(parts, kind):
    """``sad``: |a - b| + c."""
    unsigned = DTYPES[kind.replace("s", "u")]

    def sad(a, b, c):
        return (np.maximum(a, b) - np.minimum(a, b)).astype(unsigned) + c.astype(unsigned)
    return Operation(lambda a, b, c: sad(a, b, c).astype(DTYPES[kind]), (kind, kind, kind), kind)


_BUILDERS = {
    "add": _same(np.add, 2), "sub": _same(np.subtract, 2), "neg": _same(np.negative, 1), "abs": _same(np.abs, 1),
    "min": _minimum, "max": _maximum, "mul": _multiply, "mad": _multiply_add, "fma": _fused, "div": _divide,
    "rem": _remainder, "sad": _absolute_difference,
    "and": _logical("and"), "or": _logical("or"), "xor": _logical("xor"), "not": _same(np.invert, 1),
    "shl": _shift(True), "shr": _shift(False), "shf": _funnel_shift, "bfe": _extract_bits, "bfi": _insert_bits,
    "prmt": _permute_bytes, "dp4a": _dot_product(4), "dp2a": _dot_product(2), "popc": _count(_ones),
    "clz": _count(_leading_zeros), "brev": _reverse, "bfind": _highest_bit,
    "setp": _compare, "selp": _select, "cvt": _convert,
    "copysign": _same(lambda sign, value: np.copysign(value, sign), 2),
    "ex2": _approximate(np.exp2), "lg2": _approximate(np.log2), "sin": _approximate(np.sin),
    "cos": _approximate(np.cos), "sqrt": _same(np.sqrt, 1),
    "rsqrt": _approximate(lambda values: 1 / np.sqrt(values)), "rcp": _reciprocal,
}
# Rounding modes other than "nearest", which only `fma` and `cvt` have here, are missing, and so are carries.
_MODIFIERS = {*DTYPES, *COMPARISONS, *(f"{name}u" for name in COMPARISONS), *LOGIC, *TO_WHOLE, "num", "nan", "rn", "rm",
              "ftz", "sat", "approx", "full", "lo", "hi", "wide", "l", "r", "wrap", "clamp", "shiftamt"}
