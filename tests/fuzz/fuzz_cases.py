"""Hypothesis's strategies for cases, from the contracts: attributes, shapes, dtypes, special values and labels.

A case is a flat record that JSON can hold, so that a failing one is run again by itself, whatever the strategies
have become meanwhile.
"""
import dataclasses
import json
import math
import re

import fuzz_contract as contracts
import mxnet as mx
from fuzz_contract import UNKNOWN
from hypothesis import assume
from hypothesis import strategies as st

# Elements of the largest tensor: of nearly every case, and of one with a long axis.
SMALL, LARGE = 1 << 12, 1 << 17
# Elements of a map times boxes of an image: the oracle compares them all.
PAIRS = 1 << 22
SIZES = (1, 2, 3, 4, 5, 7, 11, 13, 6, 8, 9, 16, 17, 31)
LONG = (1031, 2053, 4099, 20011, 65537)
EDGES = (2 ** 24 + 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 + 1, 2 ** 62, 2 ** 63 - 1, -2 ** 31, -2 ** 63)
FACTORS = (1e-3, 0.25, 0.5, 0.999, 1.0, 2.0, 2.5, 10.0, 1e3)
EXTREMES = (1e-45, 1e-38, 1e-30, 1e-8, 1e8, 1e30)

FEW_BITS = "few_bits"
SPECIALS = ("zero", "negative_zero", "equal", "denormal", "huge", "max", "inf", "-inf", "nan", FEW_BITS)
BAD_LABELS = ("below", "above", "far_above", "far_below", "fraction", "nan", "inf")
REQUESTS = ("write", "add", "null")


@dataclasses.dataclass(frozen=True)
class Values:
    """An operator run on arrays. ``shapes`` in the order of the inputs; arrays are drawn from ``seed``."""
    op: str
    attrs: dict
    shapes: tuple
    dtype: str
    label_dtype: str = "float32"
    specials: tuple = ()
    bad_labels: tuple = ()
    request: str = "write"
    static: bool = False
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Inference:
    """What is asked of a graph in which only ``known`` shapes and ``dtypes`` are given; -1 is an unknown size.

    ``graph``: the operator alone, or with a layer behind it, or a sum that gives the output's shape.
    """
    op: str
    attrs: dict
    known: dict
    dtypes: dict
    graph: str = "alone"
    np_shape: bool = False


@dataclasses.dataclass(frozen=True)
class Hostile:
    """A graph's JSON in which one attribute has another text, or the node another ``op`` or number of ``inputs``.

    ``place``: of the node among those of a builtin graph.
    """
    op: str
    attrs: dict
    shapes: tuple
    attr: str
    text: str
    place: int = 0


@dataclasses.dataclass(frozen=True)
class Damaged:
    """A file with edits ``(what, place, value)``; see fuzz_files. ``op`` is its kind: no operator."""
    op: str
    edits: tuple


@dataclasses.dataclass(frozen=True)
class Exported:
    """An operator that jumps, in a file for a ``target``; see fuzz_exports. ``op`` is none of gluonops's.

    ``number``: a scalar of the operator. The inputs, of a ``kind``, are drawn from ``seed``, and are multiplied by
    ``scale``.
    """
    op: str
    kind: str
    target: str
    number: float
    scale: float = 1.0
    seed: int = 0


PROBES = {kind.__name__.lower(): kind for kind in (Values, Inference, Hostile, Damaged, Exported)}
GRAPHS = ("alone", "layer", "sum")


def to_json(case):
    """One line that :func:`from_json` reads back."""
    return json.dumps({"probe": type(case).__name__.lower(), **dataclasses.asdict(case)})


def from_json(text):
    """The case of a line."""
    fields = json.loads(text)
    kind = PROBES[fields.pop("probe")]
    return kind(**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value):
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, dict) else value


# -- attributes --------------------------------------------------------------------------------------------------
def _integers(kind, default):
    low = -4 if kind.low is None else kind.low
    usual = st.integers(low, max(low, 0) + 5)
    return _mostly(usual, st.sampled_from([edge for edge in EDGES if edge >= low]))


def _floats(kind, default):
    bounds = [bound for bound in (kind.low, kind.above, kind.below) if bound is not None]
    near = [bound + step for bound in bounds for step in (-1e-6, 0.0, 1e-6)]

    def allowed(values):
        return [value for value in values if _accepts(kind, value)]
    return _mostly(st.sampled_from(allowed([*FACTORS, *(-factor for factor in FACTORS)])),
                   st.sampled_from(allowed([*near, *EXTREMES])))


def _accepts(kind, value):
    try:
        kind.parse(value)
    except (TypeError, ValueError):
        return False
    return True


