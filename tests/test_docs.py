"""The pages' examples run, as they stand there, page by page."""
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"
EXAMPLES = {page.stem: "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
            for page in sorted(DOCS.glob("*.md"))}


@pytest.mark.parametrize("page", [page for page, code in EXAMPLES.items() if code])
def test_examples(page, tmp_path):
    done = subprocess.run([sys.executable, "-c", EXAMPLES[page]], cwd=tmp_path,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^([a-z_]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted([*listed, "index"]) == sorted(page.stem for page in DOCS.glob("*.md"))
