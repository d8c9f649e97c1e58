"""The frozen app for Linux as people have it: in an awkward folder, run without a network and programs."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = "MLXR_FROZEN_APP"
"""Names a folder that `make app` built: it is tried, instead of another one built for the tests."""

PATIENCE = 60.0  # seconds
_APART = ("--map-root-user", "--net", "--mount")


@pytest.fixture(scope="session")
def frozen_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app's folder as the build left it."""
    if given := os.environ.get(BUILT):
        return Path(given).absolute()
    out = tmp_path_factory.mktemp("out")
    build = [sys.executable, str(ROOT / "packaging" / "freeze.py"), "--no-archive", "--out", str(out)]
    subprocess.run(build, check=True)
    return out / "MLXR"


@pytest.fixture(scope="session")
def frozen_folder(frozen_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app's folder in another place, with a space and letters outside ASCII in its name."""
    folder = tmp_path_factory.mktemp("there") / "Größe, 大 & klein" / "MLXR"
    folder.parent.mkdir()
    return shutil.copytree(frozen_build, folder, symlinks=True)


@pytest.fixture(scope="session")
def confined() -> list[str]:
    """Starts a program without a network and with mounts of its own."""
    command = [shutil.which("unshare") or "unshare", *_APART]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip(
            "this machine allows no namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return command


class Mlxr:
    """`mlxr` with a home of its own, no program on PATH and none of Python's variables."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self.home, self.data = home, home / "data"
        self._command = [*command]
        home.mkdir(exist_ok=True)

    def environment(self, **more: str) -> dict[str, str]:
        known = {"HOME": str(self.home), "MLXR_HOME": str(self.data), "PATH": "", "LANG": "C.UTF-8"}
        return {**known, **more}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`mlxr` with these arguments, in the home, its standard input empty."""
        return subprocess.run(
            [*self._command, *arguments],
            cwd=self.home,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    @contextlib.contextmanager
    def window(self, display: str) -> Generator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self._command,
            env=self.environment(DISPLAY=display),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            except Exception as error:
                process.kill()
                error.add_note(f"the window's process said: {process.communicate()[0]!r}")
                raise
            finally:
                process.kill()


@pytest.fixture
def frozen(frozen_folder: Path, confined: list[str], tmp_path: Path) -> Mlxr:
    """The app, its folder read-only."""
    mount, folder = shutil.which("mount") or "mount", shlex.quote(str(frozen_folder))
    script = f'{mount} --bind {folder} {folder} && {mount} -o remount,ro,bind {folder} && exec "$@"'
    return Mlxr([*confined, "/bin/sh", "-c", script, "sh", str(frozen_folder / "mlxr")], tmp_path / "frozen")


@pytest.fixture
def unfrozen(confined: list[str], tmp_path: Path) -> Mlxr:
    """`mlxr` of this checkout, from the same home but for its name."""
    return Mlxr([*confined, sys.executable, "-P", "-m", "app"], tmp_path / "checkout")