def _mostly(usual, rare):
    return st.integers(0, 9).flatmap(lambda pick: rare if pick == 9 else usual)


def _pairs(kind, default):
    side = st.integers(1, 2000).map(lambda steps: steps / 256 + 0.01)
    return st.lists(st.tuples(side, side), min_size=1, max_size=4).map(lambda found: tuple(sum(found, ())))


KINDS = {
    "Int": _integers,
    "Float": _floats,
    "Bool": lambda kind, default: st.booleans(),
    "Choice": lambda kind, default: st.sampled_from(kind.words),
    "IntOrTuple": lambda kind, default: st.one_of(
        _integers(kind.item, default), st.lists(st.integers(kind.item.low, kind.item.low + 3), min_size=1,
                                                max_size=5).map(tuple)),
    "Numbers": lambda kind, default: _floats(kind.item, default).map(lambda number: (number,)),
    "Pairs": _pairs,
    "Optional": lambda kind, default: st.one_of(st.none(), of_kind(kind.kind, default)),
}


def of_kind(kind, default):
    """Values of one kind of attribute."""
    return KINDS[type(kind).__name__](kind, default)


@st.composite
def attributes(draw, name):
    """Attributes that the contract takes; some have their default."""
    found = {attr: draw(of_kind(kind, default)) if draw(st.booleans()) else default
             for attr, (kind, default) in contracts.kinds(name).items()}
    assume(contracts.parse(name, found) is not None)
    return found


# -- shapes ------------------------------------------------------------------------------------------------------
def _multiples(attrs):
    """Sizes, and the same times what the integers among the attributes may ask them to divide by."""
    numbers = {value for value in attrs if isinstance(value, int) and 1 < value <= 16}
    factors = [1] + [factor for number in sorted(numbers) for factor in (number, number ** 2)]
    return list(dict.fromkeys(size * factor for factor in factors for size in SIZES))


@st.composite
def shapes(draw, name, attrs, empty=False):
    """A shape for every input, in order; ``empty``: perhaps of a batch of 0."""
    typed = contracts.parse(name, attrs)
    long_axis = draw(st.integers(0, 14)) == 14
    limit = LARGE if long_axis else SMALL
    known = {}
    for arg in contracts.input_names(name):
        found = (contracts.infer(name, typed, known) or {}).get(arg) if known else None
        ndims = contracts.ranks(name, typed, known, arg)
        if found is not None:   # most often what follows from the data, else another rank that goes with it
            ndims = [len(found)] * 3 + ndims
        assume(ndims)
        known[arg] = (UNKNOWN,) * draw(st.sampled_from(ndims))
        known[arg] = contracts.infer(name, typed, known)[arg]
        for axis in range(len(known[arg])):
            if known[arg][axis] != UNKNOWN:
                continue
            sizes = _multiples(typed) + [0] * (empty and axis == 0 and len(known) == 1) + list(LONG) * long_axis
            fitting = [size for size in sizes if _fits(name, typed, known, arg, axis, size, limit)]
            assume(fitting)
            known[arg] = _with(known[arg], axis, draw(st.sampled_from(fitting)))
            known[arg] = contracts.infer(name, typed, known)[arg]
    assume(contracts.elements(contracts.infer(name, typed, known).values()) <= limit)
    return tuple(known[arg] for arg in contracts.input_names(name))


def _with(shape, axis, size):
    return (*shape[:axis], size, *shape[axis + 1:])


def _fits(name, attrs, known, arg, axis, size, limit):
    found = contracts.infer(name, attrs, {**known, arg: _with(known[arg], axis, size)})
    return found is not None and contracts.elements(found.values()) <= limit


# -- cases -------------------------------------------------------------------------------------------------------
@st.composite
def values(draw, name):
    """Arrays for an operator, and how it is run on them."""
    attrs = draw(attributes(name))
    shape = draw(shapes(name, attrs, empty=draw(st.integers(0, 9)) == 9))
    if "truth" in contracts.input_names(name):
        assume(math.prod(shape[0]) * shape[1][1] <= PAIRS)
        # Rounding decides whether a box of 1e-12 of the image overlaps at all: with an IoU of 1e-25, or of 0.
        assume(all(attrs.get(attr, 1) >= 1e-3 for attr in ("thresh", "ignore_thresh", "truth_thresh")))
    has_labels = bool(contracts.classes(name, contracts.parse(name, attrs), shape))
    return Values(name, attrs, shape, draw(st.sampled_from(contracts.dtypes(name, "T")[::-1])),
                  draw(st.sampled_from(contracts.dtypes(name, "L") or ("float32",))),
                  draw(_specials(max((max(size, default=0) for size in shape), default=0) >= min(LONG))),
                  tuple(draw(st.lists(st.sampled_from(BAD_LABELS), max_size=2, unique=True))) if has_labels else (),
                  draw(st.sampled_from(REQUESTS)), draw(st.booleans()), draw(st.integers(0, 2 ** 32 - 1)))


