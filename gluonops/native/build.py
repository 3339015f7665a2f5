"""Builds the C++ library, ``gluonops/native/libgluonops.so``: ``python -m gluonops.native.build``.

``generate.py`` first writes the C++ that follows from the contracts into ``gluonops/native/generated``. This file
imports neither gluonops nor MXNet, so that ``setup.py`` can run it as a file.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import importlib.util
import os
import pathlib
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

__all__ = ["BuildError", "build"]

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
LIBRARY = HERE / "libgluonops.so"
GENERATED = HERE / "generated"
STAMP = runpy.run_path(str(PACKAGE / "backends" / "stamp.py"))
SOURCES = (".cc", ".h", ".inl")
MXNET = HERE / "mxnet"        # the ABI of libmxnet
PATCHES = HERE / "patches"    # what replaces a part of MXNet
COMPILERS = ("g++", "clang++", "c++")

# There is no -ffast-math, because it does not honour NaN. With -O2 some kernels take 1.2 to 2.5 times as long.
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Wno-psabi",
         "-Wno-unused-parameter", "-Wno-ignored-attributes", "-Wno-maybe-uninitialized", "-Wno-uninitialized",
         "-Wno-unknown-warning-option"]   # the last for clang, which lacks some of the others
# -Bsymbolic: libmxnet.so exports the classes of lib_api.h too, from another compiler. In a program that is linked with
# it, ours would be resolved to those, and the library would crash when it is loaded.
# nodelete: MXNet calls functions of the library after its own dlclose, until the process ends.
LINKING = ["-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-ldl"]
STRIPPED = ["-Wl,-s"]   # The names of inner functions are a tenth of the library.
THREADS = ["-pthread"]
# Files that include MXNet's C++ have these. Its wheels have the std::string of compilers before GCC 5, and its headers
# include x86's intrinsics unless told otherwise.
MXNET_CXX = ["-D_GLIBCXX_USE_CXX11_ABI=0", "-DMSHADOW_STAND_ALONE=1", "-DMSHADOW_USE_F16C=0", "-DMSHADOW_USE_SSE=0"]
# The results of place.cc are those of NumPy, which has no fused multiply-adds.
SEPARATE_ROUNDING = ["-ffp-contract=off"]
# GCC 14 leaves a product out of a loop's sum where it thinks that a chain of sums is slower fused, which depends on the
# code around: a column's bits would depend on its neighbours. Clang has no such option.
FUSED_CHAINS = ["--param=avoid-fma-max-bits=0"]
SMALL = ["-O1"]   # for files whose speed does not matter
# gcov needs these options. The counts are atomic because kernels run in several threads. -fexpensive-optimizations
# fuses products and sums, as -O3 does. Without it the last digits of results differ.
COVERAGE = ["-O1", "-fexpensive-optimizations", "--coverage", "-DGLUONOPS_COVERAGE", "-fprofile-update=atomic"]
# Both sanitizers end the process where they see something. The check of virtual tables would need those of MXNet.
SANITIZE = ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"]
AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2"]
# The instruction sets of x86-64 besides the base. On Arm the base code has the processor's vectors already.
# For AVX-512, operators have kernels for float32, and for other types where their contract says so. All other types
# gain little from it, and take the kernels for AVX2.
ISAS = {"avx2": AVX2, "avx512": [*AVX2, *[f"-mavx512{part}" for part in ("f", "bw", "cd", "dq", "vl")],
                                 "-DGLUONOPS_AVX512"]}


class BuildError(Exception):
    """The library cannot be built; the message says why and what to do."""


def build(library: str | os.PathLike = LIBRARY, mxnet: str | os.PathLike | None = None, jobs: int | None = None,
          generated: str | os.PathLike = GENERATED, operators: list[str] | None = None,
          coverage: str | os.PathLike | None = None, sanitize: bool = False,
          built: Iterable[str | os.PathLike] = ()) -> pathlib.Path:
    """Build the library.

    Parameters
    ----------
    library : str or Path, optional
        Path of the library. It is put there when it is complete.
    mxnet : str or Path, optional
        MXNet's folder. The default is the MXNet that this Python would import.
    jobs : int, optional
        Number of compilers that run at once. The default is one per processor, at most 4.
    generated : str or Path, optional
        Folder of the generated C++. Its name is ``generated``.
    operators : list of str, optional
        The operators in the library. The default is all of them.
    coverage : str or Path, optional
        Folder for the files of gcov. The library then counts how often each line runs, and is slow.
    sanitize : bool, default False
        Whether the library ends the process where it reads or writes outside of a tensor, or does what C++ leaves
        undefined. A process that loads it needs ``tests/sanitize.sh``.
    built : iterable of str or Path, optional
        Libraries of earlier builds, which need not exist. If the same compiler made one of them of the same sources,
        it is copied, and nothing is compiled.

    Returns
    -------
    pathlib.Path
        The library.

    Raises
    ------
    BuildError
        There is no compiler or no MXNet, or the compiler failed.
    """
    compiler = find_compiler()
    mxnet = find_mxnet(mxnet)
    library = pathlib.Path(library)
    _check_writable(library)
    sources = write_sources(generated, operators)
    extra = SANITIZE if sanitize else [] if coverage is None else COVERAGE
    with _objects_folder(coverage) as folder:
        units = list(compilations(compiler, mxnet, pathlib.Path(folder), sources, extra))
        commands, objects = [command for command, _ in units], [output for _, output in units]
        digest = digest_of_build(compiler, commands, sources[0].parent)
        same = next((path for path in built if STAMP["digest_of"](path) == digest), None)
        if same is not None:
            copy(same, library)
            return library
        _compile(commands, jobs or min(4, processors()))
        _link([*compiler, *extra], library, objects, digest)
    return library


def digest_of_build(compiler: list[str], commands: list[list[str]], generated: pathlib.Path) -> bytes:
    """Return a digest of all that decides what the library will be: the compiler, its options and every source.

    The folders do not count, because the same sources lie in different folders in each installation.
    """
    digest = hashlib.sha256()
    for question in ("--version", "-dumpmachine"):
        digest.update(subprocess.run([*compiler, question], capture_output=True, check=False).stdout)
    for command in commands:
        digest.update("\n".join(map(_without_folder, command)).encode())
    for root in (PACKAGE, generated):
        for path in sorted(root.rglob("*")):
            if path.suffix in SOURCES and (root == generated or GENERATED not in path.parents):
                digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.digest()


def _without_folder(word: str) -> str:
    """Return a word of a command. The path of a file becomes its name, and the path of a folder becomes empty."""
    if not os.path.isabs(word):
        return word
    return os.path.basename(word) if os.path.splitext(word)[1] else ""


def compiles_for_this_machine(compiler: list[str]) -> bool:
    """Return whether a compiler makes programs for this kind of processor, as a cross compiler does not."""
    done = subprocess.run([*compiler, "-dumpmachine"], capture_output=True, text=True, check=False)
    return done.stdout.partition("-")[0] == platform.machine()


def copy(library: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copy a library. It appears at its target when it is complete, and nothing happens if it is there already."""
    target = pathlib.Path(target)
    if target.exists() and os.path.samefile(library, target):
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(library, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _objects_folder(coverage: str | os.PathLike | None) -> contextlib.AbstractContextManager[str]:
    """Return the folder of the object files, which is temporary unless gcov needs the files beside them later."""
    if coverage is None:
        return tempfile.TemporaryDirectory(prefix="gluonops-")
    os.makedirs(coverage, exist_ok=True)
    return contextlib.nullcontext(os.path.realpath(coverage))


def _check_writable(library: pathlib.Path) -> None:
    """Raise a BuildError if the library cannot be written, before the compilers run."""
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=library.parent):
            pass
    except OSError as error:
        raise BuildError(f"gluonops.native: cannot write to {library.parent}: {error.strerror}. Choose another "
                         "--output") from error
    if library.is_dir():
        raise BuildError(f"gluonops.native: {library} is a folder. Choose another --output")


