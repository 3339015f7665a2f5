"""The record of a CUDA kernel's arguments: what is one line in a contract, and its use in the kernel."""
import types

import cuda_emulator
import mxnet as mx
import numpy as np
import pytest
from gluonops.contract import registry
from gluonops.contract.op import (
    FLOATS,
    LABELS,
    Arg,
    Array,
    Attr,
    Bool,
    Choice,
    Cuda,
    Float,
    Int,
    Launch,
    Number,
    Numbers,
    Op,
    Optional,
    Out,
    Pairs,
    Shapes,
    each_element,
)
from gluonops.cuda import rtc

FORWARD = "store(args.output, i, load(args.data, i), args.output_request);"
KERNEL = """
struct Pair { double left, right; };

template <typename T, typename L>
__device__ void forward(const ScratchArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < args.size; i += item_step()) {
        FORWARD
    }
}

template <typename T, typename L>
__device__ void backward(const ScratchArgs<T, L> &args)
{
    for (int64_t i = first_item(); i < args.size; i += item_step())
        store(args.data_grad, i, load(args.output_grad, i), args.data_grad_request);
}
"""


@pytest.fixture
def operator(tmp_path, monkeypatch):
    """Declares the operator: operator(attrs, use, cuda) returns a function of data, label and attributes."""
    def declare(attrs=(), use=FORWARD, cuda=None, **more):
        op = Op(
            name="scratch",
            summary="an operator of the tests",
            family="moves",
            inputs=(Arg("data", "T"), Arg("label", "L", gradient=False)),
            outputs=(Out("output", "T", "as data"),),
            attrs=attrs,
            types={"T": FLOATS, "L": LABELS},
            shapes=Shapes(data="batch..., classes", label="batch...", output="batch..., classes"),
            backward=("output_grad",),
            cuda=Cuda(**{"forward": each_element, "backward": each_element, "derived": {"size": "data.size"},
                         **(cuda or {})}),
            **more,
        )
        (tmp_path / "kernel.cu").write_text(KERNEL.replace("FORWARD", use))
        entry = registry.RegisteredOp(op, types.ModuleType("reference"), tmp_path)
        monkeypatch.setitem(registry._ops, "scratch", entry)
        cuda_emulator.install(monkeypatch)

        def run(data, label, dtype="float32", label_dtype="float32", **values):
            inputs = [mx.nd.array(data, dtype=dtype), mx.nd.array(label, dtype=label_dtype)]
            output = mx.nd.zeros_like(inputs[0])
            rtc.launch(rtc.BoundOp.of(op, op.parse(values), inputs), "forward", ("write",), inputs, [output])
            return output.asnumpy()

        run.op = op
        return run

    return declare


DATA, LABEL = np.arange(6.).reshape(2, 3), [4, 1]


def test_an_attribute_is_one_line_and_its_use(operator):
    """Without the line, the kernel does not compile."""
    use = FORWARD.replace("load(args.data, i)", "load(args.data, i) * A(args.gain)")
    run = operator((Attr("gain", Float(above=0), 1.0),), use)
    for dtype in FLOATS:
        np.testing.assert_array_equal(run(DATA, LABEL, dtype, gain=2.5), 2.5 * DATA)
    with pytest.raises(cuda_emulator.EmulatorError, match="no member named .gain"):
        operator((), use)(DATA, LABEL)


def test_a_scratch_array_is_one_line_and_its_use(operator):
    """Each type has one in the same launch; and memory that is kept has what the launch before has left."""
    use = """args.halves[i] = A(load(args.data, i) / 2);
        args.small[i] = 1;
        args.pairs[i].left = args.halves[i];
        args.pairs[i].right = args.small[i];
        args.launches[i] += 1;
        store(args.output, i, A(args.pairs[i].left + args.pairs[i].right + args.launches[i]), args.output_request);"""
    scratch = (Array("halves", "A", "size"), Array("small", "uint16", "size"),
               Array("pairs", "Pair", "size", numbers=2),
               Array("launches", "uint32", "batch * classes", "forward", kept=True))
    for dtype in FLOATS:
        run = operator(use=use, cuda={"scratch": scratch})
        for launches in (1, 2):
            np.testing.assert_array_equal(run(DATA, LABEL, dtype), DATA / 2 + 1 + launches)


