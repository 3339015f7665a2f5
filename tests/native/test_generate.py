"""The C++ that is written from the contracts."""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from gluonops.contract import registry
from gluonops.native import build

PACKAGE = pathlib.Path(build.__file__).parents[1]
GENERATE = PACKAGE / "native" / "generate.py"

CONTRACT = '''
from ...contract.op import (
    FLOATS, Arg, Array, Attr, Bool, Choice, Float, Indices, Int, Kernels, Number, Numbers, Op, Optional, Out, Refused,
    Shapes)

OP = Op(
    name="scratch",
    summary="an operator of the tests",
    family="moves",
    inputs=(Arg("data", "T"), Arg("label", "L", gradient=False, values=Indices("n"))),
    outputs=(Out("output", "T", "as data"),),
    attrs=(Attr("axis", Int(), -1), Attr("flag", Bool(), True), {more}),
    types={{"T": FLOATS, "L": FLOATS}},
    shapes=Shapes(data="batch..., n@axis, inner...", label="batch..., inner...",
                  output="batch..., n * {factor}, inner..."),
    {record}
    refused=(Refused("axis == 7 and flag", "axis is {{axis}}", "Choose another"),),
    backward=("output_grad",),
    cuda=None,
)
'''

KERNEL = """
#include "generated/scratch.h"

namespace gluonops {
namespace GLUONOPS_ISA {
namespace {
template <typename T> void forward(const ScratchArgs<T> &args) { {use} }
template <typename T> void backward(const ScratchArgs<T> &) {}
}  // namespace
}  // namespace GLUONOPS_ISA
{derive}
}  // namespace gluonops
"""