def _compile(commands: list[list[str]], jobs: int) -> None:
    """Run the compilers, ``jobs`` at once, and say how far they are."""
    start = time.monotonic()
    with _screen() as screen, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        screen.begin(len(commands))
        running = [pool.submit(_run, command) for command in commands]
        try:
            for done, finished in enumerate(concurrent.futures.as_completed(running), 1):
                finished.result()
                screen.show(done, len(commands), time.monotonic() - start)
        except BuildError:
            pool.shutdown(cancel_futures=True)
            raise


class _Screen:
    """Says how far the compilers are: in one line of the terminal, or in a line of the output for each tenth."""

    def __init__(self, file: TextIO, is_terminal: bool):
        self._file, self._is_terminal, self._tenths = file, is_terminal, 0

    def begin(self, count: int) -> None:
        """Say what begins, and how to leave it out."""
        self._write(f"Compiling the C++ library of gluonops: {count} files, which take one core about three minutes. "
                    "With GLUONOPS_COMPILE=0, pip install leaves it out.\n")

    def show(self, done: int, count: int, seconds: float) -> None:
        """Say that so many files are compiled, after so many seconds."""
        text = f"{done} of {count} files are compiled, about {seconds / done * (count - done):.0f} seconds left"
        if self._is_terminal:
            self._write(f"\r{text} \033[K" + "\n" * (done == count))
        elif done * 10 // count > self._tenths:
            self._tenths = done * 10 // count
            self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


