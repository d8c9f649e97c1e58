"""The documentation as pages: built without a warning, and complete without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT

LOADS = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']([^"']+)""")
IMPORTS = re.compile(r"""url\(\s*["']?((?:https?:)?//[^)"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["-f", str(ROOT / "packaging" / "mkdocs.yml"), "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    docs = ROOT / "docs"
    pages = [page.relative_to(docs) for page in DOCUMENTS if page.is_relative_to(docs)]
    assert pages
    assert [page for page in pages if not (site / page.with_suffix(".html")).exists()] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = LOADS.findall(page.read_text("utf-8"))
        assert loaded
        assert [one for one in loaded if "//" in one] == [], page
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert [sheet for sheet in sheets if IMPORTS.search(sheet.read_text("utf-8"))] == []


def test_the_reference_has_the_engines_names(site: Path) -> None:
    page = (site / "engine-reference.html").read_text("utf-8")
    for name in ("Generate", "Finished", "EngineSettings", "model_fit"):
        assert re.search(rf"<h3[^>]*>{name}</h3>", page)
    assert "cancels what runs on it" in page
