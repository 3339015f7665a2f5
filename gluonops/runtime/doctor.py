"""Report what is installed, what is missing, and how to fix it.

It tries the package as a user does: if ``import gluonops`` fails, ``gluonops doctor`` says why.
"""
from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import platform
import re
import shutil
import sys
from collections.abc import Callable

from ..version import __version__
from . import cuda_libraries, driver, mxnet_wheel, processor, support

PACKAGE = pathlib.Path(__file__).parents[1]
TRIED = "gluonops"   # imported as a user does it, to see whether that works
FEATURES = ("CUDA", "CUDNN", "MKLDNN", "OPENMP")
# What an old script computes differently with NumPy 2, and what it does not. docs/old_scripts.md explains it.
OLD_ARITHMETIC = ("a sum of loss.asscalar() has double precision, as with NumPy 1. A sum of loss.asnumpy()[0] has "
                  "single precision, unless you write float(...) around it")
NO_AVX = ("This processor has no AVX, which the OpenBLAS in MXNet's wheel needs: mx.nd.dot, batch_dot and linalg, and "
          "layers in float64, end the process with an illegal instruction. gluonops' operators, and layers in float32, "
          "work")


# Functions that add what they know to the report. The rooms above this one register theirs when they are imported.
examiners: list[Callable[[Report], None]] = []


class Report(dict):
    """What :func:`doctor` has found. An interactive session only shows whether all is well, because it was printed."""

    def __repr__(self) -> str:
        return f"Report(ok={self['ok']})"


def doctor() -> Report:
    """Print versions, backends, GPUs and what is missing, with the command that installs it.

    Returns
    -------
    dict
        The same report as data. ``ok`` is False if gluonops cannot be used; ``problems`` say why. ``hints`` say what
        could be improved.
    """
    report = examine()
    print(render(report))
    return report


def examine() -> Report:
    """Collect the report. It never raises an error."""
    report = Report(ok=True, problems=[], hints=[], path=str(PACKAGE), versions=_versions(), mxnet=None, backends={},
                    backend=None, threads=None, memory=None, processor=processor.examine(), driver=driver.examine(),
                    gpus=[], packages=_example_packages())
    _examine_support(report)
    try:
        gluonops = importlib.import_module(TRIED)
    except Exception as error:   # the doctor reports every error
        report["problems"].append(explain(error))
    else:
        if "nn" in gluonops.__all__:
            _examine_mxnet(report)
            # The command `gluonops` loads this module under another name, because importing the package may fail.
            for add_findings in sys.modules[f"{TRIED}.runtime.doctor"].examiners:
                add_findings(report)
        else:
            report["problems"].append(support.NO_MXNET)
    _examine_gpus(report)
    _examine_packages(report)
    report["ok"] = not report["problems"]
    return report


def _versions() -> dict[str, str | None]:
    """Return the versions of Python, of gluonops and NumPy, and of every installed wheel of MXNet."""
    installed = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()
                 if _may_be_mxnet(dist)}
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "gluonops": __version__,
        "numpy": _version("numpy"),
        **{name: installed[name] for name in sorted(installed) if name == "mxnet" or name.startswith("mxnet-")},
    }


