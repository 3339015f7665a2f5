"""Stands in for ``mx.rtc.CudaModule``: compiles the very source for the CPU (``emulator.h``) and launches it there.

``install(monkeypatch)`` makes a CustomOp on a CPU context run its CUDA kernels. What CUDA would let pass or answer with
garbage raises an :class:`EmulatorError` here: a signature that is not what the kernel declares, threads that miss a
barrier, an access outside a tensor or a shared array, a write to what is only read, a launch without an end.
"""
import ctypes
import fcntl
import functools
import hashlib
import itertools
import math
import os
import pathlib
import re
import shutil
import subprocess

import mxnet as mx
import pytest
from gluonops.contract import registry
from gluonops.cuda import rtc
from gluonops.native import build
from gluonops.runtime import driver

HERE = pathlib.Path(__file__).parent
ADDRESSES = os.environ.get("GLUONOPS_CUDA_SANITIZE") == "1"   # the process needs libasan preloaded: make cuda-sanitize
# The compiler takes longer than the kernels: it optimizes little, and does not look for what it would warn of, because
# nobody reads that. Only AddressSanitizer reports lines from the debug information.
FLAGS = ["-std=c++17", "-Og", "-w", "-fPIC", "-fvisibility=hidden", "-fno-sanitize-recover=all",
         "-fno-gnu-unique",   # else two libraries with a kernel of the same name share its variables
         "-fsanitize=alignment,bounds,shift,integer-divide-by-zero,signed-integer-overflow,float-cast-overflow",
         *(["-g1", "-fsanitize=address"] if ADDRESSES else [])]
OPTIMIZED = "-O1"   # the emulator itself, which is compiled once
COUNTED = "-fsanitize-coverage=trace-pc"   # kernels report every branch, so that an endless launch is ended

# The prelude's instructions, in C++.
INSTRUCTIONS = {'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));': "bits = float_to_half(x);",
                'asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));': "x = half_to_float(bits);",
                'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));': "power = exp2f(x);",
                'asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(exponent) : "f"(x));': "exponent = log2f(x);",
                'asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));': "near = 1 / x;"}
SCALARS = {"int": ctypes.c_int, "int64_t": ctypes.c_longlong, "double": ctypes.c_double, "float": ctypes.c_float}

cache = None    # the folder of what is compiled; conftest.py sets it
# The steps of a launch that does not end: branches of all threads, and switches between them (see emulator.cc).
MOST_STEPS = 1 << 29
launches = []   # (kernel, grid, block) of what was launched since `install`
_seeds = itertools.count(1)
_shared = {}    # modules and kernels of the operators, which all tests of a process share


class EmulatorError(RuntimeError):
    """What a GPU would not have said so clearly."""


def translate(source):
    """CUDA -> C++ with ``emulator.h`` in front of it."""
    for instruction, function in INSTRUCTIONS.items():
        assert source.count(instruction) == 1, instruction
        source = source.replace(instruction, function)
    numbers = itertools.count()
    source = re.sub(r"__syncthreads\(\);", lambda _: f"__syncthreads({next(numbers)});", source)
    # One site per instance of a template, as in CUDA.
    return re.sub(r"__shared__ ([\w:<> ]+?) (\w+)((?:\[[^\]]+\])*);",
                  r"static const int \2_site = emulator::new_site(); "
                  r"\1 (&\2)\3 = emulator::shared<\1\3>(\2_site);", source)


def program(source, exports):
    """Return the C++ program: the header, the kernels in a namespace, and a table of them."""
    entries = "\n".join(f'    emulator::Entry<{name}>::named("{name}"),' for name in exports)
    return f"""#include "{HERE / 'emulator.h'}"
namespace device {{
{translate(source)}
#line 1 "table"
}}
SPELLED(device::__half, "__half")
namespace device {{
static constexpr emulator::Kernel kernels[] = {{
{entries}
}};
}}
const emulator::Kernel *emulator::kernels = device::kernels;
const int emulator::kernel_count = {len(exports)};
"""


def compiler():
    """Return the command of a C++ compiler; a test is skipped where there is none."""
    try:
        return build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))


