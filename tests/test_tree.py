"""The house itself: the same files in every operator's folder, names that agree, and the rules of the code."""
import ast
import functools
import importlib
import inspect
import pathlib
import re

import fresh
import gluonops as gops
import pytest
from gluonops.contract import arguments, registry
from gluonops.cuda import rtc
from gluonops.export.operators import schema
from mxnet.gluon import HybridBlock

PACKAGE = pathlib.Path(gops.__file__).parent
ROOT = PACKAGE.parent
OPS = gops.ops.list()
# The files of an operator's folder.
FILES = {"__init__.py", "contract.py", "reference.py", "kernel.cu", "kernel.cc", "block.py"}


@functools.cache
def parsed(path):
    """Return the syntax tree of a file, which several tests read."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path):
    """Return the nodes of that tree. To walk through it takes longer than to read the file."""
    return list(ast.walk(parsed(path)))


def test_the_operators_of_the_foundation_are_there():
    assert set(OPS) >= {"abs", "reorg", "softmax", "softmax_cross_entropy", "softmax_output", "tile"}


def test_arguments_are_named():
    """``locals()`` would hide from readers and from tools which names a function takes, and which it hands on."""
    files = [path for folder in (PACKAGE, ROOT / "models", ROOT / "examples", ROOT / "docs", ROOT / "tools")
             for path in folder.rglob("*") if path.suffix in (".py", ".md")]
    assert len(files) > 300 and [str(path) for path in files if "locals()" in path.read_text(encoding="utf-8")] == []


def test_tab_completion_shows_public_names():
    assert dir(gops) == sorted(gops.__all__)
    assert all(hasattr(gops, name) for name in dir(gops))


@pytest.mark.parametrize("name", OPS)
class TestOperator:
    def test_files(self, name):
        entry = registry.get(name)
        names = {path.name for path in entry.folder.iterdir() if path.name != "__pycache__"}
        generated = {"kernel.cc", "kernel.cu"} if entry.op.kernels else set()
        assert names - {"record.inl"} == FILES - set(entry.op.unsupported) - generated
        assert all((entry.folder / file).stat().st_size for file in names), "an empty file"

    def test_has_a_suite(self, name):
        folder = ROOT / "tests" / "ops" / name
        assert (folder / f"test_{name}.py").is_file()
        assert (folder / "oracle.py").is_file()

    def test_is_documented(self, name):
        page = importlib.import_module(f"gluonops.ops.{name}.contract").__package__
        page = importlib.import_module(page).__doc__
        assert page.startswith(f"{name}: ") and "\nSources\n-------\n" in page
        doc = inspect.getdoc(getattr(gops.ops, name))
        op = registry.get(name).op
        assert all(f"\n{word}\n" in doc for word in ("Parameters", "Returns", "Raises", "Examples"))
        names = [*[t.name for t in op.inputs + op.attrs], "name"]
        assert all(re.search(rf"^{word} : .+\n    \S", doc, re.M) for word in names)

    def test_function_has_the_contracts_defaults(self, name):
        op = registry.get(name).op
        parameters = inspect.signature(getattr(gops.ops, name)).parameters
        assert list(parameters) == [t.name for t in op.inputs + op.attrs] + ["name"]
        for attr in op.attrs:
            if parameters[attr.name].default is not inspect.Parameter.empty:
                assert parameters[attr.name].default == attr.default

    def test_function_names_its_arguments_in_the_call(self, name):
        """A reader, and a tool that reads the code, follow each name from the function to the contract."""
        op, source = registry.get(name).op, (registry.get(name).folder / "__init__.py").read_text()
        call, = [node for node in ast.walk(ast.parse(source))
                 if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "call"]
        assert [argument.id for argument in call.args] == ["OP", *[arg.name for arg in op.inputs]]
        assert [keyword.arg for keyword in call.keywords] == [*[attr.name for attr in op.attrs], "name"]
        assert all(keyword.value.id == keyword.arg for keyword in call.keywords)

    def test_kernels_take_its_record_and_include_their_family_alone(self, name):
        if registry.get(name).op.cuda is None:
            pytest.skip(registry.get(name).op.unsupported["kernel.cu"])
        folder, named = registry.get(name).folder, registry.get(name).op.kernels
        if named:
            assert all((folder.parent / f"{named.file}{suffix}").is_file() for suffix in (".h", ".cuh"))
            return
        source = (folder / "kernel.cu").read_text()
        kernels = re.findall(r"__device__ void (forward|backward)\(const (\w+)<[TL, ]+> &args\)", source)
        args = f"{arguments.camel(name)}Args"
        assert kernels == [("forward", args), ("backward", args)] and "__global__" not in source
        included = re.findall(r'(?m)^#include "(?:\.\./(_\w+)/\w+\.(?:cuh|inl)|record\.inl)"$', source)
        assert source.count("#include") == len(included)
        assert all((folder.parent / family).is_dir() for family in included)

    def test_has_a_block(self, name):
        blocks = [getattr(room, block) for room in (gops.nn, gops.loss) for block in room.__all__]
        assert any(block.__module__ == f"gluonops.ops.{name}.block" for block in blocks)

    def test_no_shape_is_read_in_a_graph(self, name):
        """forward and hybrid_forward see Symbols, which have no shape."""
        folder = registry.get(name).folder
        for file, function in (("reference.py", "forward"), ("block.py", "hybrid_forward")):
            for node in ast.walk(ast.parse((folder / file).read_text())):
                if isinstance(node, ast.FunctionDef) and node.name == function:
                    read = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                    assert not read & {"shape", "ndim", "size", "dtype", "context"}


def test_op_bodies_never_wait():
    for path in [*(PACKAGE / "ops").rglob("*.py"), PACKAGE / "backends" / "custom.py"]:
        read = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        assert not read & {"asnumpy", "asscalar", "wait_to_read", "waitall"}, path


# Rooms and modules of the package, from the lowest floor to the highest. A file imports from its own room and from
# floors below it.
FLOORS = [{"version"}, {"runtime"}, {"contract"}, {"io"}, {"cuda"}, {"backends"}, {"native"},
          {"ops", "legacy", "optimizer", "convert"}, {"nn", "loss"}, {"darknet", "data", "bench"}, {"export"},
          {"deploy", "files"}, {"train"}, {"models", "commands"}, {"__init__", "__main__"}]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# The public face of a room shows names of a room above it: `gops.export.load` is older than the room `deploy`.
FACES = {"gluonops.export.__init__": "gluonops.deploy."}


@functools.cache
def modules():
    """Return the path of every module of the package, by its full name."""
    paths = [*PACKAGE.rglob("*.py"), *(ROOT / "models").rglob("*.py")]
    names = [("gluonops", *path.relative_to(ROOT if path.is_relative_to(ROOT / "models") else PACKAGE).parts)
             for path in paths]
    return {".".join(name).removesuffix(".py"): path for name, path in zip(names, paths)}


@functools.cache
def imported_names():
    """Return the full names that every module of the package imports, by the module's full name."""
    return {module: list(named(module, nodes(path))) for module, path in modules().items()}


