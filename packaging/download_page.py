"""The download page: one file of HTML that loads nothing, with the files of a release and who takes which."""

from __future__ import annotations

from html import escape
from typing import Mapping, Tuple

from app.updates.choice import LINUX, MACOS_14, MACOS_26
from app.updates.manifest import Artefact, Manifest

# System: what it is for, and a sentence about who takes it.
WHO: Mapping[str, Tuple[str, str]] = {
    MACOS_14: (
        "Macs with Apple silicon",
        "For every Mac with an M1 or later, on macOS 14 or later. If you are not sure, take this one.",
    ),
    MACOS_26: (
        "Macs with an M5 or later, on macOS 26",
        "MLX uses the matrix units of an M5 here, from macOS 26.2 on. Other Macs gain nothing by it, and it "
        "does not start on an earlier macOS.",
    ),
    LINUX: (
        "Linux, x86_64",
        "A folder that needs no Python: unpack it, and run MLXR/mlxr. It computes on the processor.",
    ),
}

HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Download MLXR</title>
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
  section { border: 1px solid #8886; border-radius: 10px; padding: 0 1.2rem; margin: 1rem 0; }
  code { font-size: 0.8rem; overflow-wrap: anywhere; }
  .small { font-size: 0.9rem; opacity: 0.8; }
</style>
"""

FOOT = """\
<p class="small">An app that is not notarised is stopped at its first start on a Mac: open System Settings,
Privacy &amp; Security, and press “Open Anyway” beside MLXR.</p>
<p class="small">To check a file: <code>shasum -a 256 FILE</code> on a Mac,
<code>sha256sum FILE</code> on Linux.</p>
</html>
"""


def page(manifest: Manifest, files_at: str) -> str:
    """The page for `manifest`; the files are at the address `files_at`, beside the page where that is ""."""
    start = f"{files_at.rstrip('/')}/" if files_at else ""
    day = f"{manifest.date.day} {manifest.date:%B %Y}"
    head = f'<h1>MLXR {escape(manifest.version)}</h1>\n<p class="small">{day}</p>\n'
    parts = "".join(_part(artefact, start) for artefact in manifest.artefacts)
    return f"{HEAD}{head}{parts}{FOOT}"


def _part(artefact: Artefact, start: str) -> str:
    title, sentence = WHO[artefact.system]
    address = escape(f"{start}{artefact.file}", quote=True)
    return (
        f'<section id="{artefact.system}">\n<h2>{escape(title)}</h2>\n<p>{escape(sentence)}</p>\n'
        f'<p><a href="{address}">{escape(artefact.file)}</a>, {artefact.size / 1e6:.0f} MB</p>\n'
        f'<p class="small">SHA-256 <code>{artefact.sha256}</code></p>\n</section>\n'
    )
