"""A notebook, run by Jupyter's own kernel: what a user sees of a training, a picture, detections and the doctor."""
import pathlib
import sys

import pytest

nbclient = pytest.importorskip("nbclient", reason="it has no kernel on this Python")
import nbformat  # noqa: E402  (nbclient brings it)

CELLS = ["""
import gluonops as gops
from gluonops import train
import toy_run
run = toy_run.make("out", epochs=6)
run.introduce({"pictures": 20})
toy_run.finish(run).epoch
""", """
gops.export.picture(toy_run.dense(), "net.svg", (1, 3))
""", """
gops.export.picture(toy_run.dense(), "net.png", (1, 3))
""", """
[gops.export.Detection("cat", 3, 0.123456789, (1 / 3, 2, 3, 4))]
""", """
gops.doctor()
"""]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells with their outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(pathlib.Path(__file__).parent), *filter(None, sys.path)]
        patch.setenv("PYTHONPATH", ":".join(paths))
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook.cells


def shown(cell):
    """The texts that a cell wrote, and its result: kind -> content."""
    texts = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    results = [output.data for output in cell.outputs if output.output_type == "execute_result"]
    return texts, results[0] if results else {}


def test_a_training(cells):
    """The summary, the expected time, a row for each epoch, a widget for the bar, and the total."""
    texts, result = shown(cells[0])
    lines = [line.split() for line in texts.splitlines()]
    assert ["pictures", "20"] in lines and result["text/plain"] == "6"
    assert [line[0] for line in lines if line and line[0].endswith("/6")] == [f"{i}/6" for i in range(1, 7)]
    assert ["epoch", "time", "left", "loss"] in [line[:4] for line in lines]
    assert "The training took " in texts
    assert {output.name for output in cells[0].outputs if output.output_type == "stream"} == {"stdout"}
    widgets = [output.data for output in cells[0].outputs if output.output_type == "display_data"]
    assert any("application/vnd.jupyter.widget-view+json" in data for data in widgets)


def test_results(cells):
    assert shown(cells[1])[1]["image/svg+xml"].lstrip().startswith("<?xml")
    assert "image/png" in shown(cells[2])[1]
    assert shown(cells[3])[1]["text/plain"] == "[Detection('cat', 0.123, box=(0.3, 2.0, 3.0, 4.0))]"
    report, result = shown(cells[4])
    assert "backend" in report and result["text/plain"] == "Report(ok=True)"
