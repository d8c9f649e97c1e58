"""Whether a key is held that asks for safe mode."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

_SHIFT, _OPTION = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.AltModifier


def is_safe_key_held() -> bool:
    """Shift, or on a Mac Option; asked of the keyboard itself, before there is a window.

    Qt asks NSEvent on a Mac and the server under X11. Wayland tells a program of keys only while it has the
    focus, so nothing is known of them there: `mlxr --safe` is the way. Alt is no key for it on Linux, where
    Alt+F2 starts programs.
    """
    held = QGuiApplication.queryKeyboardModifiers()
    return bool(held & (_SHIFT | _OPTION if sys.platform == "darwin" else _SHIFT))
