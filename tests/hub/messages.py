"""A request as the local hub reads it, the answer it plans, and the refusals the Hub knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub.repos import HubFile


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read completely.

    Args:
        target: path and query as they came.
        headers: by lower-case name.
        on_cdn: it came to the CDN's port.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    on_cdn: bool = False

    @property
    def path(self) -> str:
        """The URL's path as it came."""
        return urlsplit(self.target).path

    @property
    def segments(self) -> list[str]:
        """The parts of the path, decoded one by one: a branch's name may hold an encoded "/"."""
        return [unquote(part) for part in self.path.strip("/").split("/")]

    @property
    def query(self) -> dict[str, list[str]]:
        """The query's values by name; "expand[]" is "expand"."""
        values = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name.removesuffix("[]"): value for name, value in values.items()}

    @property
    def token(self) -> str | None:
        """What follows "Bearer"."""
        kind, _, value = self.headers.get("authorization", "").partition(" ")
        return value if kind.lower() == "bearer" else None


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file, and whose they are, at the commit `sha`."""

    repo_id: str
    sha: str
    path: str
    file: HubFile


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and what follows them: bytes, or a file's content (of which a range may be asked)."""

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | Content = b""


class Refusal(Exception):
    """The Hub's way to say no: a status, its code for programs and its words for people."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.headers = {"X-Error-Message": message, **headers}
        if code is not None:
            self.headers["X-Error-Code"] = code
        self.status = status

    def answer(self) -> Answer:
        """As it goes out."""
        return json_answer({"error": str(self)}, self.status, self.headers)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """`value` as JSON."""
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return Answer(status, kind | dict(headers or {}), json.dumps(value).encode())
