"""The system's keychain, of macOS or the Secret Service on Linux: one secret for each server.

Only these are used, whatever keyring is set to: some of its other backends write plain files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from app.errors import AppError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "MLXR"
T = TypeVar("T")


class NoKeychain(AppError):
    """The keychain is missing, locked, or refuses; the message says which, and never holds a secret."""


class Keychain(Protocol):
    """Where secrets are kept. Every method raises NoKeychain, one line."""

    def get(self, account: str) -> str | None:
        """The secret of `account`, None where there is none."""
        ...

    def set(self, account: str, secret: str) -> None:
        """Keep a secret, in the place of an earlier one."""
        ...

    def delete(self, account: str) -> None:
        """Forget a secret, if there is one."""
        ...


class SystemKeychain:
    """See Keychain. The system may ask the user for permission, so that a call can take long."""

    def get(self, account: str) -> str | None:
        """See Keychain."""
        return _asked(lambda backend: backend.get_password(SERVICE, account))

    def set(self, account: str, secret: str) -> None:
        """See Keychain."""
        _asked(lambda backend: backend.set_password(SERVICE, account, secret))

    def delete(self, account: str) -> None:
        """See Keychain."""
        if self.get(account) is not None:
            _asked(lambda backend: backend.delete_password(SERVICE, account))


def _asked(question: Callable[[KeyringBackend], T]) -> T:
    from keyring.errors import KeyringLocked

    backend = _backend()
    try:
        return question(backend)
    except KeyringLocked:
        raise NoKeychain("the system's keychain is locked; unlock it and try again") from None
    except Exception as error:  # noqa: BLE001 — backends raise whatever their system's libraries do
        raise NoKeychain(
            f"the system's keychain refused ({type(error).__name__}); open it and look"
        ) from None


def _backend() -> KeyringBackend:
    # Imported here: the window does not need them to open.
    if sys.platform == "darwin":
        from keyring.backends.macOS import Keyring
    else:
        from keyring.backends.SecretService import Keyring
    if not Keyring.viable:
        raise NoKeychain(
            "this system has no keychain that is running (the Secret Service, such as GNOME Keyring)"
        )
    return Keyring()
