"""What the local hub serves: repositories and their files, with the names and sums the Hub gives them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import yaml

CARD = "README.md"
LONG_AGO = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass(frozen=True)
class HubFile:
    """One file of a repository.

    Args:
        data: the content, or the path of a file on disk that holds it.
        lfs: stored beside git, as weights are: known by its sha256 and served through a redirect to the CDN.
        xet: announced as stored in Xet too (the headers and fields only: the local hub has no Xet store, and
            a client that insists on one gets 404 when it asks for a token).
        listed_size: the size that listings and headers claim instead of the true one.
        listed_sha256: the sum that listings and headers claim instead of the true one (`lfs` only).
    """

    data: bytes | Path
    lfs: bool = False
    xet: bool = False
    listed_size: int | None = None
    listed_sha256: str | None = None

    def read(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop) of the content."""
        if isinstance(self.data, bytes):
            return self.data[start:stop]
        with self.data.open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    @cached_property
    def true_size(self) -> int:
        """Bytes there are."""
        return len(self.data) if isinstance(self.data, bytes) else self.data.stat().st_size

    @property
    def size(self) -> int:
        """Bytes there are said to be."""
        return self.true_size if self.listed_size is None else self.listed_size

    @cached_property
    def true_sha256(self) -> str:
        """The sum of the content, in hex."""
        if isinstance(self.data, bytes):
            return hashlib.sha256(self.data).hexdigest()
        with self.data.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def sha256(self) -> str:
        """The sum that is claimed."""
        return self.listed_sha256 or self.true_sha256

    @cached_property
    def pointer(self) -> bytes:
        """What git holds in the place of an LFS file (its specification, version 1)."""
        lines = (
            "version https://git-lfs.github.com/spec/v1",
            f"oid sha256:{self.sha256}",
            f"size {self.size}",
        )
        return "".join(f"{line}\n" for line in lines).encode()

    @cached_property
    def blob_id(self) -> str:
        """git's name of the file: the sha1 of the blob it holds, of the pointer when `lfs`."""
        blob = self.pointer if self.lfs else self.read(0, self.true_size)
        return hashlib.sha1(f"blob {len(blob)}\0".encode() + blob).hexdigest()

    @property
    def etag(self) -> str:
        """The name of the blob in a client's cache: sha256 when `lfs`, else git's."""
        return self.sha256 if self.lfs else self.blob_id

    @cached_property
    def cdn_etag(self) -> str:
        """The ETag of the bytes themselves; as on the Hub, for LFS files it is *not* the sha256 of `etag`."""
        if not self.lfs:
            return self.blob_id
        return hashlib.md5(self.true_sha256.encode()).hexdigest() + "-1"

    @property
    def xet_hash(self) -> str | None:
        """64 hex digits of Xet's own, when `xet`."""
        return hashlib.sha256(b"xet" + self.sha256.encode()).hexdigest() if self.xet else None


@dataclass(frozen=True)
class Repo:
    """A model repository at one commit.

    Args:
        id: "organisation/name", or a bare name as the oldest models have.
        files: by path, "/" between folders; plain bytes are small files kept in git.
        card: the text of README.md; a front matter is put before it unless it brings its own.
        gated: False, or how access is granted: "auto" (on asking) or "manual".
        safetensors: parameters by dtype, as the Hub counts them: {"BF16": 1_000_000}.
        gguf: what the Hub read in the GGUF header: {"architecture": …, "context_length": …, "total": …}.
    """

    id: str
    files: Mapping[str, bytes | HubFile] = field(default_factory=dict[str, "bytes | HubFile"])
    downloads: int = 0
    likes: int = 0
    trending: int = 0
    tags: tuple[str, ...] = ()
    gated: Literal[False, "manual", "auto"] = False
    private: bool = False
    last_modified: datetime = LONG_AGO
    created_at: datetime = LONG_AGO
    card: str | None = None
    license: str | None = None
    pipeline_tag: str | None = None
    library: str | None = None
    safetensors: Mapping[str, int] | None = None
    gguf: Mapping[str, Any] | None = None

    @classmethod
    def from_folder(cls, repo_id: str, folder: Path, **more: Any) -> Repo:
        """A repository of the files in `folder`, served from there; weights are LFS files."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files: dict[str, bytes | HubFile] = {
            path.relative_to(folder).as_posix(): HubFile(path, lfs=path.suffix in (".safetensors", ".gguf"))
            for path in paths
        }
        return cls(repo_id, files, **more)

    @property
    def author(self) -> str | None:
        """The organisation or user it belongs to."""
        return self.id.split("/")[0] if "/" in self.id else None

    @cached_property
    def tree(self) -> dict[str, HubFile]:
        """Every file by path, sorted, README.md made from the card included."""
        files = {path: f if isinstance(f, HubFile) else HubFile(f) for path, f in self.files.items()}
        if CARD not in files and (self.card is not None or self.license is not None):
            files[CARD] = HubFile(self._readme().encode())
        return dict(sorted(files.items()))

    @cached_property
    def all_tags(self) -> list[str]:
        """The tags given, and those the Hub works out."""
        suffixes = {Path(path).suffix for path in self.tree}
        found = [name for name in ("safetensors", "gguf") if f".{name}" in suffixes]
        extra = [self.library, self.pipeline_tag, self.license and f"license:{self.license}"]
        return list(dict.fromkeys([*self.tags, *found, *(tag for tag in extra if tag)]))

    @cached_property
    def card_data(self) -> dict[str, Any] | None:
        """The front matter of README.md."""
        readme = self.tree.get(CARD)
        parts = readme.read(0, readme.true_size).decode().split("---\n", 2) if readme else []
        return yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None

    @cached_property
    def config(self) -> dict[str, Any] | None:
        """What the Hub keeps of config.json and tokenizer_config.json."""
        config = self._json("config.json")
        if config is None:
            return None
        kept = {
            key: config[key]
            for key in ("architectures", "model_type", "quantization_config")
            if key in config
        }
        tokenizer = self._json("tokenizer_config.json")
        return kept | ({"tokenizer_config": tokenizer} if tokenizer is not None else {})

    @cached_property
    def sha(self) -> str:
        """The commit's name: another for other content."""
        listing = json.dumps([self.id, [(path, file.blob_id) for path, file in self.tree.items()]])
        return hashlib.sha1(f"{listing}{self.last_modified}".encode()).hexdigest()

    def folder_oid(self, folder: str) -> str:
        """A stand-in for git's name of a folder: another for other content."""
        inside = [
            f"{path}{file.blob_id}" for path, file in self.tree.items() if path.startswith(f"{folder}/")
        ]
        return hashlib.sha1("".join(inside).encode()).hexdigest()

    def _readme(self) -> str:
        if self.card is not None and self.card.startswith("---\n"):
            return self.card
        known = {"license": self.license, "library_name": self.library, "pipeline_tag": self.pipeline_tag}
        matter: dict[str, Any] = {key: value for key, value in known.items() if value}
        if self.tags:
            matter["tags"] = list(self.tags)
        front = f"---\n{yaml.safe_dump(matter)}---\n" if matter else ""
        return f"{front}{self.card or ''}"

    def _json(self, path: str) -> dict[str, Any] | None:
        file = self.tree.get(path)
        if file is None:
            return None
        try:
            found: Any = json.loads(file.read(0, file.true_size))
        except ValueError:  # a broken file is a repository's right; the Hub then shows nothing of it
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None