@functools.cache
def arrows():
    """Return the modules that each module of the package imports, anywhere, for type hints or by a string."""
    graph = {module: {own_name(name) for name in names} - {module, None}
             for module, names in imported_names().items()}
    for face, shown in FACES.items():
        graph[face] = {module for module in graph[face] if not module.startswith(shown)}
    return graph


def named(module, nodes_of_module):
    """Yield the full names that a module imports."""
    for node in nodes_of_module:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[:-node.level] if node.level else []
            base = [*package, *(node.module or "").split(".")] if node.module else package
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (text.value for text in node.args if isinstance(text, ast.Constant))


def own_name(name):
    """Return the module of the package that a full name leads to, or None if it is another package's."""
    while name:
        for module in (name, f"{name}.__init__"):
            if module in modules():
                return module
        name = name.rpartition(".")[0]
    return None


def test_nothing_imports_upward():
    upward = []
    for module, imports in arrows().items():
        for other in imports:
            here, there = module.split(".")[1], other.split(".")[1]
            if here != there and FLOOR_OF[there] >= FLOOR_OF[here]:
                upward.append(f"{module} -> {other}")
    assert not upward


def test_no_module_imports_itself_by_way_of_others():
    graph = arrows()
    for module, imports in graph.items():
        reached, pending = set(), set(imports)
        while pending:
            reached |= pending
            pending = {other for name in pending for other in graph[name]} - reached
        assert module not in reached, f"{module} imports itself by way of others"


def test_the_package_imports_nothing_that_is_not_installed():
    outside = {"benchmarks", "docs", "examples", "tests", "tools"}
    assert not [module for module, names in imported_names().items()
                if outside & {name.split(".")[0] for name in names}]


# Words that mean the same everywhere, whichever operator has them for an attribute or a dimension.
GENERAL = {"axis", "batch", "centers", "channels", "eps", "features", "format", "height", "inner", "keep", "kind",
           "layout", "mode", "outer", "parts", "places", "repeated", "rest", "reverse", "seen", "stride", "thresh",
           "width"}


