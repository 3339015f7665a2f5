"""What figures depend on: the machine, its software, and the command."""
import importlib.metadata
import os
import pathlib
import platform
import shlex
from collections.abc import Sequence
from typing import Optional

# Variables of glibc with which malloc keeps the memory of large blocks, in the arena of all threads. gluonops does that
# for MXNet's tensors by itself; torch and NumPy need these.
KEEPING_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_ARENA_MAX": "1"}


def threads() -> int:
    """How many threads every peer may use."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def describe() -> dict[str, object]:
    """Processor, memory, system, and the versions of what is measured; for the results' file."""
    import gluonops
    import mxnet
    import numpy
    from gluonops.backends import native

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    libc = " ".join(platform.libc_ver()).strip()
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads(),
        "memory_gb": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}, {libc}",
        "python": platform.python_version(),
        "mxnet": mxnet.__version__,
        "numpy": numpy.__version__,
        "torch": version("torch"),
        "onnxruntime": version("onnxruntime"),
        "gluonops": gluonops.__version__,
        "target": native.instruction_set(),
    }


def version(package: str) -> Optional[str]:
    """The version of an optional package, which is not imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    """The model; where a hypervisor hides the name, family and model number tell the generation."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        fields = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
        return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def command(module: str, arguments: Sequence[str]) -> str:
    """The command as another machine would run it: without this one's folders."""
    words = [pathlib.Path(text).name if os.path.isabs(text) else text for text in arguments]
    return shlex.join(["python", "-m", module, *words])


def sentence(results: dict) -> str:
    """What the figures were measured on and with, and how, in a line."""
    machine = results["machine"]
    text = (f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores, {machine['memory_gb']} GB, "
            f"{machine['system']}; Python {machine['python']}, MXNet {machine['mxnet']}, NumPy {machine['numpy']}, "
            f"torch {machine['torch'] or 'not installed'}, gluonops {machine['gluonops']} "
            f"({machine['target'] or 'no library'}); {results['date']}; `{results['command']}`")
    if machine.get("onnxruntime"):
        text += f"; onnxruntime {machine['onnxruntime']}"
    return text