def compiled(command, text):
    """Return the file that this command makes of a program: made once by all processes that share the cache."""
    everything = [command, text, [(HERE / name).read_text() for name in ("emulator.h", "emulator.cc", "fiber.h")]]
    name = hashlib.sha256(repr(everything).encode()).hexdigest()[:24]
    path, part = cache / name, cache / f"{name}.part"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # In a thread of MXNet's engine a process may be spawned, but not forked: an absolute path and open files
            # are what Python 3.9 needs for that.
            absolute = [shutil.which(command[0]) or command[0], *command[1:]]
            done = subprocess.run([*absolute, "-o", part, "-x", "c++", "-"], input=text, text=True, capture_output=True,
                                  check=False, close_fds=False)
            if done.returncode:
                raise EmulatorError(f"{command[0]} refuses the kernels:\n{done.stderr[:4000]}")
            os.replace(part, path)
    return path


@functools.cache
def library(source, exports):
    """Return the compiled program, loaded."""
    command = [*compiler(), *FLAGS]
    runtime = compiled([*command, OPTIMIZED, "-c"], f'#include "{HERE / "emulator.cc"}"')
    path = compiled([*command, COUNTED, "-shared", "-Wl,--as-needed", str(runtime)], program(source, exports))
    loaded = ctypes.CDLL(str(path))
    loaded.declared.restype = ctypes.POINTER(ctypes.c_char_p)
    return loaded


def instances(exports):
    """Return every instance of the kernels of ``exports`` whose labels are float32: an operator is compiled once.

    Instances for other labels are compiled when a test needs them.
    """
    name = exports[0].split("<")[0].rsplit("_", 1)[0]
    if "<" not in exports[0] or name not in registry.entries():
        return tuple(exports)
    op = registry.get(name).op
    names = tuple(rtc.export_name(op, direction, types) for types in rtc.type_combinations(op)
                  if {dtype for variable, dtype in types.items() if variable != "T"} <= {"float32"}
                  for direction in ("forward", "backward"))
    return names if set(exports) <= set(names) else tuple(exports)


class CudaModule:
    """``mx.rtc.CudaModule``, whose kernels run on the CPU."""
    left_out = -1   # the number of a barrier in the source at which no thread waits

    def __init__(self, source, options=(), exports=()):
        self.exports = tuple(exports)
        self.source = source
        self.library = library(source, instances(self.exports))

    def get_kernel(self, name, signature):
        if name not in self.exports:
            raise EmulatorError(f"{name} is not among the exports {self.exports}")
        return CudaKernel(self, name, signature)


class Argument(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("role", ctypes.c_int64)]


class Rules(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("most_steps", ctypes.c_uint64), ("left_out", ctypes.c_int64)]


SCALAR, READ, KEPT, WRITTEN, ADDED_TO = range(5)


