"""Writes wheels.txt: which wheels of requirements.lock a Mac gets, on the oldest macOS that MLXR runs on.

    python packaging/macos/wheels.py

uv resolves the lock for Apple silicon, for each Python, by wheels alone, and fails where a package has none.
Needs the network; run it after `make lock`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from bundle_info import OLDEST_MACOS

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
TABLE = Path(__file__).with_name("wheels.txt")
TOOLS_UV = ROOT / ".tools" / "venv" / "bin" / "uv"  # where `make setup` puts it, unless the person has one
PYTHONS = ("3.11", "3.12", "3.13")


def mac_wheels(python: str) -> dict[str, str]:
    """Each wheel's SHA-256 by file name, for Macs with this Python. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "pylock.toml"
        command = [str(TOOLS_UV) if TOOLS_UV.exists() else "uv", "pip", "compile", "--quiet", "--no-deps"]
        command += ["--no-annotate", "--only-binary", ":all:"]
        command += ["--python-platform", "aarch64-apple-darwin", "--python-version", python]
        command += ["--format", "pylock.toml", "--output-file", str(answer), str(LOCK)]
        environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": OLDEST_MACOS}
        subprocess.run(command, env=environment, check=True)
        packages = tomllib.loads(answer.read_text("utf-8"))["packages"]
    wheels = [wheel for package in packages for wheel in package["wheels"]]
    return {wheel["url"].rpartition("/")[2]: wheel["hashes"]["sha256"] for wheel in wheels}


def table() -> str:
    """A line for each wheel, as sha256sum writes them."""
    found = {name: digest for python in PYTHONS for name, digest in mac_wheels(python).items()}
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))


if __name__ == "__main__":
    TABLE.write_text(table(), "utf-8")
    print(f"{TABLE.relative_to(ROOT)} written", file=sys.stderr)
