"""Models as other tools leave them on a disk: in the Hugging Face cache and in Ollama's store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

MODEL_LAYER = "application/vnd.ollama.image.model"


def cache_revision(cache: Path, repository: str, commit: str, source: Path, *, main: bool = True) -> Path:
    """Put the files of folder `source` into the Hugging Face cache as a revision; returns its snapshot."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for part in (folder / "blobs", folder / "refs", snapshot):
        part.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.rglob("*")):
        if not file.is_file():
            continue
        blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        if not blob.exists():
            shutil.copy(file, blob)
        link = snapshot / file.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if main:
        (folder / "refs" / "main").write_text(commit)
    return snapshot


def ollama_model(store: Path, name: str, content: bytes, **layer: object) -> Path:
    """Put `content` into Ollama's store as NAMESPACE/MODEL:TAG; `layer` changes its entry. The blob."""
    digest = hashlib.sha256(content).hexdigest()
    blob = store / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    manifest = store / "manifests" / "registry.example" / name.replace(":", "/")
    manifest.parent.mkdir(parents=True, exist_ok=True)
    entry = {"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}", "size": len(content), **layer}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [entry]}))
    return blob