def _specials(is_long):
    """Now and then some; long sums are most often of few bits, all of whose roundings may go the same way."""
    some = st.lists(st.sampled_from(SPECIALS), max_size=3, unique=True).map(tuple)
    return _mostly(st.sampled_from([(), (FEW_BITS,)]) if is_long else st.just(()), some)


@st.composite
def inference(draw, name):
    """Any subset of the shapes and dtypes, with sizes left out, and once in a while a wrong one.

    Or all shapes, of which one is nearly right: builtin graphs have to refuse that by themselves.
    """
    attrs = draw(attributes(name))
    whole = dict(zip(contracts.input_names(name), draw(shapes(name, attrs))))
    if draw(st.booleans()):
        arg = draw(st.sampled_from(list(whole)))
        return Inference(name, attrs, {**whole, arg: draw(_near(whole[arg]))}, {}, "alone", draw(st.booleans()))
    known = {}
    for arg, shape in whole.items():
        if draw(st.booleans()):
            known[arg] = tuple(UNKNOWN if draw(st.integers(0, 2)) == 2 else size for size in shape)
            if draw(st.integers(0, 14)) == 14:
                known[arg] = tuple(draw(st.lists(st.integers(1, 9), max_size=5)))
    dtypes = {arg: draw(st.sampled_from(contracts.dtypes(name, variable))) for arg, variable
              in contracts.variables(name, contracts.parse(name, attrs)).items() if draw(st.booleans())}
    return Inference(name, attrs, known, dtypes, draw(st.sampled_from(GRAPHS)), draw(st.booleans()))


def _near(shape):
    """Shapes with another size, one more or less, another order, or an axis more or less."""
    places = st.integers(0, max(len(shape) - 1, 0))
    other = st.tuples(places, st.sampled_from([1, 2, 3])).map(
        lambda drawn: _with(shape, drawn[0], {1: 1, 2: 2 * shape[drawn[0]], 3: shape[drawn[0]] + 1}[drawn[1]]))
    order = places.map(lambda place: shape[place:] + shape[:place])
    less = places.map(lambda place: shape[:place] + shape[place + 1:])
    more = places.map(lambda place: (*shape[:place], 1, *shape[place:]))
    return st.one_of(other, other, order, less, more) if shape else more


NUMBERS = [str(edge) for edge in (*EDGES, 2 ** 63, 2 ** 64, 2 ** 64 + 1, 10 ** 30, 3037000500, 65536, 46341, 1 << 20)]
TEXTS = ["", " ", "0", "-0", "-1", "+1", " 3 ", "3 4", "1.0", "1.5", "1e3", "0x10", "010", "1_000", "3L", "--1", "٣",
         "nan", "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e-400", "5e-324", "1e-46", ".5", "5.", "1e",
         "True", "true", "TRUE", "False", "yes", "None", "none", "null", "nullptr", "()", "(", ")", "(1", "(1,)", "(,)",
         "(1,2", "1,2", "[1, 2]", "[1)", "(1, 2, 3, 4, 5, 6, 7, 8, 9)", "(0, 1)", "(-1, 2)", "((1, 2), (3, 4))",
         "(4294967296, 4294967296)", "(9223372036854775807, 2)", "{}", "'1'", "\"1\"", "\t1\n", "1;", "%s%n",
         "(" * 5000, "1" * 5000, "(" + "1, " * 5000 + "1)", "__import__('os')", "DCR ", "dcr"]


# MXNet's operators: those that no graph of them crashes, and all.
HARMLESS = ("null", "Convolution", "BatchNorm", "FullyConnected", "Flatten", "Pooling", "Activation", "softmax", "relu",
            "sigmoid", "tanh", "exp", "_copy", "BlockGrad", "reshape", "Reshape", "transpose", "space_to_depth",
            "broadcast_add", "broadcast_mul", "elemwise_add", "slice", "slice_axis", "tile", "reshape_like", "mean",
            "Concat", "expand_dims", "_identity_with_attr_like_rhs")
REGISTERED = sorted(mx.operator.get_all_registered_operators())
DANGEROUS = [op for op in REGISTERED if re.match("_Native|_NDArray|_CustomFunction|Custom|_backward_|_sg_|_cvim", op)]
OPERATORS = st.one_of(st.sampled_from(HARMLESS), st.sampled_from(DANGEROUS), st.sampled_from(REGISTERED))
PLACES = st.tuples(st.integers(0, 255), st.integers(0, 255)).map(lambda pair: pair[0] << 8 | pair[1])   # all as often