@contextlib.contextmanager
def _screen() -> Iterator[_Screen]:
    """Open the terminal, which works even where pip keeps the output for itself.

    Where there is no terminal, the lines go to stderr, which `pip install -v` shows.
    """
    try:
        terminal = open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        yield _Screen(sys.stderr, is_terminal=False)
        return
    with terminal:
        yield _Screen(terminal, is_terminal=True)


def _link(compiler: list[str], library: pathlib.Path, objects: list[pathlib.Path], digest: bytes) -> None:
    """Link the library beside its path, and move it there when it is complete, with the digest of its sources."""
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        stripped = [] if "-g1" in compiler else STRIPPED
        _run([*compiler, "-shared", *THREADS, "-o", str(partial), *map(str, objects), *LINKING, *stripped])
        STAMP["append_stamp"](partial, digest)
        os.replace(partial, library)
    finally:
        partial.unlink(missing_ok=True)


def write_sources(generated: str | os.PathLike = GENERATED, operators: list[str] | None = None) -> list[pathlib.Path]:
    """Write the C++ that follows from the contracts, and return the files with the kernels."""
    return runpy.run_path(str(HERE / "generate.py"))["generate"](generated, names=operators)


def includes(source: pathlib.Path) -> list[str]:
    """Return the options for the folders with a source's headers: the parent of ``generated``, and the package."""
    return [option for folder in (source.parent.parent, PACKAGE) for option in ("-I", str(folder))]


def compilations(compiler: list[str], mxnet: pathlib.Path, folder: pathlib.Path,
                 sources: list[pathlib.Path], extra: list[str]) -> Iterator[tuple[list[str], pathlib.Path]]:
    """Yield the command and the object file of every translation unit. ``extra`` are options after the usual ones."""
    include = ["-I", str(mxnet / "include")]
    fused = FUSED_CHAINS if supports(compiler, ["-Werror", *FUSED_CHAINS]) else []
    common = [*compiler, *FLAGS, *fused, "-include", str(MXNET / "old_systems.h"), *extra, *THREADS]
    hidden = [*common, "-fvisibility=hidden"]
    exact = [*hidden, *SEPARATE_ROUNDING]
    isas = {"base": ["-DGLUONOPS_ENTRY"]}   # what runs anywhere chooses among the sets
    if supports(compiler, AVX2):
        isas["base"] += ["-DGLUONOPS_ALL_ISAS", *SMALL]   # it is for old processors, and need not be fast
        isas.update((name, [*flags, f"-DGLUONOPS_ISA={name}"]) for name, flags in ISAS.items())

    def unit(source: pathlib.Path, flags: list[str], suffix: str = "") -> tuple[list[str], pathlib.Path]:
        output = folder / f"{source.stem}{suffix}.o"
        return [*flags, "-c", str(source), "-o", str(output)], output

    # The baseline comes first: if several units define a function, the linker keeps the first one, which runs anywhere.
    yield unit(mxnet / "src" / "lib_api.cc", [*common, *include, *SMALL, "-w"])
    yield unit(MXNET / "library.cc", [*hidden, *include, *versions(mxnet)])
    yield unit(HERE / "place.cc", exact)
    for source in (MXNET / "runtime.cc", MXNET / "old_systems.cc", HERE / "pool.cc", PATCHES / "blocks.cc"):
        yield unit(source, hidden)
    # It only calls the code that takes the time, so it need not be optimized.
    yield unit(MXNET / "inside.cc", [*hidden, *MXNET_CXX, "-isystem", str(mxnet / "include"), *SMALL])
    yield unit(sources[0].with_name("operators.cc"), [*exact, *SMALL, *include, *includes(sources[0])])
    for isa, flags in isas.items():
        for source in sources:
            yield unit(source, [*hidden, *flags, *includes(source)], f"_{isa}")


