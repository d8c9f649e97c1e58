"""A button that is an icon, with words for those who cannot see it."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QSize, Qt, Slot
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QToolButton, QWidget

from app.appearance import Appearance
from app.icons import SCALES, icon
from app.theme import Theme, halfway


class IconButton(QToolButton):
    """A flat square button with an icon in the theme's colour; `colour` names a field of Theme."""

    def __init__(
        self,
        appearance: Appearance,
        name: str,
        label: str,
        *,
        colour: str = "muted",
        size: int = 36,
        icon_size: int = 20,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._name = name
        self._colour = colour
        self.setProperty("kind", "icon")
        self.setFixedSize(size, size)
        self.setIconSize(QSize(icon_size, icon_size))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_label(label)
        appearance.changed.connect(self._paint)
        self._paint(appearance.theme)

    def set_label(self, label: str) -> None:
        """What the button does, for the tooltip and for screen readers."""
        self.setToolTip(label)
        self.setAccessibleName(label)

    def set_icon(self, name: str, colour: str | None = None) -> None:
        """Show another icon, and perhaps another colour."""
        self._name = name
        self._colour = colour or self._colour
        self._paint(self._appearance.theme)

    @Slot(object)
    def _paint(self, theme: Theme) -> None:
        colour = getattr(theme, self._colour)
        disabled = halfway(theme.muted, theme.window)
        self.setIcon(_two_state_icon(self._name, colour, disabled, self.iconSize().width()))


@lru_cache(maxsize=128)
def _two_state_icon(name: str, colour: str, disabled: str, size: int) -> QIcon:
    """The drawing in one colour for use and in another while disabled: Qt's own greying fails in the dark."""
    made = QIcon(icon(name, colour, size))
    for scale in SCALES:
        dimmed = icon(name, disabled, size).pixmap(QSize(size, size), scale)
        made.addPixmap(dimmed, QIcon.Mode.Disabled)
    return made
