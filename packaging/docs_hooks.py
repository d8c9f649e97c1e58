"""What MkDocs asks while it builds the documentation: the page and the style that lie elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads this file by its path alone

import docs_engine_api

STYLE = Path(__file__).with_name("docs.css")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the engine's reference, and the style."""
    files.append(File.generated(config, "engine-reference.md", content=docs_engine_api.page()))
    files.append(File.generated(config, STYLE.name, content=STYLE.read_text("utf-8")))
    return files
