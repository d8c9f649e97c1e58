"""Writes wheels-macos14.txt and wheels-macos26.txt: the wheels of requirements.lock for each MLXR.app.

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

from targets import TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
TOOLS_UV = ROOT / ".tools" / "venv" / "bin" / "uv"  # where `make setup` puts it, unless the person has one
PYTHONS = ("3.11", "3.12", "3.13")


def mac_wheels(target: Target, python: str) -> dict[str, str]:
    """Each wheel's SHA-256 by file name, for a target's macOS and this Python. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "pylock.toml"
        command = [str(TOOLS_UV) if TOOLS_UV.exists() else "uv", "pip", "compile", "--quiet", "--no-deps"]
        command += ["--no-annotate", "--only-binary", ":all:"]
        command += ["--python-platform", "aarch64-apple-darwin", "--python-version", python]
        command += ["--format", "pylock.toml", "--output-file", str(answer), str(LOCK)]
        environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": target.oldest}
        subprocess.run(command, env=environment, check=True)
        packages = tomllib.loads(answer.read_text("utf-8"))["packages"]
    wheels = [wheel for package in packages for wheel in package["wheels"]]
    return {wheel["url"].rpartition("/")[2]: wheel["hashes"]["sha256"] for wheel in wheels}


def table(target: Target) -> str:
    """A line for each wheel, as sha256sum writes them."""
    found = {name: digest for python in PYTHONS for name, digest in mac_wheels(target, python).items()}
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))


if __name__ == "__main__":
    for target in TARGETS.values():
        target.wheels.write_text(table(target), "utf-8")
        print(f"{target.wheels.relative_to(ROOT)} written", file=sys.stderr)
