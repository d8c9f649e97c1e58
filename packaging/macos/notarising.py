"""What is needed to have Apple vouch for MLXR, read from the environment, and the commands that ask for it.

Commands: https://developer.apple.com/documentation/security/customizing-the-notarization-workflow
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from signing import AD_HOC

IDENTITY = "MLXR_SIGN_IDENTITY"  # "Developer ID Application: NAME (TEAM)", in a keychain that is open
KEY = "MLXR_NOTARY_KEY"  # the file of an App Store Connect key, .p8
KEY_ID = "MLXR_NOTARY_KEY_ID"
ISSUER = "MLXR_NOTARY_ISSUER"
NOTARY = (KEY, KEY_ID, ISSUER)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who signs, and as whom Apple is asked: both, the first alone, or neither."""

    identity: str
    notary: tuple[str, str, str] | None  # key file, key id, issuer

    @property
    def lacking(self) -> str:
        """One line on what the image will not be and what would make it so; "" for nothing."""
        if self.identity == AD_HOC:
            return (
                f"signed ad hoc, for this Mac alone, and not notarised: set {', '.join((IDENTITY, *NOTARY))}"
            )
        if self.notary is None:
            return f"signed as {self.identity}, not notarised: set {', '.join(NOTARY)}"
        return ""


def credentials(environment: Mapping[str, str]) -> Credentials:
    """Raises ValueError, in words for a person, where a part of what belongs together is missing."""
    identity = environment.get(IDENTITY, "")
    given = [name for name in NOTARY if environment.get(name)]
    missing = [name for name in NOTARY if name not in given]
    if given and not identity:
        raise ValueError(f"{given[0]} is set, but not {IDENTITY}: only what is signed can be notarised")
    if given and missing:
        raise ValueError(f"{given[0]} is set, but not {', '.join(missing)}")
    key, key_id, issuer = (environment.get(name, "") for name in NOTARY)
    return Credentials(identity or AD_HOC, (key, key_id, issuer) if given else None)


def notarising_commands(image: Path, notary: tuple[str, str, str]) -> list[list[str]]:
    """Has Apple check the image, which takes minutes, and fastens its answer for Macs that are offline."""
    key, key_id, issuer = notary
    login = ["--key", key, "--key-id", key_id, "--issuer", issuer]
    return [
        ["xcrun", "notarytool", "submit", str(image), *login, "--wait"],
        ["xcrun", "stapler", "staple", str(image)],
        ["xcrun", "stapler", "validate", str(image)],
    ]
