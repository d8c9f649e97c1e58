"""The values that the library is made of: what a scan finds, what headers tell, and a model as listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.errors import AppError
from app.settings import KvCache

Source = Literal["built in", "hugging face", "lm studio", "ollama", "folder"]
"""Where a model was found; "folder" is one that the user named."""

SOURCES: Mapping[Source, str] = {
    "built in": "built in",
    "hugging face": "Hugging Face",
    "lm studio": "LM Studio",
    "ollama": "Ollama",
    "folder": "folder",
}
"""What people call them."""

State = Literal["here", "gone", "damaged"]
"""A model's files: as they were, no longer there, or no longer whole."""


class LibraryError(AppError):
    """What was asked of the library cannot be done: one line with what to do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Files that may be a model; its headers decide.

    Attributes:
        key: what it is known by, also when its files move on to another revision.
        spare_key: what it is known by when a better candidate has `key`; equal to it where there is none.
        path: the folder or `.gguf` file to open.
        source, origin: where it was found; a repository, another app's name for it, or a folder.
        title: what its name is made of, such as "TinyLlama-1.1B-Chat.Q4_K_M" or "llama3.2:1b".
        publisher: told in the name where two have the same title.
        revision: commit of its repository, "" where there is none.
        files: whose change is a change of the model.
        fault: why it cannot be one, as its surroundings tell; "" leaves that to its headers.
    """

    key: str
    spare_key: str
    path: Path
    source: Source
    origin: str
    title: str
    publisher: str
    revision: str
    files: tuple[Path, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a scan of one source found.

    Attributes:
        candidates: in the order in which they take names and keys.
        unread: places that were there and could not be looked into: what was known there is left as it is.
        notes: what people should know, a line each.
    """

    candidates: tuple[Candidate, ...] = ()
    unread: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model's headers tell; see the engine's ModelOutline for the words.

    Attributes:
        whole: whether this is a model with all its files; else nothing but `problem` is told.
        size: bytes of its files on disk, each counted once.
        problem: why it is not whole or not run here, one line; "" when it is.
    """

    whole: bool
    problem: str = ""
    format: str = ""
    size: int = 0
    family: str = ""
    parameters: int = 0
    quantization: str | None = None
    licence: str = ""
    weight_bytes: int = 0
    context_length: int = 0
    largest_window: int | None = None
    kv_bytes_per_token: int = 0
    fingerprint: str = ""
    vocab_size: int = 0


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of one model; None leaves a thing as it is for all models.

    Attributes:
        context: most tokens of one chat.
        kv_cache: bits of an element of the KV cache, "full" as computed.
        system: what it is told before each chat; "" is nothing.
        draft_model: the name of a smaller model that guesses ahead for it; "" is none.
        temperature, top_k, top_p, min_p, repetition_penalty: how words are drawn; see the engine's
            SamplingParams.
    """

    context: int | None = None
    kv_cache: KvCache | None = None
    system: str = ""
    draft_model: str = ""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def sampling(self) -> dict[str, Any]:
        """The fields of SamplingParams that are set."""
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


NOTHING_SET = ModelSettings()


@dataclass(frozen=True, slots=True)
class Own:
    """What is set for a model that is to be opened.

    Attributes:
        settings: as they are kept.
        draft: where the model is that they name to guess for it.
        problem: why that is not there, one line that says what to do; "" otherwise.
    """

    settings: ModelSettings = NOTHING_SET
    draft: Path | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the library lists it: who it is, where it is, and what its headers tell.

    The engine's `model_fit` takes it as it is. Times are seconds since the epoch.
    """

    key: str
    name: str
    path: Path
    source: Source
    origin: str
    revision: str
    state: State
    favourite: bool
    last_used: float | None
    settings: ModelSettings
    facts: Facts

    @property
    def weight_bytes(self) -> int:
        """Bytes its weights take in memory here."""
        return self.facts.weight_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV memory per token."""
        return self.facts.kv_bytes_per_token

    @property
    def context_length(self) -> int:
        """Tokens its configuration allows."""
        return self.facts.context_length

    @property
    def largest_window(self) -> int | None:
        """Tokens that some layer may still look back on; None when a layer sees everything."""
        return self.facts.largest_window

    @property
    def is_runnable(self) -> bool:
        """Whether it can be opened."""
        return self.state == "here" and not self.facts.problem


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that looks like a model and is none, and why.

    Attributes:
        size: bytes of its files, each counted once; 0 where that is not known.
        repository: in the Hugging Face cache that it lies in, "" elsewhere: such a one can be deleted.
    """

    path: Path
    problem: str
    size: int = 0
    repository: str = ""
