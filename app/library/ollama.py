"""Models in Ollama's store, through links whose names end in .gguf.

The layout (Ollama's manual, "Where are models stored?", and the manifest code of its server): below the
store `manifests/HOST/NAMESPACE/MODEL/TAG` is JSON whose `layers` have a `mediaType`, a `digest` and a `size`.
The layer `application/vnd.ollama.image.model` is a GGUF file, and lies at `blobs/sha256-HEX`. A manifest is
written when its layers are there; a layer that is still coming is called `sha256-HEX-partial`.

The engine tells a format by a file's ending, so each model gets a link in the data home; no byte is copied.
Ollama's own template, system prompt and parameters are not read: the file has its own template.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.library.records import Candidate, Found
from app.library.tree import is_passed_over

_MODEL = "application/vnd.ollama.image.model"
_CHANGES = ("application/vnd.ollama.image.adapter",)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MOST_MANIFEST = 1_000_000
_WILD = re.compile(r"[^A-Za-z0-9._-]+")


def ollama_stores(home: Path) -> list[Path]:
    """OLLAMA_MODELS, else `~/.ollama/models` and, where Ollama is a Linux service, its account's."""
    named = os.environ.get("OLLAMA_MODELS")
    stores = (
        [Path(named)] if named else [home / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]
    )
    return [Path(os.path.realpath(store)) for store in stores if (store / "manifests").is_dir()]


def find_in_store(store: Path, links: Path) -> Found:
    """What the manifests of `store` name; `links` is the folder for links to their files."""
    manifests = store / "manifests"
    candidates: list[Candidate] = []
    unread: list[Path] = []
    for manifest in _manifests(manifests, unread):
        try:
            candidate = _candidate(store, manifest.relative_to(manifests), _read(manifest), links)
        except OSError:
            unread.append(store)
        except ValueError as error:
            candidates.append(_left_out(manifest, f"{manifest} cannot be read ({error!s:.80})"))
        else:
            candidates += [candidate] if candidate else []
    return Found(tuple(candidates), tuple(dict.fromkeys(unread)))


def _manifests(folder: Path, unread: list[Path], depth: int = 4) -> Iterator[Path]:
    """The files HOST/NAMESPACE/MODEL/TAG; a folder that is closed to us is added to `unread`."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted((entry for entry in entries), key=lambda entry: entry.name)
    except OSError:
        unread.append(folder)
        return
    for entry in listed:
        if is_passed_over(entry.name):
            continue
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from _manifests(folder / entry.name, unread, depth - 1)
        elif depth == 1 and entry.is_file():
            yield folder / entry.name


def _read(manifest: Path) -> Mapping[str, Any]:
    """The manifest's JSON object. Raises OSError, and ValueError for what is none."""
    if manifest.stat().st_size > _MOST_MANIFEST:
        raise ValueError("it is too large")
    try:
        value = json.loads(manifest.read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _candidate(store: Path, name: Path, manifest: Mapping[str, Any], links: Path) -> Candidate | None:
    """The model of one manifest; None for one without a model of this form. Raises OSError and ValueError."""
    layers = manifest.get("layers")
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise ValueError("it has no layers")
    models = [layer for layer in layers if layer.get("mediaType") == _MODEL]
    if not models:  # one in the cloud, or of separate tensors
        return None
    _, namespace, model, tag = name.parts
    origin = f"{model}:{tag}" if namespace == "library" else f"{namespace}/{model}:{tag}"
    if len(models) > 1 or any(layer.get("mediaType") in _CHANGES for layer in layers):
        return _left_out(store / "manifests" / name, f"{origin} is put together of several files in Ollama")
    digest = _DIGEST.fullmatch(str(models[0].get("digest")))
    if digest is None:
        raise ValueError("its model has no SHA-256 digest")
    blob = store / "blobs" / f"sha256-{digest[1]}"
    fault = _fault(blob, models[0].get("size"), origin)
    link = links / digest[1][:16] / f"{_WILD.sub('-', origin)}.gguf"
    if not fault:
        fault = _link(link, blob)
    return Candidate(
        key=f"ollama:{name.as_posix()}",
        spare_key=f"ollama:{name.as_posix()}",
        path=link,
        source="ollama",
        origin=origin,
        title=f"{model}:{tag}",
        publisher="" if namespace == "library" else namespace,
        revision="",
        files=(link,),
        fault=fault,
    )


def _fault(blob: Path, size: object, origin: str) -> str:
    try:
        there = blob.stat().st_size
    except FileNotFoundError:
        return f"{origin}: its file {blob.name} is missing in Ollama's store; `ollama pull {origin}` gets it"
    if there != size:
        return f"{origin}: {blob.name} has {there:,} bytes of {size}; `ollama pull {origin}` gets the rest"
    return ""


def _link(link: Path, blob: Path) -> str:
    """Make `link` point to `blob`, at once or not at all; "" or why it cannot."""
    try:
        if os.path.lexists(link) and link.readlink() == blob:
            return ""
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = link.with_name(f".{link.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(blob)
        fresh.replace(link)
    except OSError as error:
        return f"no link to {blob} can be made in {link.parent} ({error.strerror})"
    return ""


def drop_links(links: Path, kept: Collection[Path]) -> None:
    """Delete the links that no model needs any more."""
    with suppress(OSError):
        for link in links.glob("*/*"):
            if link.is_symlink() and link not in kept:
                link.unlink()
                with suppress(OSError):  # another link may be beside it
                    link.parent.rmdir()


def _left_out(manifest: Path, fault: str) -> Candidate:
    key = f"ollama:{manifest}"
    return Candidate(key, key, manifest, "ollama", manifest.name, manifest.name, "", "", (manifest,), fault)
