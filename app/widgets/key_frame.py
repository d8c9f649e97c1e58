"""A frame around what scrolls by the arrow keys, while it has them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QFrame, QWidget

_TAB = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
_BACK = (Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.PopupFocusReason)


class KeyFrame(QFrame):
    """Lies over `area`, and is seen while that has the keys by Tab: who clicks knows where they are."""

    def __init__(self, area: QWidget) -> None:
        super().__init__(area)
        self.setObjectName("keyFrame")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._came_by_tab = False
        self.hide()
        area.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """The keys come and go, or the area has another size."""
        if isinstance(event, QFocusEvent):
            if event.gotFocus() and event.reason() not in _BACK:
                self._came_by_tab = event.reason() in _TAB
            self.setVisible(event.gotFocus() and self._came_by_tab)
            self.raise_()
        elif event.type() == QEvent.Type.Resize and isinstance(watched, QWidget):
            self.setGeometry(watched.rect())
        return False
