"""`make app` on a Mac: MLXR.app of the wheels of one target, in an environment of its own.

    MLXR_MACOS=14 python packaging/macos/freezing.py     # or 26

The environment of `make setup` has the wheels for this Mac, which an older macOS may not load.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from running import ROOT, SetupError
from targets import Target, chosen
from uv_tool import run_uv

SPEC = Path(__file__).with_name("app.spec")
LOCK = "requirements.lock"
PLATFORM = ("--python-platform", "aarch64-apple-darwin")


def main() -> int:
    """Build the app that MLXR_MACOS names. Returns the exit code."""
    try:
        target = chosen()
        check_machine(target, platform.mac_ver()[0])
        python = make_environment(target)
        check_wheel(target, python)
        return subprocess.run(freeze_command(target, python), cwd=ROOT, check=False).returncode
    except (ValueError, SetupError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def check_machine(target: Target, macos: str) -> None:
    """Raises ValueError where the target's MLX cannot be loaded, as freezing does. `macos`: "15.5", or ""."""
    if not macos:
        raise ValueError("MLXR.app is made on a Mac")
    if int(macos.split(".")[0]) < int(target.name):
        raise ValueError(
            f"the app for macOS {target.name} is made on macOS {target.name} or later; this is {macos}"
        )


def environment_folder(target: Target) -> Path:
    """Where the target's Python and packages are."""
    return ROOT / "build" / f"macos{target.name}"


def make_environment(target: Target) -> Path:
    """Install the lock's wheels for the target's oldest macOS, and MLXR itself. Returns the Python."""
    folder = environment_folder(target)
    python = folder / "bin" / "python"
    for command in environment_commands(target):
        # How uv is told of an older macOS: https://docs.astral.sh/uv/reference/cli/#uv-pip-sync--python-platform
        os.environ["MACOSX_DEPLOYMENT_TARGET"] = target.oldest
        run_uv(*command)
    return python


def environment_commands(target: Target) -> list[list[str]]:
    """What uv is asked for, in order."""
    folder = str(environment_folder(target))
    own = ["--offline", "--no-deps", "--no-build-isolation", "--editable", "."]
    return [
        ["venv", "--quiet", "--no-project", "--allow-existing", "--python", sys.executable, folder],
        ["pip", "sync", "--require-hashes", *PLATFORM, "--python", folder, LOCK],
        ["pip", "install", "--quiet", "--python", folder, *own],
    ]


def check_wheel(target: Target, python: Path) -> None:
    """Raises ValueError unless MLX's shaders are those of the target."""
    (found,) = python.parents[1].glob("lib/python3.*/site-packages/mlx_metal-*.dist-info/WHEEL")
    tag = f"macosx_{target.oldest.replace('.', '_')}_arm64"
    if tag not in found.read_text("utf-8"):
        raise ValueError(f"uv did not install mlx-metal for {tag}; remove {found.parents[4]} and try again")


def freeze_command(target: Target, python: Path) -> list[str]:
    """PyInstaller's, with the folders of this target."""
    out, work = f"build/app/macos{target.name}", f"build/freezing/macos{target.name}"
    options = ["--noconfirm", "--log-level", "WARN", "--distpath", out, "--workpath", work]
    return [str(python), "-m", "PyInstaller", *options, str(SPEC.relative_to(ROOT))]


if __name__ == "__main__":
    sys.exit(main())
