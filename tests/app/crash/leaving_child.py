"""MLXR in safe mode, whose banner's button is pressed as soon as it is there: `python -m …leaving_child`."""

from __future__ import annotations

import sys
import threading

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app.command_line import main
from app.crash.crash_words import LEAVE
from app.widgets.banner import Banner


def press() -> None:
    """Press it; in the window's thread."""
    banners = [widget for widget in QApplication.allWidgets() if isinstance(widget, Banner)]
    for banner in banners:
        if banner.isVisible() and banner._action.text() == LEAVE:
            banner._action.click()
            return
    QTimer.singleShot(50, press)


def wait() -> None:
    """Until there is an application."""
    pause = threading.Event()
    while QApplication.instance() is None:
        pause.wait(0.05)
    QTimer.singleShot(0, QApplication.instance(), press)


if __name__ == "__main__":
    threading.Thread(target=wait, daemon=True).start()
    sys.exit(main(["--safe"]))
