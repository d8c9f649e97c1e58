"""A button's menu, after which the button looks as it is: Qt tells it of no pointer that left meanwhile."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTimer, Slot
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu, QToolButton


def give_menu(button: QToolButton, menu: QMenu) -> None:
    """Have `button` open `menu`."""
    button.setMenu(menu)
    menu.aboutToHide.connect(_Leaving(button).look_soon)


class _Leaving(QObject):
    """Tells a button that the pointer has left it."""

    def __init__(self, button: QToolButton) -> None:
        super().__init__(button)
        self._button = button

    @Slot()
    def look_soon(self) -> None:
        """The menu is about to hide: what was chosen in it comes first."""
        QTimer.singleShot(0, self, self._look)

    @Slot()
    def _look(self) -> None:
        button = self._button
        if button.underMouse() and not button.rect().contains(button.mapFromGlobal(QCursor.pos())):
            button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
            QCoreApplication.sendEvent(button, QEvent(QEvent.Type.Leave))
            button.update()
