"""The tables of the pages, made from the contracts and from committed results.

They stand in their pages, where a code host shows them, and ``tools/table.py`` writes them there.
"""
from __future__ import annotations

import ast
import inspect
import json
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterable

from gluonops.export.operators import schema
from gluonops.export.operators.rule_registry import ONNX, OPSETS, TORCH
from gluonops.runtime import support

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))   # benchmarks/ is no installed package
from benchmarks.harness import report, results  # noqa: E402

NOT_MEASURED = "-"
EXTRAS = {   # what each extra of setup.py is for
    "cpu": "MXNet's own wheel, for NumPy 1 and Python up to 3.12; `gluonops install-mxnet` is for all",
    "cu117": "the same for NVIDIA GPUs, with the CUDA libraries",
    "examples": "`gluonops train` for classifiers and digits, and most scripts in `examples/`",
    "detection": "`gluonops train`, `val` and `anchors` for detectors",
    "onnx": "exports to ONNX, and running ONNX files",
    "safetensors": "`gluonops files` when it writes `NAME.safetensors`",
    "torch": "exports to PyTorch that are compared with MXNet, and running them",
    "tensorboard": "`gluonops train` with `--tensorboard`",
    "picture": "`gluonops viz`",
    "test": "the tests; `make test` installs it",
    "dev": "the linter and other tools for developers; `make test` installs it",
    "coverage": "the tools that count which lines the tests run; `make coverage` installs it",
    "docs": "these pages; `make docs` installs it",
}


def reliability() -> dict[str, str]:
    """The tables of the page about reliability, by their names."""
    found = json.loads((ROOT / "docs" / "reliability.json").read_text(encoding="utf-8"))
    other = results.load(ROOT / "docs" / "processors.json")
    return {"checks": checks(found["checks"], found["date"]), "memory": memory(found["memory"]),
            "settings": settings(other["settings"]), "emulated": emulated(other["emulated"])}


def extras() -> str:
    """The extras that setup.py declares, what each is for, and the packages in it."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    declared, = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "EXTRAS")
    rows = []
    for name, packages in zip(declared.keys, declared.values):
        texts = [package.value for package in packages.elts if isinstance(package, ast.Constant)]
        names = [re.match(r"[\w.-]+", text)[0] for text in texts]
        rows.append([f"`{name.value}`", EXTRAS[name.value], ", ".join(names)])
    return markdown(["extra", "what for", "packages"], rows)


def cfgs() -> str:
    """Each cfg that Darknet ships, from the results of ``benchmarks.networks.darknet_cfgs``."""
    results = json.loads((ROOT / "benchmarks" / "networks" / "darknet_cfgs.json").read_text(encoding="utf-8"))
    names = ["cfg", "image", "float32", "float64", "ONNX", "ms: gluonops, onnxruntime, program"]
    return markdown(names, (_cfg(name, row) for name, row in sorted(results.items())))


def zoo() -> str:
    """Each net of gluoncv's zoo in every form, from the results of ``benchmarks.networks.zoo``."""
    results = json.loads((ROOT / "benchmarks" / "networks" / "zoo.json").read_text(encoding="utf-8"))
    forms = {"symbol": "symbol", "folded": "folded", "onnx": "ONNX", "int8": "int8", "torch": "PyTorch"}
    rows = ([name, row.get("size", ""), *(_form(row.get(form, row)) for form in forms)]
            for name, row in sorted(results.items()))
    return markdown(["net", "input", *forms.values()], rows)


def _form(found: dict) -> str:
    """A difference and the milliseconds, or a dash where the form is refused."""
    if "difference" not in found:
        return NOT_MEASURED
    time = f" ({found['ms']:.3g} ms)" if "ms" in found else ""
    return f"{found['difference']:.1e}{time}"


def checks(results: list[dict], date: str) -> str:
    """What was checked, and what that found."""
    pairs = ", ".join(f"{python} with {numpy}" for python, numpy in support.TRIED)
    rows = ([row["promise"], row["found"].format(**row["figures"], pairs=pairs), f"`{row['command']}`"]
            for row in results)
    return markdown(["promise", f"last check ({date})", "command"], rows)


def converters() -> str:
    """The operators that have a converter to ONNX or PyTorch, and what each of these refuses."""
    names = sorted({*ONNX, *TORCH} - {*schema.ALIKE}, key=lambda name: name.lstrip("_").lower())
    return markdown(["operator", "other names", "ONNX", "PyTorch", "not converted"], map(_converter, names))


