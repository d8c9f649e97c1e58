"""What MkDocs asks while it builds the documentation: the page that lies in no file."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads this file by its path alone

import docs_engine_api


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the engine's reference."""
    files.append(File.generated(config, "engine-reference.md", content=docs_engine_api.page()))
    return files
