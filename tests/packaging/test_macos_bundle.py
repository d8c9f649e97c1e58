"""MLXR.app as far as it can be seen without a Mac: its Info.plist, what the check finds, signing."""

from __future__ import annotations

import plistlib
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from app import VERSION
from app.bad_start import CONTENTS
from app.opening.link import SCHEME
from app.opening.target import GGUF
from app.store.chat_file import SUFFIX

Load = Callable[[str], ModuleType]

ROOT = Path(__file__).resolve().parent.parent.parent
ARM64, X86_64 = 0x0100000C, 0x01000007


def thin(processor: int) -> bytes:
    """The head of a Mach-O file for one processor."""
    return struct.pack("<7I", 0xFEEDFACF, processor, 0, 6, 0, 0, 0)


def fat(*processors: int) -> bytes:
    """The head of a Mach-O file for several."""
    table = b"".join(struct.pack(">5I", processor, 0, 4096, 64, 12) for processor in processors)
    return struct.pack(">2I", 0xCAFEBABE, len(processors)) + table


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A bundle with the parts that matter, as PyInstaller lays them out: heads of programs, real links."""
    app = tmp_path / "MLXR.app"
    contents = app / "Contents"
    info = subprocess.run(
        [sys.executable, ROOT / "packaging" / "macos" / "bundle_info.py", tmp_path / "Info.plist"],
        check=False,
    )
    assert info.returncode == 0
    write(contents / "Info.plist", (tmp_path / "Info.plist").read_bytes())
    write(contents / "MacOS" / "MLXR", thin(ARM64))
    write(contents / "Resources" / "MLXR.icns", b"icns")
    write(contents / "Resources" / "mlx" / "lib" / "mlx.metallib", b"MTLB")
    write(contents / "Resources" / "licences" / "licences.json", b"[]")
    write(contents / "Resources" / "Version.class", bytes.fromhex("cafebabe00000034") + bytes(400))
    frameworks = contents / "Frameworks"
    write(frameworks / "mlx" / "lib" / "libmlx.dylib", thin(ARM64))
    (frameworks / "mlx" / "lib" / "mlx.metallib").symlink_to("../../../Resources/mlx/lib/mlx.metallib")
    write(contents / "Resources" / CONTENTS, b'{"mlx/lib/mlx.metallib": 4}')
    (frameworks / CONTENTS).symlink_to(f"../Resources/{CONTENTS}")
    qt = frameworks / "PySide6" / "Qt"
    write(qt / "plugins" / "platforms" / "libqcocoa.dylib", fat(X86_64, ARM64))
    core = qt / "lib" / "QtCore.framework"
    write(core / "Versions" / "A" / "QtCore", fat(X86_64, ARM64))
    (core / "Versions" / "Current").symlink_to("A")
    (core / "QtCore").symlink_to("Versions/Current/QtCore")
    (frameworks / "QtCore").symlink_to("PySide6/Qt/lib/QtCore.framework/Versions/A/QtCore")
    return app


def test_info_names_the_version_the_system_and_the_icon(app: Path) -> None:
    info = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    assert (info["CFBundleShortVersionString"], info["CFBundleVersion"]) == (VERSION, VERSION)
    assert info["LSMinimumSystemVersion"] == "14.0"
    assert re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", info["CFBundleIdentifier"])
    assert info["CFBundleExecutable"] == "MLXR"
    assert info["CFBundleDocumentTypes"][0]["CFBundleTypeExtensions"] == ["gguf"]


def test_links_and_chats_are_declared_as_what_the_app_opens(app: Path) -> None:
    info = plistlib.loads((app / "Contents" / "Info.plist").read_bytes())
    (links,) = info["CFBundleURLTypes"]
    assert links["CFBundleURLSchemes"] == [SCHEME.removesuffix(":")]
    models, chats = info["CFBundleDocumentTypes"]
    assert models["CFBundleTypeExtensions"] == [GGUF.removeprefix(".")]
    (declared,) = info["UTExportedTypeDeclarations"]
    assert chats["LSItemContentTypes"] == [declared["UTTypeIdentifier"]]
    assert chats["LSHandlerRank"] == "Owner"
    assert declared["UTTypeConformsTo"] == ["public.json"]
    tags = declared["UTTypeTagSpecification"]
    assert tags["public.filename-extension"] == [SUFFIX.removeprefix(".")]
    entry = (ROOT / "packaging" / "linux" / "mlxr.desktop").read_text("utf-8")
    assert f";{tags['public.mime-type'][0]};" in entry
    for kind in (models, chats, links, declared):  # a name with other letters is refused without words
        for key in ("CFBundleURLName", "UTTypeIdentifier"):
            assert re.fullmatch(r"[A-Za-z0-9.-]+", kind.get(key, "a"))


def test_processors_are_read_from_the_head(macos_module: Load, tmp_path: Path) -> None:
    architectures = macos_module("machos").architectures
    assert architectures(write(tmp_path / "thin", thin(ARM64))) == ("arm64",)
    assert architectures(write(tmp_path / "fat", fat(X86_64, ARM64))) == ("x86_64", "arm64")
    assert architectures(write(tmp_path / "class", bytes.fromhex("cafebabe00000034") + bytes(400))) == ()
    assert architectures(write(tmp_path / "short", b"\xcf\xfa")) == ()
    assert ("arm64" in architectures(Path(sys.executable))) == (sys.platform == "darwin")


def test_a_whole_bundle_has_no_problems(macos_module: Load, app: Path) -> None:
    assert macos_module("bundle_check").problems(app) == []


def lose(name: str) -> Callable[[Path], None]:
    return lambda contents: (contents / name).unlink()


def leave_the_bundle(contents: Path) -> None:
    (contents / "Frameworks" / "out").symlink_to("/usr/lib")


def lower_the_system(contents: Path) -> None:
    path = contents / "Info.plist"
    path.write_bytes(path.read_bytes().replace(b"14.0", b"11.0"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lose("Resources/mlx/lib/mlx.metallib"), "mlx/lib/mlx.metallib is missing"),
        (lose("Resources/licences/licences.json"), "licences/licences.json is missing"),
        (lose("Frameworks/PySide6/Qt/plugins/platforms/libqcocoa.dylib"), "libqcocoa.dylib is missing"),
        (
            lambda contents: write(contents / "Resources/mlx/lib/mlx.metallib", b"cut"),
            "MLXR is damaged: mlx/lib/mlx.metallib is missing or not whole",
        ),
        (lose("Resources/MLXR.icns"), "Resources/MLXR.icns is missing"),
        (lose("MacOS/MLXR"), "MacOS/MLXR is missing"),
        (lose("Info.plist"), "Info.plist cannot be read"),
        (lambda contents: write(contents / "Info.plist", b"<plist>"), "Info.plist cannot be read"),
        (lambda contents: write(contents / "Info.plist", b"no plist"), "Info.plist cannot be read"),
        (lower_the_system, "LSMinimumSystemVersion is '11.0', not '14.0'"),
        (leave_the_bundle, "Frameworks/out links to /usr/lib, which is not in the bundle"),
        (lambda contents: write(contents / "notes.txt", b""), "notes.txt does not belong in Contents"),
        (
            lambda contents: write(contents / "Frameworks" / "old.so", thin(X86_64)),
            "old.so is for x86_64 alone",
        ),
    ],
)
def test_each_damage_is_named(
    macos_module: Load, app: Path, damage: Callable[[Path], object], words: str
) -> None:
    damage(app / "Contents")
    assert any(words in problem for problem in macos_module("bundle_check").problems(app))


def test_a_folder_that_is_no_bundle_is_named(macos_module: Load, tmp_path: Path) -> None:
    (problem,) = macos_module("bundle_check").problems(tmp_path)
    assert "is no bundle" in problem


def test_signing_goes_inside_out_and_each_part_once(macos_module: Load, app: Path) -> None:
    order = macos_module("signing").signing_order(app)
    frameworks = app / "Contents" / "Frameworks"
    assert set(order) == {
        frameworks / "mlx" / "lib" / "libmlx.dylib",
        frameworks / "PySide6" / "Qt" / "plugins" / "platforms" / "libqcocoa.dylib",
        frameworks / "PySide6" / "Qt" / "lib" / "QtCore.framework",  # with its program
        app,  # with MacOS/MLXR
    }
    assert len(order) == 4
    assert order[-1] == app
    for i, part in enumerate(order):
        assert not any(part in later.parents for later in order[i + 1 :])


def test_programs_inside_a_framework_are_signed_before_it(macos_module: Load, app: Path) -> None:
    core = app / "Contents" / "Frameworks" / "PySide6" / "Qt" / "lib" / "QtCore.framework"
    helper = write(core / "Versions" / "A" / "Helpers" / "helper", thin(ARM64))
    order = macos_module("signing").signing_order(app)
    assert order.index(helper) < order.index(core)


def test_the_hardened_runtime_is_on_for_everything_that_an_identity_signs(
    macos_module: Load, app: Path
) -> None:
    *signs, verify = macos_module("signing").signing_commands(app, "Developer ID Application: A (B)")
    for command in signs:
        assert command[:4] == ["codesign", "--force", "--sign", "Developer ID Application: A (B)"]
        assert command[4:7] == ["--timestamp", "--options", "runtime"]
        assert "--entitlements" not in command
    assert verify == ["codesign", "--verify", "--deep", "--strict", str(app)]


def test_without_an_identity_signatures_are_ad_hoc(macos_module: Load, app: Path) -> None:
    signing = macos_module("signing")
    *signs, _ = signing.signing_commands(app, signing.AD_HOC)
    assert all(command[3] == "-" and "runtime" not in command for command in signs)
