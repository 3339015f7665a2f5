"""Pages stay short: how many words each may have, as ``wc -w`` counts them, and all tracked Markdown together."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TOTAL = 40_000
LIMITS = {
    "README.md": 700,
    "CHANGELOG.md": 800,   # 400 for 1.0.0, and a line for each change from then on
    "CONTRIBUTING.md": 2500,
    "benchmarks/README.md": 2500,
    "docs/darknet.md": 2200,
    "docs/fine_tuning.md": 1500,
    "docs/performance.md": 900,
}
OTHERS = 1800   # any other page


def pages():
    """The tracked Markdown."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git", allow_module_level=True)
    return listed.stdout.split()


def words(page):
    return len((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", pages())
def test_a_page_has_no_more_words_than_its_limit(page):
    assert words(page) <= LIMITS.get(page, OTHERS), "shorten the page; what was tried and lost stands in git"


def test_all_pages_together():
    assert sum(map(words, pages())) <= TOTAL


def test_the_first_release_is_described_in_400_words():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(text.split("## 1.0.0 ")[1].split("\n## ")[0].split()) <= 400