def names_of_operators():
    """Return the names of operators, of their attributes and of their dimensions."""
    ops = [registry.get(name).op for name in OPS]
    attributes = {attr.name for op in ops for attr in op.attrs}
    terms = {term for op in ops for rule in op.rules for pattern in rule.patterns.values() for term in pattern}
    dimensions = {term.name for term in terms if getattr(term, "name", "")}
    return (set(OPS) | attributes | dimensions) - GENERAL - {"abs"}


def words_of_code(path):
    """Return the identifiers of a file, and in Python its strings; not what comments and docstrings say."""
    if path.suffix != ".py":
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.S)
        return set(re.findall(r"[A-Za-z_]\w*", text))
    words = set()
    for node in nodes(path):
        words |= {getattr(node, field) for field in ("id", "attr", "arg", "value")
                  if isinstance(getattr(node, field, None), str)}
    return words


MACHINERY = ("contract", "io", "cuda", "backends", "native")
WRITTEN = [path for room in MACHINERY for path in sorted((PACKAGE / room).rglob("*.*"))
           if path.parent.name != "generated"]


CHEAP = {"getattr", "items", "keys", "range", "values", "vars"}   # what takes as long for many items as for one


def made_anew(nodes_of_file):
    """Yield what comprehensions make for each of their items in order to look for it, and that is always the same."""
    for node in nodes_of_file:
        for loop in getattr(node, "generators", ()):
            own = {name.id for each in node.generators for name in ast.walk(each.target) if isinstance(name, ast.Name)}
            for comparison in (part for condition in loop.ifs for part in ast.walk(condition)):
                if isinstance(comparison, ast.Compare) and isinstance(comparison.ops[0], (ast.In, ast.NotIn)):
                    parts = list(ast.walk(comparison.comparators[0]))
                    called = {getattr(part.func, "attr", getattr(part.func, "id", ""))
                              for part in parts if isinstance(part, ast.Call)}
                    combined = any(isinstance(part, (ast.BitAnd, ast.BitOr, ast.Sub)) for part in parts)
                    is_made = combined or called - CHEAP
                    if is_made and not own & {part.id for part in parts if isinstance(part, ast.Name)}:
                        yield ast.unparse(comparison)


def test_a_comprehension_does_not_make_what_it_looks_in_anew_for_each_item():
    """``name in graph.variables()`` walks through the graph for each of hundreds of parameters."""
    anew = list(made_anew(ast.walk(ast.parse("[x for x in a if x in set(b.c()) and x not in d | e]"))))
    assert anew == ["x in set(b.c())", "x not in d | e"]
    assert not list(made_anew(ast.walk(ast.parse("[x for x in a if 'b' in x.c() and x.d in e and x.d in f.values()]"))))
    assert not [f"{module}: {comparison}" for module, path in modules().items()
                for comparison in made_anew(nodes(path))]


def test_parameters_are_read_as_copies():
    """MXNet stores weights in oneDNN's order in the background, and ``asnumpy`` of a parameter does not wait for it."""
    paths = [path for folder in (PACKAGE, ROOT / "models", ROOT / "examples", ROOT / "benchmarks")
             for path in folder.rglob("*.py")]
    reads = re.compile(r"\b(list_)?data\([^()]*(\(\)[^()]*)?\)(\[\w+\])?\.asnumpy\(")
    assert reads.search("p.data(p.list_ctx()[0]).asnumpy()") and reads.search("p.list_data()[0].asnumpy()")
    assert not [str(path) for path in paths if reads.search(path.read_text(encoding="utf-8"))]


def test_lines_of_the_kernels_have_at_most_120_columns():
    """Those of Python are Ruff's."""
    sources = [path for room in (PACKAGE, ROOT / "tests") for path in room.rglob("*")
               if path.suffix in (".cc", ".h", ".inl", ".cu", ".cuh") and path.parent.name != "generated"]
    assert len(sources) > 100
    assert not [(path, number) for path in sources
                for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]


def test_the_machinery_knows_no_operator():
    """It has neither its name, nor that of an attribute or a dimension of one."""
    names = names_of_operators()
    for path in WRITTEN:
        if path.suffix in (".py", ".cuh", ".h", ".cc", ".inl"):
            assert not words_of_code(path) & names, path


PRIMITIVES = [PACKAGE / "cuda" / "prelude.cuh", PACKAGE / "cuda" / "math.cuh",
              *[path for path in WRITTEN if path.suffix == ".h"]]
DIMENSIONS = {"anchors", "batch", "channels", "classes", "features", "truths"}
# Words that an operator has in common with every tensor or image, or with C++ itself.
COMMON_WORDS = {"abs", "data", "output", "format", "gradient", "label", "max", "axis", "height", "width", "rstd"}