def test_a_struct_in_memory_has_room(operator):
    scratch = (Array("pairs", "Pair", "size", numbers=1),)
    with pytest.raises(cuda_emulator.EmulatorError, match="It needs more numbers in its Array"):
        operator(cuda={"scratch": scratch})(DATA, LABEL)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_array_is_as_large_as_it_is_declared(operator, number):
    """A use behind its end is found, in each of several arrays."""
    names = ("first", "second", "third")
    use = f"args.{names[number]}[i + 1] = 0;\n        {FORWARD}"
    scratch = tuple(Array(name, "float64", "size") for name in names)
    with pytest.raises(cuda_emulator.EmulatorError, match=f"writes outside {names[number]}"):
        operator(use=use, cuda={"scratch": scratch})(DATA, LABEL)


KINDS = (Attr("flag", Bool(), True), Attr("kind", Choice("a", "b_c"), "b_c"),
         Attr("skip", Optional(Int()), None), Attr("least", Optional(Float()), None),
         Attr("sizes", Pairs(), (1.0, 2.0)), Attr("weight", Optional(Numbers(0)), None), Attr("place", Int(), 0))
MEMBERS = [
    (1, {}, "args.flag"), (0, {"flag": False}, "args.flag"),
    (1, {}, "args.kind == ScratchKind::BC"), (1, {"kind": "a"}, "args.kind == ScratchKind::A"),
    (0, {}, "args.skip.has_value"), (7, {"skip": 7}, "args.skip.has_value ? args.skip.value : 0"),
    (0, {}, "args.least.has_value"), (0.5, {"least": 0.5}, "args.least.has_value ? args.least.value : 0"),
    (6, {}, "args.sizes.values[1] + 2 * args.sizes.count"), (8, {"sizes": (1, 2, 3, 4)}, "args.sizes.values[3] + 4"),
    (1, {}, "args.weight.of(2)"), (4, {"weight": (1, 2, 4)}, "args.weight.of(2)"),
    (3, {"weight": (3,)}, "args.weight.of(2)"), (7, {"weight": (1, 2, 4)}, "args.weight.sum"),
    (12, {}, "2 * args.batch * args.classes"), (5, {}, "args.label[0] + args.label[1]"), (64, {}, "TILE"),
    (0.5, {}, "args.share"), (1, {}, "args.is_small"), (9, {}, "args.many[0] + args.many[1]"),
    (1, {}, "args.step == args.SECOND"),
]
# One kernel has them all and is compiled once: the attribute says which expression it stores.
CHOSEN = "A value = 0;\n" + "\n".join(f"if (args.place == {place}) value = A({expression});"
                                      for place, (_, _, expression) in enumerate(MEMBERS))


@pytest.mark.parametrize("place, expected, values, expression", [(place, *row) for place, row in enumerate(MEMBERS)])
def test_each_kind_of_member(operator, place, expected, values, expression):
    cuda = {"derived": {"size": "data.size", "share": "batch / 4", "is_small": "classes < 4",
                        "many": Number("int64", count=2)},
            "derive": lambda attrs, shapes: {"many": (4, 5)},
            "steps": ("FIRST", "SECOND"), "forward": lambda args: Launch(1, steps=("SECOND",))}
    run = operator(KINDS, f"{CHOSEN}\nstore(args.output, i, value, args.output_request);", cuda,
                   constants={"TILE": 64}, counts={"weight": "classes"})
    result = run(DATA, LABEL, label_dtype="int32", place=place, **values)
    np.testing.assert_array_equal(result, np.full((2, 3), expected))


def test_sizes_of_groups():
    op = registry.get("softmax").op
    for axis, sizes in ((-1, (6, 4, 1)), (0, (1, 2, 12)), (1, (2, 3, 4))):
        computed = op.dim_sizes(op.parse({"axis": axis}), {"data": (2, 3, 4)})
        assert tuple(computed[name] for name in ("batch", "classes", "inner")) == sizes
    op = registry.get("box_iou").op
    assert op.dim_sizes(op.parse({}), {"lhs": (2, 3, 5, 4), "rhs": (2, 3, 7, 4)}) == {
        "sets": 6, "lhs_boxes": 5, "rhs_boxes": 7}