def _converter(name: str) -> list[str]:
    """The cells of an operator."""
    known = schema.find(name)
    aliases = [alias for alias in known.aliases if not alias.startswith("_")] if known else []
    opset = f"from opset {OPSETS[name]}" if name in OPSETS else "yes"
    refused = {text: None for table in (ONNX, TORCH) if name in table for text in _refusals(table[name])}
    return [f"`{name}`", ", ".join(f"`{alias}`" for alias in aliases), opset if name in ONNX else NOT_MEASURED,
            "yes" if name in TORCH else NOT_MEASURED, "a node that " + "; ".join(refused) if refused else ""]


def _refusals(converter: object) -> Iterable[str]:
    """What a converter refuses: the texts of its calls of ``refuse_if``, with an ellipsis for a value.

    What is expected instead stands in parentheses.
    """
    function = getattr(converter, "function", converter)
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        return
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "refuse_if":
            what, _, expected = _text(node.args[1], function.__globals__).partition("; ")
            yield f"{what} ({expected})" if expected else what


def _text(node: ast.expr, names: dict) -> str:
    """A text of a source, with an ellipsis for a value. ``names`` are those of the module, which may have the text."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "...")
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(part.value if isinstance(part, ast.Constant) else "..." for part in parts)


def memory(results: list[dict]) -> str:
    """How much memory each use keeps."""
    rows = ([row["use"], ", ".join(row["bytes"]), f"{row['times']:,}",
             ", ".join(f"{size:,}" for size in row["bytes"].values())] for row in results)
    return markdown(["use", "backend", "times", "bytes each"], rows)


def settings(rows: list[dict]) -> str:
    """The core tests as on other processors, from the results of `make test-processors`."""
    if not rows:
        return "These rows were not measured since the machinery behind them was changed."
    names = ["as a processor", "library", "oneDNN", "OpenBLAS", "threads", "seed", "passed", "failed", "seconds"]
    keys = ["processor", "library", "onednn", "blas", *names[4:]]
    return markdown(names, ([str(row.get(key, NOT_MEASURED)) for key in keys] for row in rows))


def emulated(rows: list[dict]) -> str:
    """What runs on emulated processors, from the same results."""
    return markdown(["qemu's name", "library", "NumPy", "what runs", "result", "seconds"],
                    ([row["processor"], row["library"], row.get("numpy", NOT_MEASURED), ", ".join(row["checks"]),
                      row["result"], str(row.get("seconds", NOT_MEASURED))] for row in rows))


def avx2() -> str:
    """Ratios of times with AVX2, as they were reported, beside those of the committed results with AVX-512."""
    reported = json.loads((ROOT / "benchmarks" / "avx2.json").read_text(encoding="utf-8"))
    # Per folder of benchmarks/: the heading, whose time is divided by whose, and where these stand.
    quotients = {"operators": ("torch / gluonops", "torch", "native", {"figure": "ms", "pass": "both"}),
                 "busy": ("gluonops / onnxruntime", "gluonops", "onnxruntime", {"figure": "p50", "load": 0})}
    rows = []
    for folder, (heading, *peers, where) in quotients.items():
        cases = results.load(ROOT / "benchmarks" / folder / "results.json")["cases"]
        for name, ratios in reported[folder].items():
            case = next(case for case in cases if name in (case.get("op"), case["name"]))
            above, below = (report.of(case, peer, **where) for peer in peers)
            rows.append([name, heading, " to ".join(f"{ratio:g}" for ratio in ratios), f"{above / below:.3g}"])
    return markdown(["case", "times", "AVX2", "AVX-512"], rows)


def markdown(headings: list[str], rows: Iterable[list[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, ["---"] * len(headings), *rows])


def _cfg(name: str, row: dict) -> list[str]:
    """The cells of a row."""
    if "refused" in row:
        return [name, f"not loaded: {row['refused']}", "", "", "", ""]
    size = row["size"]
    if row.get("own_size", size) != size:
        size += f" (of {row['own_size']})"
    single = f"{row['deviation']:.1e} ({row['layer']})" if "deviation" in row else NOT_MEASURED
    double = f"{row['double']:.1e}" if "double" in row else NOT_MEASURED
    onnx = row.get("onnx", NOT_MEASURED)
    if row.get("onnx_deviation") is not None:
        onnx += f" ({row['onnx_deviation']:.1e})"
    taken = [row.get(f"{peer}_ms") for peer in ("gluonops", "onnxruntime", "program")]
    speeds = ", ".join(NOT_MEASURED if one is None else f"{one:.3g}" for one in taken)
    return [name, size, single, double, onnx, speeds]
