"""What is known of candidates on this machine, as values: for the cache, for choosing, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

Status = Literal[
    "chosen", "slower", "disagrees", "does not compile", "hangs", "died", "unsupported", "untried", "trying"
]

FAILED: frozenset[Status] = frozenset({"disagrees", "does not compile", "hangs", "died", "unsupported"})
"""Verdicts that hold for a kernel's text on a machine: it is not launched again."""

_OPEN: frozenset[Status] = frozenset({"untried", "trying"})


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """One candidate of an op.

    Attributes:
        name: of the candidate; the first of an op is MLX's built-in.
        digest: hash of the kernel's text; "" for the built-in.
        status: what became of it. "trying" is written down before it is launched.
        error: largest difference from the reference as a share of the largest value; None if unknown or NaN.
        microseconds: of one launch in a chain of dependent ones, the median; None if not timed.
        reason: why, for people.
    """

    name: str
    digest: str
    status: Status = "untried"
    error: float | None = None
    microseconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OpRecord:
    """An op at a shape class: its candidates, and the name of the one that runs."""

    key: str
    chosen: str
    candidates: tuple[CandidateRecord, ...]

    @property
    def is_settled(self) -> bool:
        """Whether every candidate has its verdict."""
        return not any(candidate.status in _OPEN for candidate in self.candidates)

    def fits(self, digests: Mapping[str, str]) -> bool:
        """Whether these are the candidates, by name and digest, that the record is about."""
        return {candidate.name: candidate.digest for candidate in self.candidates} == dict(digests)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        return asdict(self)


def from_json(value: object) -> OpRecord:
    """Reads `OpRecord.as_json`. Raises ValueError, TypeError or KeyError when it is something else."""
    entry = _mapping(value)
    candidates = entry["candidates"]
    if not isinstance(candidates, list):
        raise TypeError("candidates are a list")
    read = tuple(_candidate(item) for item in cast("list[object]", candidates))
    chosen = _text(entry["chosen"])
    if chosen not in {candidate.name for candidate in read}:
        raise ValueError("the chosen one is no candidate")
    return OpRecord(_text(entry["key"]), chosen, read)


def _candidate(value: object) -> CandidateRecord:
    entry = _mapping(value)
    status = _text(entry["status"])
    if status not in get_args(Status):
        raise ValueError("no such status")
    return CandidateRecord(
        _text(entry["name"]),
        _text(entry["digest"]),
        cast("Status", status),
        _number(entry["error"]),
        _number(entry["microseconds"]),
        _text(entry["reason"]),
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("an object is expected")
    return cast("Mapping[str, object]", value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text is expected")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("a number is expected")
    return float(value)