@st.composite
def hostile(draw, name):
    """A graph that nobody who means well wrote."""
    attrs = draw(attributes(name))
    shape = draw(shapes(name, attrs))
    attr = draw(st.sampled_from([*contracts.kinds(name), "unheard_of", "op", "inputs"]))
    text = st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS),
                     st.text("0123456789()[],.-+eE nait_x", max_size=8))
    ours = st.sampled_from([f"gluonops_{op}" for op in contracts.operators()])
    texts = {"op": st.one_of(ours, OPERATORS), "inputs": st.integers(0, 9).map(str)}
    return Hostile(name, attrs, shape, attr, draw(texts.get(attr, text)), draw(PLACES))


# What breaks readers: signs, ends of ranges, nesting, other encodings, numbers that are none, paths that lead out.
BYTES = ["00", "ff", "7f", "80", "0a", "22", "00000000", "ffffffff", "ffffff7f", "00000080", "0000000000000080",
         "ffffffffffffff7f", "00e1f505", "80969800"]
WORDS = [*NUMBERS, "-1", "0", "nan", "inf", "1e400", "1" * 5000, "1e-320", "", " ", "\t", "\x00", "é",
         "null", "true", "[", "]", "{", "}", "=", "0,1", "[" * 5000, "(" * 5000,
         "<a>" * 3000, "&lt;", "<!DOCTYPE a [<!ENTITY b 'c'>]>", "!!python/name:os", "&a [*a]",
         "../../..", "/etc/passwd", "a/b",
         "[convolutional]", "[region]", "size=100000", "groups=7", "stride=0"]


JSON_VALUES = [None, True, -1, 0, 1, 3, 2 ** 31, 2 ** 63, 10 ** 30, 0.5, 1e400, "", "é", "a\nb", "float16", "1" * 5000,
               [], {}, [0, 0, 0], [[]], [[0, -1, 0]], ["a"] * 5000, ["a", 1, None], [1, 1, 6, 6], {"a": None}]
# The values of edits that do not only take bytes; see fuzz_files.EDITS.
VALUES = {
    **dict.fromkeys(("number", "line"), st.sampled_from(WORDS)),
    "op": OPERATORS.map(json.dumps),
    "inputs": st.integers(0, 5).map(str),
    "entry": st.integers(-2, 12).map(str),
    "attr": st.sampled_from([*TEXTS, *NUMBERS]).map(json.dumps),
    "json": st.one_of(st.just(""), st.sampled_from(JSON_VALUES).map(json.dumps)),
    "header": st.text(st.characters(max_codepoint=127), min_size=2, max_size=2),
    "exif": st.integers(0, 9).map(chr),
}


ON_BYTES = ("set", "set", "insert", "remove", "repeat", "cut", "number", "number", "line")
ON_IMAGES = (*ON_BYTES, "header", "header", "exif", "checksums", "checksums")
ON_KIND = {**dict.fromkeys(("jpeg", "png", "rec_jpeg"), ON_IMAGES), "symbol_json": ("op", "inputs", "entry", "attr"),
           **dict.fromkeys(("note_json", "coco_json", "config_json"), ("json",))}


def _edit(what):
    words = VALUES.get(what, st.sampled_from(WORDS)).map(lambda word: word.encode().hex())
    raw = st.one_of(st.sampled_from(BYTES), st.binary(min_size=1, max_size=9).map(bytes.hex))
    return st.tuples(st.just(what), PLACES, words if what in VALUES else st.one_of(raw, words))


def damage(name):
    """One to four edits of a file of this kind, of its bytes alone or those of its kind."""
    whats = st.sampled_from([ON_BYTES, *[ON_KIND.get(name, ON_BYTES)] * 3])
    edits = whats.flatmap(lambda whats: st.lists(st.sampled_from(whats).flatmap(_edit), min_size=1, max_size=4))
    return edits.map(lambda found: Damaged(name, tuple(found)))


@st.composite
def exported(draw, name):
    """A number and inputs at which an operator jumps: multiples of the number are among them."""
    number = draw(st.sampled_from((0.0, 0.5, 0.6, -0.6, 1.0, 2.5, 3.0, -3.0, 0.1, 7.0, 1e-3)))
    return Exported(name, draw(st.sampled_from(("float32", "float64", "int32", "int64", "uint8", "int8"))),
                    draw(st.sampled_from(("onnx", "torch"))), number,
                    draw(st.sampled_from((1.0, 1.0, 0.1, 0.5, 3.0, 1000.0))), draw(st.integers(0, 2 ** 16)))


STRATEGIES = {"values": values, "inference": inference, "hostile": hostile, "damaged": damage, "exported": exported}
