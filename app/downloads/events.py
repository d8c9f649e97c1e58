"""What a download tells: frozen values, each with the number of the download it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.downloads.wanted import Plan, Wanted


@dataclass(frozen=True, slots=True)
class Queued:
    """The download waits for its turn."""

    id: int
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Prepared:
    """It is known what to fetch. `done` of the plan's bytes are on the disk already, `folder` takes the rest.

    `choice` is the one that was made in the repository, such as "q4_k_m"; "" where there was none to make.
    """

    id: int
    plan: Plan
    choice: str
    done: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes on the disk, of all.

    Attributes:
        file: the file that grew last.
        rate: bytes a second over the last seconds; 0 when nothing came.
        seconds_left: at that rate; None when there is none.
    """

    id: int
    file: str
    done: int
    total: int
    rate: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Retrying:
    """Something went wrong that may pass: `why` for people; tried again in `seconds`."""

    id: int
    file: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Verifying:
    """Bytes that lie on the disk are read and summed up."""

    id: int
    file: str


@dataclass(frozen=True, slots=True)
class Paused:
    """It stopped because somebody said so; what was fetched stays."""

    id: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It is given up, and the unfinished files are gone."""

    id: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Every file is there and verified.

    Attributes:
        path: what `--model` takes: a folder, or the (first) GGUF file; or the one file that was asked for.
        fetched: bytes that came over the network now.
    """

    id: int
    plan: Plan
    path: Path
    fetched: int


@dataclass(frozen=True, slots=True)
class Failed:
    """It ended without a model. `words` is one line; when `is_resumable`, asking again goes on from there."""

    id: int
    words: str
    is_resumable: bool


DownloadEvent = Queued | Prepared | Progress | Retrying | Verifying | Paused | Cancelled | Finished | Failed
END = (Paused, Cancelled, Finished, Failed)
"""After one of these a download does nothing more until it is resumed."""
