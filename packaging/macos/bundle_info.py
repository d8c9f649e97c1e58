"""What MLXR.app says of itself to macOS: its Info.plist, from one table.

Keys: https://developer.apple.com/documentation/bundleresources/information-property-list
"""

from __future__ import annotations

import plistlib
import sys
from pathlib import Path
from typing import Any

from targets import chosen

from app import VERSION

NAME = "MLXR"
IDENTIFIER = "app.mlxr.MLXR"
CHAT_TYPE = "app.mlxr.chat"

# No privacy strings: the app asks for no camera, microphone, place, contacts or other program.
INFO: dict[str, Any] = {
    "CFBundleName": NAME,
    "CFBundleDisplayName": NAME,
    "CFBundleIdentifier": IDENTIFIER,
    "CFBundleExecutable": NAME,
    "CFBundleIconFile": f"{NAME}.icns",
    "CFBundlePackageType": "APPL",
    "CFBundleInfoDictionaryVersion": "6.0",
    "CFBundleDevelopmentRegion": "en",
    "CFBundleShortVersionString": VERSION,
    "CFBundleVersion": VERSION,
    "LSMinimumSystemVersion": chosen().oldest,
    "LSArchitecturePriority": ["arm64"],
    "LSRequiresNativeExecution": True,  # never under Rosetta: there is no MLX for it
    "LSApplicationCategoryType": "public.app-category.productivity",
    "NSHighResolutionCapable": True,
    "NSSupportsAutomaticGraphicsSwitching": True,
    "NSHumanReadableCopyright": "MIT licence, the MLXR authors",
    "CFBundleDocumentTypes": [
        {
            "CFBundleTypeName": "GGUF model",
            "CFBundleTypeRole": "Viewer",
            "LSHandlerRank": "Alternate",  # other programs read them too: none is put aside
            # No type of Apple's stands for GGUF, and whoever owns the format has named none to import.
            "CFBundleTypeExtensions": ["gguf"],
        },
        {
            "CFBundleTypeName": "MLXR chat",
            "CFBundleTypeRole": "Editor",
            "LSHandlerRank": "Owner",
            "LSItemContentTypes": [CHAT_TYPE],
        },
    ],
    "UTExportedTypeDeclarations": [
        {
            "UTTypeIdentifier": CHAT_TYPE,
            "UTTypeDescription": "MLXR chat",
            "UTTypeConformsTo": ["public.json"],
            "UTTypeTagSpecification": {
                "public.filename-extension": ["mlxrchat"],
                "public.mime-type": ["application/vnd.mlxr.chat+json"],
            },
        }
    ],
    "CFBundleURLTypes": [
        {
            "CFBundleURLName": f"{IDENTIFIER}.link",
            "CFBundleTypeRole": "Viewer",
            "CFBundleURLSchemes": ["mlxr"],
        }
    ],
}


def write_info(path: Path) -> None:
    """Write Info.plist to `path`."""
    path.write_bytes(plistlib.dumps(INFO))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python packaging/macos/bundle_info.py Info.plist")
    write_info(Path(sys.argv[1]))