def versions(mxnet: pathlib.Path) -> list[str]:
    """Return the options that store the versions of gluonops and MXNet in the library."""
    ours = runpy.run_path(str(PACKAGE / "version.py"))["__version__"]
    theirs = mxnet_version(mxnet)
    major, minor, patch = (int(part) for part in re.match(r"(\d+)\.(\d+)\.(\d+)", theirs).groups())
    return [f'-DGLUONOPS_VERSION="{ours}"', f'-DGLUONOPS_MXNET_VERSION="{theirs}"',
            f"-DGLUONOPS_MXNET_NUMBER={major * 10000 + minor * 100 + patch}"]


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler.

    It is the environment variable CXX, or else the first of COMPILERS that is installed. Raise a BuildError if there is
    none.
    """
    if os.environ.get("CXX"):
        command = shlex.split(os.environ["CXX"])
        if not shutil.which(command[0]):
            raise BuildError(f"gluonops.native: the compiler {command[0]}, named in CXX, does not exist. Correct CXX, "
                             "or unset it.")
        return command
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise BuildError(f"gluonops.native: found no C++ compiler, looked for {', '.join(COMPILERS)}. Install one (Debian, "
                     "Ubuntu: apt install g++) or name it in CXX.")


def find_mxnet(folder: str | os.PathLike | None = None) -> pathlib.Path:
    """Return the folder of MXNet, with lib_api.h and lib_api.cc inside."""
    if folder is None:
        spec = importlib.util.find_spec("mxnet")
        if spec is None or not spec.origin:
            raise BuildError("gluonops.native: found no MXNet. Run: pip install mxnet==1.9.1")
        folder = pathlib.Path(spec.origin).parent
    folder = pathlib.Path(folder)
    for file in ("include/mxnet/lib_api.h", "src/lib_api.cc", "libinfo.py"):
        if not (folder / file).is_file():
            raise BuildError(f"gluonops.native: {folder} lacks {file}. Install MXNet 1.9.1 from its wheel: "
                             "pip install mxnet==1.9.1")
    return folder


def mxnet_version(folder: pathlib.Path) -> str:
    """Return the version of the MXNet in a folder, without importing it."""
    return re.search(r'^__version__ = "(.+)"$', (folder / "libinfo.py").read_text(encoding="utf-8"), re.M).group(1)


def supports(compiler: list[str], flags: list[str]) -> bool:
    """Return whether the compiler accepts these flags and can link a program with them."""
    with tempfile.TemporaryDirectory(prefix="gluonops-") as folder:
        command = [*compiler, *flags, "-x", "c++", "-", "-o", str(pathlib.Path(folder) / "probe")]
        program = "int main() { return 0; }"
        done = subprocess.run(command, input=program, text=True, capture_output=True, check=False)
        return done.returncode == 0


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(command: list[str]) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        raise BuildError(f"gluonops.native: the compiler failed: {shlex.join(command)}\n{done.stderr.strip()}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Build the library, print its path, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gluonops.native.build",
                                     description="Build gluonops's C++ library.")
    parser.add_argument("--output", default=LIBRARY, help="where the library goes")
    parser.add_argument("--mxnet", help="MXNet's folder")
    parser.add_argument("--jobs", type=int, help="compilers at once")
    parser.add_argument("--coverage", metavar="FOLDER", help="count the lines that run; files of gcov go into FOLDER")
    parser.add_argument("--sanitize", action="store_true",
                        help="watch memory and undefined behaviour; run what loads it with tests/sanitize.sh")
    options = parser.parse_args(arguments)
    try:
        print(build(options.output, options.mxnet, options.jobs, coverage=options.coverage,
                    sanitize=options.sanitize))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