def _may_be_mxnet(distribution: importlib.metadata.Distribution) -> bool:
    """Return whether an installed distribution may be a wheel of MXNet. To parse what all of them say takes long."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    return re.search(r"^Name: *mxnet", text, re.MULTILINE) is not None


def _version(name: str) -> str | None:
    distribution = mxnet_wheel.installed(name)
    return distribution and distribution.version


def _example_packages() -> dict[str, str | None]:
    """Return the installed version, or None, of each requirement that gluonops declares for its examples."""
    texts = mxnet_wheel.requirements("gluonops")
    wanted = [text.split(";")[0].strip() for text in texts if re.search(r"extra == ['\"]examples['\"]", text)]
    return {requirement: _version(re.match(r"[\w.-]+", requirement).group()) for requirement in wanted}


def explain(error: BaseException) -> str:
    """Return a line for an exception of ``import gluonops``: what is wrong, and a remedy if its text has none."""
    text = " ".join(str(error).split())
    if text.startswith("gluonops"):
        return text
    text = f"gluonops: {type(error).__name__}: {text}"
    if str(getattr(error, "name", None)).partition(".")[0] == "mxnet":
        return support.NO_MXNET
    if getattr(error, "name", None) == "distutils":
        return f"{text}. MXNet needs it, and Python {platform.python_version()} lacks it. Run: pip install setuptools"
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":
        return f"{text}. Run: pip install '{support.numpy_requirement()}'"
    library = re.search(r"(lib[\w+.-]+): cannot open shared object", text)
    remedy = cuda_libraries.remedy({library.group(1): text}) if library else ""
    return f"{text}. {remedy}" if remedy else text


def _examine_support(report: dict) -> None:
    """Report what was never tried, and a wheel of MXNet that the command should write again."""
    numpy = report["versions"]["numpy"]
    if numpy and not support.numpy_was_tried(numpy):
        report["hints"].append(f"NumPy {numpy} was never tried with gluonops, which supports {support.supported()}")
    if support.python_problem():
        report["problems"].append(support.python_problem())
    for variant, name in mxnet_wheel.VARIANTS.items():
        version = report["versions"].get(name)
        if version == mxnet_wheel.OURS and not mxnet_wheel.is_current(name):
            report["hints"].append(f"{name} {version} is from another version of gluonops. Run: gluonops install-mxnet "
                                   f"{variant}")


def _examine_mxnet(report: dict) -> None:
    mx = importlib.import_module("mxnet")
    features = mx.runtime.Features()
    report["mxnet"] = {"version": mx.__version__, "path": str(pathlib.Path(mx.__file__).parent),
                      "features": {name: features.is_enabled(name) for name in FEATURES}}
    if mx.__version__ != mxnet_wheel.STOCK:
        report["hints"].append(f"gluonops was tried with MXNet {mxnet_wheel.STOCK} only, and this is {mx.__version__}. "
                               "Run: gluonops install-mxnet")
    if platform.machine() == "x86_64" and "avx" not in report["processor"]["instructions"]:
        report["hints"].append(NO_AVX)
    wheels = [name for name in report["versions"] if name.startswith("mxnet")]
    if len(wheels) > 1:
        report["hints"].append(
            f"{' and '.join(wheels)} are both installed and overwrite each other. Uninstall all of them, then install "
            "one")


def _examine_gpus(report: dict) -> None:
    """The GPUs of the driver and what runs on them, and whether this MXNet can use them."""
    report["gpus"] = [{"id": i, **gpu, "works": driver.works(gpu["capability"]), "free_bytes": None}
                     for i, gpu in enumerate(report["driver"]["gpus"])]
    has_cuda = bool(report["mxnet"]) and report["mxnet"]["features"]["CUDA"]
    if has_cuda:
        mx = importlib.import_module("mxnet")
        try:
            for gpu in report["gpus"][:mx.context.num_gpus()]:
                gpu["free_bytes"] = mx.context.gpu_memory_info(gpu["id"])[0]
        except mx.MXNetError as error:
            reason = str(error).strip().splitlines()[-1]
            report["hints"].append(f"MXNet cannot use CUDA: {reason}. Check the driver with nvidia-smi")
        if driver.too_old(report["driver"]["cuda"]):
            cuda = report["driver"]["cuda"]
            report["hints"].append(
                f"The driver supports CUDA up to {cuda}, and gluonops's kernels are compiled by NVRTC 11.8: mx.nd "
                "computes instead. Install driver 520 or newer")
    elif report["gpus"] and report["mxnet"]:
        report["hints"].append(
            f"There is a GPU ({report['gpus'][0]['name']}), and this MXNet is built without CUDA. "
            "Run: pip uninstall mxnet, then gluonops install-mxnet cu117")


def _examine_packages(report: dict) -> None:
    missing = [requirement for requirement, version in report["packages"].items() if version is None]
    if missing:
        report["hints"].append("The examples need more. Run: pip install " + " ".join(f"'{name}'" for name in missing))
    if not shutil.which("dot"):
        report["hints"].append("mx.viz.plot_network draws a network only if Graphviz's program dot is installed")


def render(report: dict) -> str:
    """Return the report as text."""
    versions, mxnet = report["versions"], report["mxnet"]
    lines = [f"gluonops {versions['gluonops']} in {report['path']}", "",
             *(f"  {text}" for text in support.lines()), ""]

    def line(title: str, text: str) -> None:
        lines.append(f"  {title:<12}{text}")

    line("Python", f"{versions['python']} on {versions['platform']}: {sys.executable}")
    line("NumPy", versions["numpy"] or "missing")
    if versions["numpy"] and versions["numpy"] >= "2":
        line("", OLD_ARITHMETIC)
    if mxnet:
        line("MXNet", f"{mxnet['version']} in {mxnet['path']}")
        line("built with", ", ".join(f"{name} {'yes' if on else 'no'}" for name, on in mxnet["features"].items()))
    else:
        wheels = ", ".join(f"{name} {version}" for name, version in versions.items() if name.startswith("mxnet"))
        line("MXNet", f"not imported; installed: {wheels or 'none'}")
    for name, state in report["backends"].items():
        selected = " (in force)" if name == report["backend"] else ""
        line("backends" if name == "auto" else "", f"{name}: {state}{selected}")
    if report["threads"]:
        line("threads", f"{report['threads']['chosen'] or 'not chosen by gluonops'}: {report['threads']['reason']}")
    if report["memory"]:
        line("memory", _memory_text(report["memory"]))
    for title, text in _processor_texts(report["processor"]):
        line(title, text)
    line("driver", _driver_text(report["driver"]))
    for gpu in report["gpus"]:
        free = "" if gpu["free_bytes"] is None else f"{gpu['free_bytes'] / 2**30:.1f} free of "
        line("" if gpu["id"] else "GPUs", f"{gpu['id']}: {gpu['name']}, compute capability {gpu['capability']}, "
             f"{free}{gpu['total_bytes'] / 2**30:.1f} GiB: {gpu['works']}")
    if not report["gpus"]:
        line("GPUs", "none: everything runs on the CPU")
    if report["packages"]:
        line("examples", ", ".join(f"{re.match(r'[^<>=!~ ]+', requirement).group()} {version or 'missing'}"
                                   for requirement, version in report["packages"].items()))
    for title, items in (("Problems", report["problems"]), ("Hints", report["hints"])):
        if items:
            lines += ["", f"{title}:", *(f"  - {text}" for text in items)]
    if report["ok"]:
        lines += ["", "gluonops works here."]
    return "\n".join(lines)


def _memory_text(memory: dict) -> str:
    usable = f"{memory['usable'] / 2**30:.1f} GiB are usable"
    if not memory["bound"]:
        return f"{usable}; that of freed tensors is not kept"
    return f"{usable}; up to {memory['bound'] / 2**30:.1f} GiB of freed tensors are kept for the next ones"


def _processor_texts(processor: dict) -> list[tuple[str, str]]:
    """Return lines on the instruction sets, on which of them are used, and on what that means for nets in 8 bits."""
    used = ", ".join(f"{name} {level}" for name, level in processor["used"].items() if level)
    instructions = ", ".join(processor["instructions"]) or "instruction sets not known"
    lines = [("processor", f"{processor['name']}: {instructions}")]
    lines += [("", f"used by {used}")] if used else []
    if processor["saturating"]:
        saturating = " and ".join(processor["saturating"])
        lines.append(("8 bits", f"{saturating}: sums of products saturate here. Files that were quantized with "
                      "vnni_only are wrong, and all others are right"))
    elif any(processor["used"].values()):
        lines.append(("8 bits", "sums of products do not saturate here: all files are right, also with vnni_only"))
    return lines


def _driver_text(driver: dict) -> str:
    versions = filter(None, [driver["version"], driver["cuda"] and f"CUDA up to {driver['cuda']}"])
    return "; ".join(filter(None, [", ".join(versions), driver["problem"]]))
