"""Where MLXR asks for updates, and whose word it takes: the one place where this is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Channel:
    """A place that releases are told at.

    Attributes:
        manifest: the https address of the signed list of releases; "" where there is none yet.
        page: the https address of the page that people download from; "" where there is none yet.
        keys: the public Ed25519 keys, each as 64 hexadecimal digits. A list that any one of them signed is
            taken, so a new key can be in use before the old one is gone.
    """

    manifest: str
    page: str
    keys: tuple[str, ...]

    @property
    def can_check(self) -> bool:
        """Whether there is somebody to ask, and a key to check the answer with."""
        return bool(self.manifest and self.keys)


RELEASES = Channel(manifest="", page="", keys=())
"""Nothing is published yet, so there is no address and no key. docs/updates.md tells how both come here."""
