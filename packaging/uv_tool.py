"""uv, which makes the environment and the lock: the person's own, or one installed with pip into .tools."""

from __future__ import annotations

import os
import shutil
import sys

from pythons import venv_maker
from running import ATTEMPTS, ROOT, SetupError, attempt, output_of, say

TOOLS = ROOT / ".tools"
TOOLS_PYTHON = TOOLS / "venv" / "bin" / "python"
TOOLS_UV = TOOLS / "venv" / "bin" / "uv"


def present_uv() -> str | None:
    """A uv that is here already and runs."""
    uvs = (str(TOOLS_UV), shutil.which("uv"))
    return next((uv for uv in uvs if uv and output_of([uv, "--version"]) is not None), None)


def needs_venv_package() -> bool:
    """Whether uv is absent and no Python here could install it."""
    return present_uv() is None and venv_maker() is None


def find_uv() -> str:
    """The uv to use, fetched first when there is none. Raises SetupError when that cannot be done."""
    found = present_uv()
    if found is not None:
        return found
    python = venv_maker()
    if python is None:
        raise SetupError("no Python here can make virtual environments; install python3-venv, or uv")
    say("fetching uv, which installs the packages")
    shutil.rmtree(TOOLS / "venv", ignore_errors=True)
    attempt([python, "-m", "venv", str(TOOLS / "venv")], "making .tools/venv", attempts=1)
    pip = [str(TOOLS_PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "uv>=0.9"]
    attempt(pip, "fetching uv")
    return str(TOOLS_UV)


def run_uv(*arguments: str, attempts: int = ATTEMPTS) -> None:
    """Run uv in the checkout. Raises SetupError when it keeps failing."""
    attempt([find_uv(), *arguments], f"uv {' '.join(arguments[:2])}", attempts, uv_environment())


def uv_environment() -> dict[str, str]:
    """The environment for uv: patient, and told of pip's package index, which it would not read."""
    environment = {"UV_HTTP_TIMEOUT": "120", **os.environ}
    if "UV_DEFAULT_INDEX" not in environment and "UV_INDEX_URL" not in environment:
        python = str(TOOLS_PYTHON) if TOOLS_PYTHON.exists() else sys.executable
        index = os.environ.get("PIP_INDEX_URL")
        index = index or output_of([python, "-m", "pip", "config", "get", "global.index-url"])
        if index:
            environment["UV_DEFAULT_INDEX"] = index
    return environment
