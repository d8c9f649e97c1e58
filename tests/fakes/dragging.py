"""Files that are dragged from elsewhere, and let go over a part of the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget


def drop(over: QWidget, *paths: Path) -> bool:
    """Drag the paths over a widget and let them go; returns whether they were taken."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entering = QDragEnterEvent(QPoint(10, 10), copy, data, left, none)
    entering.ignore()
    QApplication.sendEvent(over, entering)
    if entering.isAccepted():
        QApplication.sendEvent(over, QDropEvent(QPointF(10, 10), copy, data, left, none))
    return entering.isAccepted()
