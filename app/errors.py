"""Every error the app raises on purpose; `str()` of each is one line fit to show to a person.

    AppError
    ├── ModelNotFound     the model asked for is nowhere on this machine
    ├── DownloadFailed    a download cannot begin or go on; what was fetched stays
    ├── RequestFailed     the engine answered Failed
    └── UsageError        the command line was used wrongly (exit code 2)

Kept apart from the engine's errors so that importing them does not import mlx.
"""

from __future__ import annotations


class AppError(Exception):
    """Base of the app's deliberate errors: what, where, and what to do."""


class ModelNotFound(AppError):
    """No model is where the caller said."""


class DownloadFailed(AppError):
    """A download cannot begin or go on.

    Attributes:
        is_resumable: whether the same request may succeed later and goes on where it stopped.
    """

    def __init__(self, message: str, *, is_resumable: bool = False) -> None:
        super().__init__(message)
        self.is_resumable = is_resumable


class RequestFailed(AppError):
    """The engine ended a load or a request with Failed.

    Attributes:
        kind: class name of the engine's error, or "Internal".
        detail: the traceback when it was internal, else "".
    """

    def __init__(self, message: str, kind: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


class UsageError(AppError):
    """Arguments that make no sense."""