class CudaKernel:
    """``mx.rtc.CudaKernel``: checks its signature against what the kernel declares."""

    def __init__(self, module, name, signature):
        self.module, self.name = module, name
        parts = [re.fullmatch(r"(.+?)(\w+)", part).groups() for part in signature.split(", ")]
        self.types, self.names = [kind.strip() for kind, _ in parts], [name for _, name in parts]
        said = [kind.replace("int32_t", "int") for kind in self.types]
        count = ctypes.c_int()
        declared = module.library.declared(name.encode(), ctypes.byref(count))
        declared = [declared[i].decode() for i in range(count.value)]
        if said != declared:
            raise EmulatorError(f"{name} declares ({', '.join(declared)}), its signature says ({', '.join(said)})")
        kernel = name.split("<")[0]
        bound = re.search(rf"__launch_bounds__\((\d+).*\) {kernel}\(", module.source)
        self.most_threads = int(bound.group(1)) if bound else 1024
        self.kept = kept_memory(kernel)
        self.last_step = math.inf

    def launch(self, args, ctx, grid_dims, block_dims, shared_mem=0):
        if len(args) != len(self.types):
            raise EmulatorError(f"{self.name} takes {len(self.types)} arguments and got {len(args)}")
        if not 1 <= math.prod(block_dims) <= self.most_threads or min(grid_dims) < 1 or max(grid_dims[1:]) > 65535:
            raise EmulatorError(f"{self.name} cannot be launched with grid {grid_dims} and block {block_dims}")
        by_name = dict(zip(self.names, args))
        # A later step of a pass goes on with what the steps before it wrote. All other memory that a kernel writes is
        # NaN before.
        goes_on = by_name.get("step", 0) > self.last_step
        self.last_step = by_name.get("step", math.inf)
        keep_alive, arguments = [], (Argument * len(args))()
        for slot, kind, name, value in zip(arguments, self.types, self.names, args):
            if "*" not in kind:
                scalar = SCALARS[kind](value)
                keep_alive.append(scalar)
                slot.data, slot.role = ctypes.addressof(scalar), SCALAR
                continue
            read = kind.startswith("const ")
            c_type = kind.replace("const ", "").rstrip("* ")
            if rtc.C_TYPES[value.dtype.__name__] != c_type:
                raise EmulatorError(f"{self.name} takes {c_type} for {name} and got {value.dtype.__name__}")
            slot.data, slot.bytes = pointer(value), value.size * value.dtype().itemsize
            request = by_name.get(f"{name}_request", rtc.REQUESTS["write"])
            if name in self.kept:   # zeros, or what a launch before has left there
                request = rtc.REQUESTS["add"]
            if goes_on and request == rtc.REQUESTS["write"]:
                request = rtc.REQUESTS["add"]
            slot.role = READ if read else {0: KEPT, 1: WRITTEN, 2: ADDED_TO}[request]
        error = ctypes.create_string_buffer(2000)
        self.module.library.launch(
            self.name.encode(), arguments, len(args),
            (ctypes.c_char_p * len(args))(*(name.encode() for name in self.names)), (ctypes.c_uint * 3)(*grid_dims),
            (ctypes.c_uint * 3)(*block_dims), ctypes.byref(Rules(next(_seeds), MOST_STEPS, self.module.left_out)),
            error, ctypes.c_size_t(len(error)))
        launches.append((self.name, grid_dims, block_dims))
        if error.value:
            raise EmulatorError(f"{self.name}: {error.value.decode()}")


def kept_memory(kernel):
    """Return the names of the memory that a kernel finds as the launch before has left it."""
    entry = registry.entries().get(kernel.rsplit("_", 1)[0])
    return {array.name for array in entry.op.cuda.scratch if array.kept} if entry else set()


class Start:
    """``rtc.Start`` for these kernels: launches with Python's numbers."""

    def __init__(self, kernel, context, grid, block, numbers):
        self.kernel, self.rest, self.numbers = kernel, (context, grid, block), numbers

    def __call__(self, arrays):
        self.kernel.launch([*arrays, *self.numbers], *self.rest)


def pointer(array):
    """Return the address of an NDArray's elements, after all pending reads and writes."""
    array.wait_to_read()
    mx.base.check_call(mx.base._LIB.MXNDArrayWaitToWrite(array.handle))
    data = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(data)))
    return data.value


def shared(function):
    """Return a function of an operator's name that keeps its results for all tests of this process.

    To read and join the source of an operator takes 8 ms. Another operator of the same name has other results.
    """
    @functools.wraps(function)
    def call(op_name, *arguments):
        entry = registry.get(op_name)
        key = function, instances, id(entry), arguments
        if key not in _shared:
            _shared[key] = entry, function(op_name, *arguments)
        return _shared[key][1]
    return call


def install(monkeypatch, module=CudaModule):
    """CustomOps run their CUDA kernels, here; a kernel that cannot be had is an error and not a fallback."""
    compiler()
    launch = rtc.launch

    def launch_or_fail(*args):
        if not launch(*args):
            raise EmulatorError("there is no kernel; mx.nd would compute")
        return True

    monkeypatch.setattr(mx.rtc, "CudaModule", module)
    monkeypatch.setattr(rtc, "usable", lambda context: True)
    monkeypatch.setattr(rtc, "launch", launch_or_fail)
    monkeypatch.setattr(rtc, "Start", Start)
    kept = shared if module is CudaModule else functools.cache
    monkeypatch.setattr(rtc, "_module", kept(rtc._module.__wrapped__))
    monkeypatch.setattr(rtc, "_kernel", kept(rtc._kernel.__wrapped__))
    monkeypatch.setattr(rtc, "_bound_op", functools.cache(rtc.BoundOp))
    monkeypatch.setattr(rtc, "_failed", {})
    monkeypatch.setattr(driver, "make_current", lambda device: None)
    launches.clear()
