"""The settings: few, and each says when it takes effect."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.appearance import Appearance
from app.settings import Settings
from app.updates.channel import RELEASES
from app.updates.updates_section import UpdatesSection
from app.widgets.cache_section import CacheSection
from app.widgets.choice_row import ChoiceRow
from app.widgets.choice_section import ChoiceSection
from app.widgets.done_button import done_button
from app.widgets.fitting_scroll import FittingScroll
from app.widgets.switch_section import SwitchSection

CHOICES = (("system", "Like the system"), ("light", "Light"), ("dark", "Dark"))
UNLOAD_CHOICES = (("5", "5"), ("15", "15"), ("30", "30"), ("60", "60"), ("off", "Never"))
FILES_CHOICES = tuple((count, count) for count in ("1", "2", "3", "5", "8"))

TITLE_BAR = 40
"""Pixels that a desktop may put above a dialog."""

GUESSES = "Guess ahead where a text repeats itself"
GUESSES_NOTE = (
    "Each guess is checked: answers come sooner, and are no others. It holds from the next start on."
)
UNLOAD_AFTER = "Minutes until it leaves memory"
UNLOAD_NOTE = "It comes back by itself when you write. A chat that you keep in memory keeps its model there."
ABOUT = "About MLXR"
FILES_AT_ONCE = "Files fetched at once"
FILES_NOTE = "More may be faster; fewer leave more of your network to others. A change holds at once."


class SettingsDialog(QDialog):
    """Shows `settings` and where data is kept.

    Attributes:
        scrolled: all but the buttons.

    Intents: `theme_chosen(choice)`, `about_wanted`, and those of the sections `cache`, `guesses`, `model`,
    `downloads` and `updates`.
    """

    theme_chosen = Signal(str)
    about_wanted = Signal()

    def __init__(
        self, appearance: Appearance, settings: Settings, data_folder: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.setMinimumWidth(540)
        self._look = ChoiceRow("Look", CHOICES, settings.theme)
        self._look.chosen.connect(self.theme_chosen)
        self._cache = CacheSection(appearance, settings)
        self._guesses = SwitchSection(appearance, GUESSES, settings.speculation, GUESSES_NOTE)
        self._model = ChoiceSection(UNLOAD_AFTER, UNLOAD_CHOICES, settings.unload_after, UNLOAD_NOTE)
        self._downloads = ChoiceSection(FILES_AT_ONCE, FILES_CHOICES, settings.files_at_once, FILES_NOTE)
        self._updates = UpdatesSection(appearance, settings.check_updates, can_check=RELEASES.can_check)
        sections = QWidget()
        column = QVBoxLayout(sections)
        column.setContentsMargins(24, 24, 24, 12)
        column.setSpacing(8)
        titled = (
            ("Look", self._look),
            ("What chats have computed", self._cache),
            ("Answers", self._guesses),
            ("A model that nobody uses", self._model),
            ("Downloads", self._downloads),
            ("Updates", self._updates),
        )
        for title, section in titled:
            column.addWidget(_heading(title))
            column.addWidget(section)
            column.addSpacing(10)
        column.addWidget(_heading("Your data"))
        where = QLabel(f"Chats and settings are kept on this machine only, in\n{data_folder}")
        where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        where.setWordWrap(True)
        column.addWidget(where)
        column.addStretch(1)
        self.scrolled = FittingScroll(sections)
        self.scrolled.setAccessibleName("Settings")
        self.scrolled.grown.connect(self._fit)
        self._wanted = 0
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.scrolled, 1)
        self._buttons = self._make_buttons(data_folder)
        whole.addLayout(self._buttons)
        self._fit()

    @property
    def look(self) -> ChoiceRow:
        """The choice between light and dark."""
        return self._look

    @property
    def cache(self) -> CacheSection:
        """The settings of what chats have computed."""
        return self._cache

    @property
    def guesses(self) -> SwitchSection:
        """Whether answers are guessed ahead."""
        return self._guesses

    @property
    def model(self) -> ChoiceSection:
        """For how many minutes a model that nobody uses stays in memory."""
        return self._model

    @property
    def downloads(self) -> ChoiceSection:
        """How many files of a download are fetched at once."""
        return self._downloads

    @property
    def updates(self) -> UpdatesSection:
        """Whether MLXR looks for a newer version by itself."""
        return self._updates

    @Slot(str)
    def show_disk_use(self, words: str) -> None:
        """Say what the disk cache takes."""
        self._cache.show_disk_use(words)

    @Slot()
    def _fit(self) -> None:
        """Grow where words take more lines than before, within the screen and the window below."""
        before, self._wanted = self._wanted, self.scrolled.wanted_height()
        if self._wanted > before:
            most = self.screen().availableGeometry().height() - TITLE_BAR
            below = self.parentWidget()
            if below is not None:
                most = min(most, below.window().height())
            self.resize(self.width(), min(most, self._wanted + self._buttons.sizeHint().height()))

    def _make_buttons(self, data_folder: str) -> QHBoxLayout:
        show = QPushButton("Show the folder")
        show.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(data_folder)))
        about = QPushButton(ABOUT)
        about.clicked.connect(self.about_wanted)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(24, 12, 24, 24)
        buttons.setSpacing(8)
        buttons.addWidget(show)
        buttons.addWidget(about)
        buttons.addStretch(1)
        buttons.addWidget(done_button(self))
        return buttons


def _heading(words: str) -> QLabel:
    label = QLabel(words)
    font = label.font()
    font.setBold(True)
    label.setFont(font)
    return label
