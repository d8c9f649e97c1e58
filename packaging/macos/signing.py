"""In which order the parts of MLXR.app are signed, and with which commands.

Without an identity the signature is ad hoc: the app runs where it was built, and elsewhere after the person
allowed it. With one, the hardened runtime is on, as notarising asks, without entitlements: see docs/macos.md.
"""

from __future__ import annotations

import plistlib
from collections.abc import Iterator
from pathlib import Path

from machos import architectures

BUNDLE_SUFFIXES = {".app", ".bundle", ".framework", ".xpc"}
AD_HOC = "-"


def signing_order(app: Path) -> list[Path]:
    """Everything in `app` that carries a signature of its own, inside out; `app` comes last.

    A bundle's main program is signed with the bundle. Raises OSError where a file cannot be read.
    """
    bundles = [path for path in _real_paths(app) if path.is_dir() and path.suffix in BUNDLE_SUFFIXES]
    mains = {main_program(bundle) for bundle in [app, *bundles]}
    programs = (path for path in _real_paths(app) if path.is_file() and architectures(path))
    parts = [*bundles, *(path for path in programs if path not in mains)]
    return [*sorted(parts, key=lambda path: (-len(path.parts), path)), app]


def main_program(bundle: Path) -> Path:
    """The file that the bundle's own signature covers."""
    if bundle.suffix == ".framework":
        return (bundle / bundle.stem).resolve()
    info = bundle / "Contents" / "Info.plist"
    name = plistlib.loads(info.read_bytes())["CFBundleExecutable"] if info.is_file() else bundle.stem
    return bundle / "Contents" / "MacOS" / name


def sign_command(path: Path, identity: str) -> list[str]:
    """Signs one part; AD_HOC as the identity needs no certificate."""
    hardened = [] if identity == AD_HOC else ["--timestamp", "--options", "runtime"]
    return ["codesign", "--force", "--sign", identity, *hardened, str(path)]


def signing_commands(app: Path, identity: str) -> list[list[str]]:
    """All of it, and the check that it holds."""
    verify = ["codesign", "--verify", "--deep", "--strict", str(app)]
    return [*(sign_command(path, identity) for path in signing_order(app)), verify]


def _real_paths(folder: Path) -> Iterator[Path]:
    """What lies in `folder`, each once: links are left out, and not followed."""
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        yield path
        if path.is_dir():
            yield from _real_paths(path)
