"""A button that names what holds, with an arrow behind the name, and opens a menu right below it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtWidgets import QStyleOptionToolButton, QToolButton, QWidget

from app.appearance import Appearance
from app.icons import icon
from app.theme import Theme


class MenuButton(QToolButton):
    """Wants a text, and a menu through `give_menu`. Its arrow is `arrow` pixels wide."""

    def __init__(self, appearance: Appearance, arrow: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._arrow = arrow
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(arrow, arrow))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        appearance.changed.connect(self._paint_arrow)
        self._paint_arrow(appearance.theme)

    def initStyleOption(self, option: QStyleOptionToolButton) -> None:  # noqa: N802 (Qt's name)
        """Drawn from right to left, its arrow stands behind its words; its menu opens from left to right."""
        super().initStyleOption(option)
        option.direction = Qt.LayoutDirection.RightToLeft  # type: ignore[attr-defined]

    @Slot(object)
    def _paint_arrow(self, theme: Theme) -> None:
        self.setIcon(icon("chevron-down", theme.muted, self._arrow))
