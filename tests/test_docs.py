"""The documentation names what there is."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("rearrange", "skills", "planner", "eval", "configs", "docs", "tests", "examples")
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(ROOT.glob("docs/**/*.md"))
      if page.name != "hab_spec.md" and page.parent.name != "results"),
]  # fmt: skip
SOURCES = [*ROOT.glob("*/**/*.py"), *ROOT.glob("*/**/*.yaml")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_that_a_page_names_exists(page):
    """Of other projects' files and past days' ones tell `hab_spec.md` and `results`."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./*-]+)`", page.read_text())
    links = re.findall(r"\]\(((?!http)[\w./-]+)(?:#[\w-]+)?\)", page.read_text())
    missing = [name for name in named if not list(ROOT.glob(name.rstrip("/")))]
    missing += [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_fact_that_the_code_cites_stands_in_the_fact_sheet():
    sections = set(re.findall(r"^#+ ([\d.]*\d)", (ROOT / "docs/hab_spec.md").read_text(), re.M))
    cited = {
        number
        for source in SOURCES
        for number in re.findall(r"hab-spec (?:sections? )?(\d+(?:\.\d+)?)", source.read_text())
    }
    assert len(cited) > 15 and cited <= sections


def test_every_page_is_reached_from_the_index():
    trees = {
        page: re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.S)
        for page in (ROOT / "docs").glob("**/index.md")
    }
    listed = {
        found.resolve()
        for page, blocks in trees.items()
        for line in "\n".join(blocks).splitlines()
        if line and not line.startswith(":")
        for found in page.parent.glob(f"{line}.md" if "*" not in line else line)
    }
    pages = {page.resolve() for page in (ROOT / "docs").glob("**/*.md")} - {
        page.resolve() for page in (ROOT / "docs/results").glob("*/*.md")
    }
    assert pages - listed == {(ROOT / "docs/index.md").resolve()}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("furo") is None, reason="pip install rearrange[docs]")
def test_the_pages_are_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "RearrangeEnv" in (tmp_path / "reference/environments.html").read_text()
