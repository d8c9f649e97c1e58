"""Which version of a message is on show, and the way to the others: ‹ 2 / 3 ›."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app import text
from app.appearance import Appearance
from app.chat.tree import Versions
from app.widgets.icon_button import IconButton


class VersionSwitch(QWidget):
    """Shows a message's versions; hidden where there is only one. Intent: `stepped(-1 or 1)`."""

    stepped = Signal(int)

    def __init__(self, appearance: Appearance, versions: Versions, parent: QWidget) -> None:
        super().__init__(parent)
        self._earlier = _button(appearance, "chevron-left", text.EARLIER_VERSION)
        self._earlier.setEnabled(versions.place > 1)
        self._earlier.clicked.connect(lambda: self.stepped.emit(-1))
        self._later = _button(appearance, "chevron-right", text.LATER_VERSION)
        self._later.setEnabled(versions.place < versions.count)
        self._later.clicked.connect(lambda: self.stepped.emit(1))
        place = QLabel(f"{versions.place} / {versions.count}")
        place.setObjectName("version")
        place.setAlignment(Qt.AlignmentFlag.AlignCenter)
        place.setAccessibleName(text.VERSION.format(place=versions.place, count=versions.count))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for widget in (self._earlier, place, self._later):
            row.addWidget(widget)
        self.setVisible(versions.count > 1)

    @property
    def earlier(self) -> IconButton:
        """The button to the version before."""
        return self._earlier

    @property
    def later(self) -> IconButton:
        """The button to the version behind."""
        return self._later

    @property
    def is_focused(self) -> bool:
        """Whether the keys are with it."""
        return self._earlier.hasFocus() or self._later.hasFocus()

    def take_focus(self, step: int) -> None:
        """Put the keys on the button that goes on in this direction, or back from the last one."""
        onward, back = (self._earlier, self._later) if step < 0 else (self._later, self._earlier)
        (onward if onward.isEnabled() else back).setFocus(Qt.FocusReason.TabFocusReason)


def _button(appearance: Appearance, icon: str, label: str) -> IconButton:
    return IconButton(appearance, icon, label, size=28, icon_size=16)
