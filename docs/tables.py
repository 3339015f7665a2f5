"""The tables that no page holds: `make docs` makes them from the contracts and from committed results."""
from __future__ import annotations

import json
import pathlib
import runpy
from collections.abc import Iterable

from gluonops.commands import table
from gluonops.runtime import support

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOT_MEASURED = "-"


def write(folder: pathlib.Path) -> None:
    """Write ``<table>.inc`` for each table. Pages include them."""
    folder.mkdir(exist_ok=True)
    results = json.loads((ROOT / "docs" / "reliability.json").read_text(encoding="utf-8"))
    texts = {"operators": table.families("ops"), "matrix": matrix(), "cfgs": cfgs(),
             "zoo": zoo(), "checks": checks(results["checks"], results["date"]), "memory": memory(results["memory"])}
    for name, text in texts.items():
        (folder / f"{name}.inc").write_text(f"{text}\n", encoding="utf-8")


def matrix() -> str:
    """What the operators' tests vary."""
    page = runpy.run_path(str(ROOT / "tools" / "matrix.py"))["page"]
    return page(json.loads((ROOT / "docs" / "matrix.json").read_text(encoding="utf-8")))


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


def memory(results: list[dict]) -> str:
    """How much memory each use keeps."""
    rows = ([row["use"], ", ".join(row["bytes"]), f"{row['times']:,}",
             ", ".join(f"{size:,}" for size in row["bytes"].values())] for row in results)
    return markdown(["use", "backend", "times", "bytes each"], rows)


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