def load():
    spec = importlib.util.spec_from_file_location("generate", GENERATE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    """A package of one operator, which the modules of the contract's room declare."""
    root = tmp_path / "package"
    (root / "ops" / "scratch").mkdir(parents=True)
    shutil.copytree(PACKAGE / "contract", root / "contract", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def declare(package, more="", factor="1", record="", use="", derive=""):
    """Write the operator: further attributes, derived numbers or memory, and what its kernel does with them."""
    path = package / "ops" / "scratch" / "contract.py"
    path.write_text(CONTRACT.format(more=more, factor=factor, record=record))
    path.with_name("kernel.cc").write_text(KERNEL.replace("{use}", use).replace("{derive}", derive))
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def test_it_needs_python_alone(tmp_path):
    """Neither MXNet nor NumPy nor an installed gluonops: -I and -S leave all of them out of reach.

    Each operator is in one of the files that are compiled.
    """
    done = subprocess.run([sys.executable, "-I", "-S", str(GENERATE), str(tmp_path / "generated")], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    kernels = {name for name, entry in registry.entries().items() if "kernel.cc" not in entry.op.unsupported}
    units = list((tmp_path / "generated").glob("kernels?.cc"))
    assert {path.name for path in (tmp_path / "generated").iterdir()} - {path.name for path in units} == {
        "operators.cc", *[f"{name}.{suffix}" for name in kernels for suffix in ("h", "cc")]}
    included = re.findall(r'"generated/(\w+)\.cc"', "".join(path.read_text() for path in units))
    assert len(units) > 1 and sorted(included) == sorted(kernels)


def test_what_does_not_change_is_left_alone(package, tmp_path):
    declare(package)
    folder, generate = tmp_path / "generated", load().generate
    source, = generate(folder, package)
    before = source.stat().st_mtime_ns
    (folder / "gone.cc").touch()
    assert generate(folder, package) == [source]
    assert source.stat().st_mtime_ns == before and not (folder / "gone.cc").exists()


def test_an_attribute_is_declared_once(package, tmp_path):
    """Parsing, its range, its default and its message follow; so do shapes that it takes part in."""
    more = ('Attr("times", Int(1), 2), Attr("slope", Float(above=0), 0.5), '
            'Attr("kind", Choice("a", "b_c"), "b_c"), Attr("skip", Optional(Int()), None), '
            'Attr("least", Optional(Float(low=0)), 1.5)')
    declare(package, more, "times")
    source, = load().generate(tmp_path / "generated", package)
    header = source.with_name("scratch.h").read_text()
    for line in ("int64_t times = 2;", "double slope = 0.5;",
                 "struct ScratchKind { enum Value { A, BC }; };",
                 "ScratchKind::Value kind = ScratchKind::BC;", "std::optional<int64_t> skip;",
                 "std::optional<double> least = {1.5};"):
        assert line in header
    text = source.with_name("operators.cc").read_text()
    for line in ('attrs.times = node_attributes.get("times", attrs.times, "an integer of at least 1", Int{1});',
                 'attrs.slope, "a finite number above 0", Float{-INFINITY, 0.0, INFINITY});',
                 'attrs.kind = node_attributes.get("kind", attrs.kind, "\'a\' or \'b_c\'", Choice{{"a", "b_c"}});',
                 'attrs.skip = node_attributes.get("skip", attrs.skip, "None or an integer", OrNone{Int{}});',
                 '"None or a finite number of at least 0", OrNone{Float{0.0, -INFINITY, INFINITY}});',
                 'named("n", "n * times", factor(NAME, "times", Wide(attrs.times)), {})'):
        assert line in text


def compile_unit(package, folder, with_registrations=False):
    """Return what the compiler says about the kernels, which need nothing of MXNet, and about what MXNet asks for.

    The latter takes two seconds, and depends on attributes and shapes alone.
    """
    source, = load().generate(folder, package)
    try:
        compiler = build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    include = ["-I", str(package), *build.includes(source)]
    command = [*compiler, *build.FLAGS, "-fsyntax-only", "-DGLUONOPS_ENTRY", *include]
    compiled = [[source]]
    if with_registrations:
        compiled.append(["-isystem", build.find_mxnet() / "include", source.with_name("operators.cc")])
    done = [subprocess.run([*command, *arguments], text=True, capture_output=True, check=False)
            for arguments in compiled]
    return "".join(each.stderr for each in done)[:3000]


def test_an_attribute_reaches_the_kernel_from_one_line(package, tmp_path):
    """The line in the contract, and its use in the kernel, under the same name."""
    use = """
        static_assert(std::is_same<decltype(args.times), int64_t>::value);
        static_assert(std::is_same<decltype(args.least), Optional<double>>::value);
        static_assert(std::is_same<decltype(args.share), Weights<typename ScratchArgs<T>::A>>::value);
        if (args.kind == ScratchKind::BC && args.flag)
            args.output[0] = args.data[args.batch * args.n * args.inner * args.axis];"""
    more = ('Attr("times", Int(1), 2), Attr("least", Optional(Float(low=0)), 1.5), '
            'Attr("kind", Choice("a", "b_c"), "b_c"), Attr("share", Optional(Numbers(0)), None)')
    declare(package, more, "times", 'counts={"share": "n"},', use)
    assert compile_unit(package, tmp_path / "generated", with_registrations=True) == ""


def test_a_scratch_array_and_a_derived_number_are_declared_once(package, tmp_path):
    record = """derived={"area": "batch * inner // 2", "mean": "1 / n if flag else 0.5", "whole": Number("bool")},
    constants={"TILE": 64},
    scratch=(Array("sums", "A", "area * TILE + data.size"), Array("first", "int64", "n", "forward"),
             Array("pairs", "Pair<A>", "n")),"""
    use = """
        typedef typename ScratchArgs<T>::A A;
        static_assert(std::is_same<decltype(args.mean), A>::value && TILE == 64);
        if (args.whole)
            args.sums[args.area] = A(args.first[0]) * args.mean * args.pairs[0].right;"""
    derive = """template <typename T>
void derive(const ScratchAttrs &attrs, Arrays inputs, ScratchArgs<T> &args) { args.whole = attrs.axis == args.n; }"""
    declare(package, record=record, use=use, derive=derive)
    (package / "ops" / "scratch" / "record.inl").write_text("template <typename A> struct Pair { A left, right; };")
    assert compile_unit(package, tmp_path / "generated") == ""
    text = (tmp_path / "generated" / "scratch.cc").read_text()
    for line in ("args.area = (args.batch * args.inner) / 2;",
                 "args.mean = A(attrs.flag ? (double(1) / double(args.n)) : 0.5);",
                 "args.sums = memory.zeros<A>((args.area * TILE) + inputs[0].size());"):
        assert line in text


def test_a_contract_names_the_kernels_of_its_family(package, tmp_path):
    """There is no ``kernel.cc``: the call that the contract names is the kernel, with the text that has its struct."""
    declare(package, record='kernels=Kernels("_family/twice", "twice(args, Of())", "nothing(args)", '
                            '"_family/formula.inl"),')
    (package / "ops" / "scratch" / "kernel.cc").unlink()
    (package / "ops" / "_family").mkdir()
    (package / "ops" / "_family" / "formula.inl").write_text("struct Of {};\n")
    (package / "ops" / "_family" / "twice.h").write_text("""
namespace gluonops::GLUONOPS_ISA {
template <template <typename> class Args, typename T, typename Formula>
void twice(const Args<T> &args, const Formula &) { args.output[0] = args.data[0]; }
template <template <typename> class Args, typename T> void nothing(const Args<T> &) {}
}
""")
    assert compile_unit(package, tmp_path / "generated") == ""


def test_a_contract_names_the_types_with_kernels_for_avx512(package, tmp_path):
    declare(package, record='avx512=("float32", "float64"),')
    source, = load().generate(tmp_path / "generated", package)
    text = source.with_name("scratch.cc").read_text()
    others = re.search("#ifndef GLUONOPS_AVX512\n(.*?)#endif", text, re.S).group(1)
    assert re.findall(r"ScratchArgs<(\w+)>", others) == ["Half"]
    assert "if constexpr (std::is_same<T, float>::value || std::is_same<T, double>::value)" in text
    assert "-DGLUONOPS_AVX512" in build.ISAS["avx512"]
    assert compile_unit(package, tmp_path / "generated") == ""


@pytest.mark.parametrize("record, message", [
    ('derived={"area": "batch * many"},', "'many' is neither an attribute nor a number"),
    ('derived={"later": "area", "area": "batch"},', "'area' is neither"),
    ('derived={"half": "0.5 // n"},', "divides numbers that are not whole"),
])
def test_a_number_that_cannot_be_derived_is_refused(package, tmp_path, record, message):
    declare(package, record=record)
    with pytest.raises(ValueError, match=f"scratch: .*{message}"):
        load().generate(tmp_path / "generated", package)


@pytest.mark.parametrize("more", [
    'Attr("names", type("Names", (), {"takes_tuples": False})(), 1)',
    'Attr("x", Optional(type("Names", (), {"expected": "", "type": "", "takes_tuples": False})()), None)'])
def test_a_kind_without_a_form_in_cpp_is_refused(package, tmp_path, more):
    declare(package, more)
    with pytest.raises(ValueError, match="C\\+\\+"):
        load().generate(tmp_path / "generated", package)
