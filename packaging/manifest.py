"""Makes what tells people of a release: the signed list that MLXR asks for, and the download page.

    python packaging/manifest.py FOLDER [--files-at ADDRESS]   # of the files in FOLDER, into FOLDER
    python packaging/manifest.py --new-key                     # a key: what to keep secret, what to build in

The key comes from the environment: MLXR_RELEASE_KEY, 64 hexadecimal digits; several, separated by commas,
while one takes the place of another.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import List, Mapping, Sequence

from download_page import page
from nacl.signing import SigningKey

from app import VERSION
from app.updates.changelog import CHANGELOG, parsed
from app.updates.channel import RELEASES, Channel
from app.updates.choice import LINUX, MACOS_14, MACOS_26
from app.updates.envelope import opened, sealed
from app.updates.errors import UpdateError
from app.updates.manifest import MOST_BYTES, MOST_ENTRIES, Artefact, Manifest, decoded, encoded

VARIABLE = "MLXR_RELEASE_KEY"
LIST, PAGE = "releases.json", "download.html"
FILES: Mapping[str, str] = {
    MACOS_14: f"MLXR-{MACOS_14}.dmg",
    MACOS_26: f"MLXR-{MACOS_26}.dmg",
    LINUX: f"MLXR-{LINUX}.tar.xz",
}
OLDEST: Mapping[str, str] = {MACOS_14: "14.0", MACOS_26: "26.0"}
_KEY = re.compile(r"[0-9a-fA-F]{64}")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the list and the page, or show a new key. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the list of releases and the download page.")
    parser.add_argument("folder", type=Path, nargs="?", help="where the files of the release lie")
    parser.add_argument("--files-at", metavar="ADDRESS", default="", help="where people will find them")
    parser.add_argument("--new-key", action="store_true", help="make a key and show both halves of it")
    arguments = parser.parse_args(argv)
    if arguments.new_key:
        show_new_key()
        return 0
    if arguments.folder is None:
        parser.error("name the folder of the release's files")
    try:
        keys = signing_keys(os.environ)
        manifest = release(arguments.folder, CHANGELOG.read_text("utf-8"), datetime.now(UTC))
        publish(manifest, arguments.folder, keys, RELEASES, arguments.files_at)
    except (OSError, ValueError, UpdateError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def signing_keys(environment: Mapping[str, str]) -> List[SigningKey]:
    """The keys that the environment holds, perhaps none. Raises ValueError, which never shows one."""
    words = [word.strip() for word in environment.get(VARIABLE, "").split(",") if word.strip()]
    if not all(_KEY.fullmatch(word) for word in words):
        raise ValueError(f"{VARIABLE} is not 64 hexadecimal digits; make one with --new-key")
    return [SigningKey(bytes.fromhex(word)) for word in words]


def release(folder: Path, changelog: str, now: datetime) -> Manifest:
    """The list for this version: its files in `folder`, and what CHANGELOG.md says.

    Raises ValueError where a file or the version's part of the changelog is missing, and OSError.
    """
    notes = parsed(changelog).releases
    if not notes or notes[0].version != VERSION:
        raise ValueError(
            "CHANGELOG.md does not begin with this version; turn its Unreleased into "
            f"## [{VERSION}] - {now:%Y-%m-%d}"
        )
    missing = [name for name in FILES.values() if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} has no {', '.join(missing)}; a release has a file for each system")
    artefacts = tuple(artefact(folder / name, system) for system, name in FILES.items())
    return Manifest(now.replace(microsecond=0), VERSION, notes[:MOST_ENTRIES], artefacts)


def artefact(path: Path, system: str) -> Artefact:
    """What the list says of the file at `path`. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Artefact(path.name, path.stat().st_size, digest, system, OLDEST.get(system, ""))


def publish(
    manifest: Manifest, folder: Path, keys: Sequence[SigningKey], channel: Channel, files_at: str
) -> None:
    """Write the page, and the list where there is a key to sign it with; say what is missing.

    Raises ValueError where the apps of `channel` would not take the list.
    """
    (folder / PAGE).write_text(page(manifest, files_at), "utf-8")
    if not keys:
        print(
            f"note: {VARIABLE} is not set, so {LIST} is not made: no MLXR will be told of {manifest.version}",
            file=sys.stderr,
        )
        return
    data = sealed(encoded(manifest), keys)
    if len(data) > MOST_BYTES:
        raise ValueError(f"the list is {len(data)} bytes, more than the {MOST_BYTES} that MLXR reads")
    try:
        taken = decoded(opened(data, channel.keys))
    except UpdateError as error:
        raise ValueError(
            f"MLXR would not take the list ({error}); the public half of {VARIABLE} belongs into keys of "
            "app/updates/channel.py"
        ) from None
    if taken != manifest:
        raise ValueError("the list is read as another than it was written")
    (folder / LIST).write_bytes(data)


def show_new_key() -> None:
    """Print a new key: nothing is written anywhere."""
    key = SigningKey.generate()
    print(f"{VARIABLE}={bytes(key).hex()}")
    print(f"# keep that secret; into keys of app/updates/channel.py: {bytes(key.verify_key).hex()}")


if __name__ == "__main__":
    sys.exit(main())