@pytest.mark.parametrize("path", PRIMITIVES, ids=lambda path: path.name)
def test_primitives_of_the_kernels_know_no_operator(path):
    """They have neither its name nor that of an attribute, a tensor or a dimension, in code and in comments."""
    words_of_operators = set(OPS) | DIMENSIONS
    for name in OPS:
        op = registry.get(name).op
        words_of_operators |= {item.name for item in op.tensors + op.attrs}
    text = path.read_text()
    used = words_of_operators.intersection(re.findall(r"[A-Za-z_]\w*", text)) - COMMON_WORDS
    assert not used
    assert not re.findall(r'#include "[^"]*/_', text), "a primitive includes nothing from a family"


def test_no_reference_uses_what_mxnet_computes_wrongly():
    """Those of docs/wrong_gradients.md. A builtin graph would compute them wrongly as well."""
    wrong = {"BilinearResize2D", "LeakyReLU", "Pooling", "RNN", "batch_take", "norm", "prod"}
    for path in (PACKAGE / "ops").glob("*/reference.py"):
        attributes = [node for node in nodes(path) if isinstance(node, ast.Attribute)]
        used = {node.attr for node in attributes if ast.unparse(node.value).split(".")[0] in ("F", "nd")}
        assert not used & wrong, path
        sorts = [call for call in nodes(path) if isinstance(call, ast.Call)
                 and ast.unparse(call.func) in ("F.sort", "nd.sort")]
        assert all("axis" in [keyword.arg for keyword in call.keywords] for call in sorts), path



@pytest.mark.parametrize("module", ["gluonops", "gluonops.ops", "gluonops.nn", "gluonops.loss", "gluonops.export",
                                    "gluonops.models", "gluonops.data", "gluonops.darknet", "gluonops.legacy",
                                    "gluonops.train", "gluonops.files"])
def test_all_is_explicit_and_true(module):
    room = importlib.import_module(module)
    assert sorted(set(room.__all__)) == sorted(room.__all__)
    assert all(inspect.getdoc(getattr(room, name)) or name == "__version__" for name in room.__all__)
    for word in ("nn", "loss"):
        if module.endswith(word):
            classes = {name for name, value in vars(room).items() if inspect.isclass(value)}
            assert set(room.__all__) - {"for_numpy", "replace"} == classes


@pytest.mark.parametrize("room", [gops.nn, gops.loss], ids=lambda room: room.__name__)
def test_a_line_of_the_catalogue_exports_a_block(room):
    """``import X as X`` is what type checkers take as an export; ``import *`` gives the same names."""
    imports = [node for node in ast.parse(pathlib.Path(room.__file__).read_text()).body
               if isinstance(node, ast.ImportFrom)]
    assert all(len(node.names) == 1 and node.names[0].asname == node.names[0].name for node in imports)
    starred = {}
    exec(f"from {room.__name__} import *", starred)
    assert sorted(set(starred) - {"__builtins__"}) == sorted(node.names[0].name for node in imports)
    assert all(issubclass(starred[node.names[0].name], HybridBlock) for node in imports
               if node.names[0].name not in ("for_numpy", "replace"))


# Where graphs of MXNet are read. Elsewhere the same words are of Darknet's files, or of attributes.
ROOMS_OF_GRAPHS = ("export", "deploy", "files", "data", "train")
# How lists begin that only look like lists of operators: parameters of a batch norm, classes in a written net.py, and
# words of the trait ``acts_as``.
OTHER_WORDS = {("gamma", "beta", "mean", "variance"), ("nn.Conv", "nn.ConvTranspose", "BatchNorm", "nn.Linear"),
               ("reshape", "broadcast", "fill", "arange")}


def lists_of_operators(nodes_of_file):
    """(line, names) of the lists, sets and dicts that name two or more of MXNet's operators."""
    for node in nodes_of_file:
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            names = [word for word in words if word in schema.names()]
            if len(names) > 1 and tuple(words[:4]) not in OTHER_WORDS:
                yield node.lineno, names


def test_operators_of_mxnet_are_listed_beside_their_functions_alone():
    """A list elsewhere is a trait that is missing: five lists once said what has weights, and disagreed."""
    assert list(lists_of_operators(ast.walk(ast.parse("X = {'relu': 1, 'tanh': 2, 'x': 3}; Y = ('relu', 'x')")))) == [
        (1, ["relu", "tanh"])]
    paths = [path for room in ROOMS_OF_GRAPHS for path in (PACKAGE / room).rglob("*.py")
             if PACKAGE / "export" / "operators" not in path.parents]
    found = {path.name: list(lists_of_operators(nodes(path))) for path in paths}
    assert len(paths) > 100 and {name: lists for name, lists in found.items() if lists} == {}


