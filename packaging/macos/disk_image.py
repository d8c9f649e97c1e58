"""Makes MLXR.dmg of MLXR.app: checked, signed, laid out for dragging to Applications, notarised.

python packaging/macos/disk_image.py build/app/macos14/MLXR.app build/app/MLXR-macos14-arm64.dmg
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bundle_check import problems
from bundle_info import NAME
from icns import png, rendered
from notarising import Credentials, credentials, notarising_commands
from signing import AD_HOC, sign_command, signing_commands

BACKGROUND = Path(__file__).with_name("background.svg")
POINTS = (640, 400)  # of the window's inside
DOTS_PER_METRE = 5669  # 144 an inch: the Finder shows the picture at half its pixels, sharp on every screen

LAYOUT = f"""
tell application "Finder"
  tell disk "{NAME}"
    open
    tell container window
      set current view to icon view
      set toolbar visible to false
      set statusbar visible to false
      set the bounds to {{200, 120, {200 + POINTS[0]}, {148 + POINTS[1]}}}
    end tell
    tell the icon view options of container window
      set arrangement to not arranged
      set icon size to 112
      set background picture to file ".background:background.png" of disk "{NAME}"
    end tell
    set position of item "{NAME}.app" to {{170, 190}}
    set position of item "Applications" to {{470, 190}}
    update without registering applications
    delay 2
    close
  end tell
end tell
"""


def main() -> int:
    """Make the image named on the command line. Returns the exit code."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    app, image = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        make_image(app, image, credentials(os.environ))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)} failed for the reason above", file=sys.stderr)
        return 1
    return 0


def make_image(app: Path, image: Path, who: Credentials) -> None:
    """From the bundle to the image. Raises ValueError for a bundle that is not right, OSError and
    CalledProcessError for commands that are not there or fail."""
    if sys.platform != "darwin":
        raise ValueError("a disk image is made on a Mac: it needs codesign, hdiutil and the Finder")
    if found := problems(app):
        raise ValueError(f"{app} is not right: " + "; ".join(found))
    staging = image.with_suffix(".staging")
    stage(staging)
    for command in image_commands(app, staging, image, who):
        subprocess.run(command, check=True)
    shutil.rmtree(staging)
    if who.lacking:
        print(f"note: {image} is {who.lacking}")


def stage(staging: Path) -> None:
    """The folder that becomes the image, without the app: the way to Applications, and the background."""
    shutil.rmtree(staging, ignore_errors=True)
    (staging / ".background").mkdir(parents=True)
    (staging / "Applications").symlink_to("/Applications")
    (staging / ".background" / "background.png").write_bytes(background())


def background() -> bytes:
    """The picture behind the two icons, as a PNG of twice the window's points."""
    picture = rendered(BACKGROUND, 2 * POINTS[0], 2 * POINTS[1])
    picture.setDotsPerMeterX(DOTS_PER_METRE)
    picture.setDotsPerMeterY(DOTS_PER_METRE)
    return png(picture)


def image_commands(app: Path, staging: Path, image: Path, who: Credentials) -> list[list[str]]:
    """What is run after `stage`, in order. ULMO is LZMA: macOS 10.15 and later read it."""
    draft = str(image.with_suffix(".draft.dmg"))
    volume = f"/Volumes/{NAME}"
    signed = [] if who.identity == AD_HOC else [sign_command(image, who.identity)]
    notarised = [] if who.notary is None else notarising_commands(image, who.notary)
    return [
        *signing_commands(app, who.identity),
        ["ditto", str(app), str(staging / app.name)],
        [
            *"hdiutil create -ov -fs HFS+ -format UDRW -volname".split(),
            NAME,
            "-srcfolder",
            str(staging),
            draft,
        ],
        ["hdiutil", "attach", "-readwrite", "-noverify", "-noautoopen", draft],
        ["osascript", "-e", LAYOUT],
        ["hdiutil", "detach", volume],
        ["hdiutil", "convert", draft, "-ov", "-format", "ULMO", "-o", str(image)],
        ["rm", draft],
        *signed,
        *notarised,
    ]


if __name__ == "__main__":
    sys.exit(main())
