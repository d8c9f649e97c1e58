"""Why there is no answer about updates; `str()` of each is one line fit to show to a person.

UpdateError
├── CannotCheck   this build knows no address or no key, or the question cannot be noted
├── Offline       nothing reached the server
└── Refused       an answer that is not to be trusted, or none
"""

from __future__ import annotations

from app.errors import AppError


class UpdateError(AppError):
    """Base of them all."""


class CannotCheck(UpdateError):
    """Nothing was asked: no address or key is built in, or it cannot be noted that one asked."""


class Offline(UpdateError):
    """No connection was made, so nobody was asked."""


class Refused(UpdateError):
    """No answer, or one that is not taken: not signed, older than before, too large, wrong."""
