"""MLXR.dmg: the commands that make it, who signs, what is said when something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtGui import QImage

Load = Callable[[str], ModuleType]

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "packaging" / "macos" / "disk_image.py"
IDENTITY = {"MLXR_SIGN_IDENTITY": "Developer ID Application: A (B)"}
NOTARY = {"MLXR_NOTARY_KEY": "key.p8", "MLXR_NOTARY_KEY_ID": "K1", "MLXR_NOTARY_ISSUER": "I1"}
APP, STAGING, IMAGE = Path("build/MLXR.app"), Path("build/MLXR.staging"), Path("build/MLXR.dmg")


def commands(macos_module: Load, environment: dict[str, str], app: Path) -> list[list[str]]:
    who = macos_module("notarising").credentials(environment)
    return macos_module("disk_image").image_commands(app, STAGING, IMAGE, who)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "MLXR.app" / "Contents").mkdir(parents=True)
    return tmp_path / "MLXR.app"


def places(made: list[list[str]], *words: str) -> list[int]:
    """Where the commands that begin with these words are."""
    return [i for i, command in enumerate(made) if command[: len(words)] == list(words)]


def test_the_image_is_made_of_the_signed_app_and_notarised_last(macos_module: Load, app: Path) -> None:
    made = commands(macos_module, IDENTITY | NOTARY, app)
    (verified,) = places(made, "codesign", "--verify")
    (copied,) = places(made, "ditto", str(app))
    (created,) = places(made, "hdiutil", "create")
    (attached,) = places(made, "hdiutil", "attach")
    (laid_out,) = places(made, "osascript")
    (detached,) = places(made, "hdiutil", "detach")
    (packed,) = places(made, "hdiutil", "convert")
    (submitted,) = places(made, "xcrun", "notarytool", "submit")
    (stapled,) = places(made, "xcrun", "stapler", "staple")
    signed = places(made, "codesign", "--force")[-1]
    order = [verified, copied, created, attached, laid_out, detached, packed, signed, submitted, stapled]
    assert order == sorted(order)
    assert made[signed][-1] == str(IMAGE)
    assert "ULMO" in made[packed]  # LZMA
    assert made[submitted][3:] == [str(IMAGE), *"--key key.p8 --key-id K1 --issuer I1 --wait".split()]


def test_without_credentials_nothing_is_asked_of_apple(macos_module: Load, app: Path) -> None:
    made = commands(macos_module, {}, app)
    assert places(made, "xcrun") == []
    assert [command[-1] for command in made if command[:2] == ["codesign", "--force"]] == [str(app)]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "signed ad hoc, for this Mac alone, and not notarised: set MLXR_SIGN_IDENTITY, MLXR_NOTARY_KEY"),
        (IDENTITY, "not notarised: set MLXR_NOTARY_KEY, MLXR_NOTARY_KEY_ID, MLXR_NOTARY_ISSUER"),
    ],
)
def test_it_says_in_one_line_what_is_lacking(
    macos_module: Load, environment: dict[str, str], words: str
) -> None:
    lacking = macos_module("notarising").credentials(environment).lacking
    assert words in lacking
    assert "\n" not in lacking


def test_nothing_is_lacking_with_all_of_it(macos_module: Load) -> None:
    assert macos_module("notarising").credentials(IDENTITY | NOTARY).lacking == ""


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (NOTARY, "but not MLXR_SIGN_IDENTITY"),
        (IDENTITY | {"MLXR_NOTARY_KEY": "key.p8"}, "but not MLXR_NOTARY_KEY_ID, MLXR_NOTARY_ISSUER"),
        (IDENTITY | NOTARY | {"MLXR_NOTARY_KEY": ""}, "but not MLXR_NOTARY_KEY$"),
    ],
)
def test_half_of_what_belongs_together_is_an_error(
    macos_module: Load, environment: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        macos_module("notarising").credentials(environment)


def test_the_staging_folder_leads_to_applications(macos_module: Load, tmp_path: Path) -> None:
    module = macos_module("disk_image")
    module.stage(tmp_path / "staging")
    module.stage(tmp_path / "staging")  # what an earlier run left is no hindrance
    assert (tmp_path / "staging" / "Applications").readlink() == Path("/Applications")
    picture = QImage(str(tmp_path / "staging" / ".background" / "background.png"))
    assert (picture.width(), picture.height()) == tuple(2 * points for points in module.POINTS)
    assert round(picture.dotsPerMeterX() * 0.0254) == 144
    middle = picture.pixelColor(picture.width() // 2, 380)
    assert middle != picture.pixelColor(0, 0)  # the arrow


def test_icons_lie_on_the_background(macos_module: Load) -> None:
    layout = macos_module("disk_image").LAYOUT
    assert 'item "MLXR.app" to {170, 190}' in layout
    assert 'item "Applications" to {470, 190}' in layout


@pytest.mark.skipif(sys.platform == "darwin", reason="it says what it needs where that is not")
def test_elsewhere_than_on_a_mac_it_says_so_in_one_line(app: Path) -> None:
    command = [sys.executable, SCRIPT, app, app.with_suffix(".dmg")]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert (
        result.stderr == "error: a disk image is made on a Mac: it needs codesign, hdiutil and the Finder\n"
    )


def test_half_credentials_end_it_before_anything_is_made(app: Path) -> None:
    command = [sys.executable, SCRIPT, app, app.with_suffix(".dmg")]
    environment = os.environ | NOTARY
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("error: MLXR_NOTARY_KEY is set, but not MLXR_SIGN_IDENTITY")
