"""The screen that goes away: Qt then ends the process, which is no crash of MLXR's."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QMessageLogContext, QtMsgType, qFormatLogMessage, qInstallMessageHandler

_GONE = "connection broke"
"""In what Qt says when the X11 or Wayland server has gone, as at a log-out; it calls exit(1) next."""


def watch_display(gone: Callable[[], None]) -> None:
    """Call `gone` then. What Qt says is printed as before."""

    def say(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if _GONE in message:
            gone()
        if sys.stderr is not None:
            print(qFormatLogMessage(kind, context, message), file=sys.stderr, flush=True)

    qInstallMessageHandler(say)
