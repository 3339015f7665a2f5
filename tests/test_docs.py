"""The pages' examples run, as they stand there, page by page."""
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys

import pytest
from gluonops import cli
from PIL import Image

DOCS = pathlib.Path(__file__).parents[1] / "docs"
EXAMPLES = {page.stem: "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
            for page in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("page", [page for page, code in EXAMPLES.items() if code])
def test_examples(page, tmp_path):
    done = subprocess.run([sys.executable, "-c", EXAMPLES[page]], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_line(tmp_path, monkeypatch):
    """Every command of the page, in its order, with a small network in YOLOv2's place."""
    page = (DOCS / "command_line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    darknet = DOCS.parent / "tests" / "golden" / "darknet"
    shutil.copy(darknet / "mini-yolov2.cfg", "yolov2.cfg")
    runpy.run_path(str(darknet / "random_weights.py"))["write"]("yolov2.cfg", 21, "yolov2.weights")
    Image.new("RGB", (90, 60), "red").save("dog.jpg")
    pathlib.Path("coco.names").write_text("cat\ndog\n")
    exec(EXAMPLES["command_line"], {})
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.S)).splitlines()
    assert {line.split()[1] for line in lines} == set(cli.EXAMPLES), "every command is shown"
    for line in lines:
        assert cli.main(shlex.split(line, comments=True)[1:]) == 0, line
    assert {path.name for path in tmp_path.glob("deploy/*")} == {
        "net-symbol.json", "net-0000.params", "net.onnx", "large.onnx", "one.onnx"}


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^([a-z_]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted([*listed, "index"]) == sorted(page.stem for page in DOCS.glob("*.md"))