def typed_defaults(nodes_of_file):
    """(line, attribute) where an attribute of MXNet's operators is read with a default that is typed there."""
    operators = [schema.find(name) for name in schema.names()]
    names = {name for operator in operators if not operator.open for name in operator.attributes}   # Custom is open.
    for node in nodes_of_file:
        is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
        if is_get and len(node.args) == 2 and "attr" in ast.unparse(node.func.value):
            name, default = node.args
            if isinstance(name, ast.Constant) and name.value in names and isinstance(default, ast.Constant):
                yield node.lineno, name.value


def test_defaults_of_mxnet_are_those_of_the_schema():
    """``attributes_of(node)`` has them, parsed. 252 of them were once typed into 30 files."""
    example = "x.attrs.get('axis', 1); attributes_of(x).get('axis', 1); x.attrs.get('axis'); sizes.get('axis', 1)"
    assert list(typed_defaults(ast.walk(ast.parse(example)))) == [(1, "axis"), (1, "axis")]
    paths = [path for room in ROOMS_OF_GRAPHS for path in (PACKAGE / room).rglob("*.py")]
    found = {path.name: list(typed_defaults(nodes(path))) for path in paths}
    assert len(paths) > 100 and {name: reads for name, reads in found.items() if reads} == {}


def test_source_says_what_it_is():
    for path in (path for room in ("gluonops", "models", "examples", "benchmarks", "tools")
                 for path in (ROOT / room).rglob("*.py")):
        text = path.read_text()
        assert ast.get_docstring(parsed(path)), f"{path}: no docstring"
        assert "pickle" not in text, path


def test_package_data_is_installed():
    assert (PACKAGE / "cuda" / "prelude.cuh").is_file()
    assert all((registry.get(name).folder / "kernel.cu").is_file() for name in rtc.operators()
               if registry.get(name).op.kernels is None)
    families = [path.name for path in (PACKAGE / "ops").glob("_[a-z]*") if path.is_dir()]
    assert families and all((PACKAGE / "ops" / family / "__init__.py").is_file() for family in families)


def functions(body, owner=""):
    """(name, node) of the public functions and methods, and of constructors; not of functions inside functions."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            yield owner + node.name, node


def without_hints(node):
    """Return the arguments without a type hint, and "return" for the result; ``*args`` and ``**kwargs`` need none."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    missing = [argument.arg for argument in arguments if argument.annotation is None]
    if node.returns is None and node.name != "__init__":
        missing.append("return")
    return [name for name in missing if name not in UNTYPED]


# F and nd are mx.nd or mx.sym; attrs and args are an operator's own: a tuple, and the numbers of its record.
UNTYPED = ("self", "cls", "F", "nd", "attrs", "args")
TYPED = [*PACKAGE.rglob("*.py"), *(ROOT / "models").glob("*.py"), *(ROOT / "tools").glob("*.py")]


def test_public_functions_have_type_hints():
    missing = {}
    for path in TYPED:
        for name, node in functions(parsed(path).body):
            is_callback = name.endswith(".hybrid_forward") or (path.name == "reference.py" and name == "backward")
            if without_hints(node) and not is_callback:   # MXNet or the emitter calls them
                missing[f"{path.relative_to(ROOT)}: {name}"] = without_hints(node)
    assert not missing


def test_importing_gluonops_imports_what_a_net_needs():
    """Other parts of it are imported when they are used first, and MXNet keeps its functions."""
    heavy = {"PIL", "gluoncv", "matplotlib", "onnx", "pycocotools", "tensorboardX", "tqdm", "yaml"}
    lazy = {"gluonops.darknet", "gluonops.data", "gluonops.export", "gluonops.models", "gluonops.train"}
    code = f"""
import sys
import mxnet as mx
functions = [value for space in (mx.nd, mx.sym) for value in vars(space).values() if callable(value)]
modules = set(sys.modules)
import gluonops
print(sorted({heavy | lazy} & (set(sys.modules) - modules)))
now = {{id(value) for space in (mx.nd, mx.sym) for value in vars(space).values()}}
print([function.__name__ for function in functions if id(function) not in now])
gluonops.train.Run
print(sorted({heavy} & (set(sys.modules) - modules)))
"""
    done = fresh.python("-c", code)
    assert done.stdout.splitlines() == ["[]", "[]", "[]"], done.stdout + done.stderr
