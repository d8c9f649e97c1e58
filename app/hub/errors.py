"""What can go wrong with the Hub; `str()` of each is one line fit to show to a person.

HubError
├── NoSuchChoice     a repository has no such quantisation
├── Unreachable      no network, no such host, a proxy that refuses, no answer in time
├── RateLimited      too many requests; `retry_s` says when to come back
├── BadAnswer        the server failed, or answered something that is not the Hub's
├── NotFound         no such repository, revision or file, or a private one
├── AccessNeeded     a gated repository whose licence this account has not accepted; `url` says where
└── BadToken         a token that is none, or that the Hub does not take
"""

from __future__ import annotations

from app.errors import AppError


class HubError(AppError):
    """Base of them all. No message ever holds a token."""


class NoSuchChoice(HubError):
    """A repository has no such quantisation."""


class Unreachable(HubError):
    """No answer: offline, no such host, a proxy, or too slow."""


class RateLimited(HubError):
    """Too many requests; `retry_s`: seconds to wait, None where the Hub does not say."""

    def __init__(self, message: str, retry_s: int | None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class BadAnswer(HubError):
    """The server failed, or what answered is no Hub."""


class NotFound(HubError):
    """No such repository, revision or file; or a private one, which the Hub does not tell apart."""


class AccessNeeded(HubError):
    """A gated repository.

    Attributes:
        url: the page where its licence is accepted, or access asked for.
        is_pending: whether it was asked for, and nobody has answered yet.
    """

    def __init__(self, message: str, url: str, *, is_pending: bool = False) -> None:
        super().__init__(message)
        self.url = url
        self.is_pending = is_pending


class BadToken(HubError):
    """A token that is none, or that the Hub does not take."""
