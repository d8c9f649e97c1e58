"""Text that can be selected and whose links open outside: Markdown or plain, as high as it needs to be."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QFont, QImage, QTextCharFormat, QTextCursor, QWheelEvent
from PySide6.QtWidgets import QTextBrowser, QTextEdit, QWidget

from app.chat.document_style import set_markdown
from app.chat.plain_growth import plain_growth
from app.theme import COLUMN_WIDTH, Theme
from app.widgets.wrapping import wrapping_of

_NOTHING = QImage(1, 1, QImage.Format.Format_ARGB32_Premultiplied)
_NOTHING.fill(0)
_SAFE_SCHEMES = ("http", "https", "mailto")


class ProseView(QTextBrowser):
    """A read-only text without scroll bars. It loads nothing: files that the text points to stay unread."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        # Told its width, it does not ask the viewport's, which is late while the window is being laid out.
        self.setLineWrapMode(QTextEdit.LineWrapMode.FixedPixelWidth)
        self.setLineWrapColumnOrWidth(COLUMN_WIDTH)  # as most often, so that words are laid out once
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(open_link)
        self._shown = ""
        self._settled = True
        self._number: int | None = None

    @property
    def shown(self) -> str:
        """The Markdown or plain text it shows."""
        return self._shown

    def show_markdown(self, markdown: str, theme: Theme, number: int | None = None) -> None:
        """Show Markdown in the theme's colours. A list it begins with is numbered from `number`."""
        self._settled = True
        self._number = number
        self._show(markdown)
        self._take_font()  # before there are words to be laid out
        self._fill(markdown, theme)
        links = "](" in markdown or "<http" in markdown
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if links else Qt.FocusPolicy.ClickFocus)

    def grow_markdown(self, markdown: str, theme: Theme, number: int | None = None) -> None:
        """Show Markdown that is being written: cheaper than `show_markdown` while words are added."""
        growth = plain_growth(self._shown, markdown)
        end = QTextCursor(self.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        if growth is None or number != self._number or end.currentTable() or not _is_plain(end.charFormat()):
            self.show_markdown(markdown, theme, number)
            return
        self._show(markdown)
        end.insertText(growth)
        self._settled = False

    def settle(self, theme: Theme) -> bool:
        """The text is complete: read it as a whole where it was grown. Returns whether there was need to."""
        if self._settled:
            return False
        self.show_markdown(self._shown, theme, self._number)
        return True

    def show_plain(self, text: str) -> None:
        """Show text as it is."""
        self._show(text)
        self.setPlainText(text)

    def _fill(self, markdown: str, theme: Theme) -> None:
        set_markdown(self.document(), markdown, theme, self._number)

    def _show(self, text: str) -> None:
        self._shown = text
        self.setWordWrapMode(wrapping_of(text))

    def height_for(self, width: int) -> int:
        """The height it needs at this width, in pixels; lays the text out."""
        self._take_font()
        if self.lineWrapColumnOrWidth() != width:
            self.setLineWrapColumnOrWidth(width)
        return math.ceil(self.document().size().height())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """A new style sheet changes its font a dozen times, to end with the same: words wait for the end."""
        if event.type() != QEvent.Type.FontChange:
            super().changeEvent(event)

    def _take_font(self) -> None:
        self.ensurePolished()
        if self.document().defaultFont() != self.font():
            self.document().setDefaultFont(self.font())

    def loadResource(self, type_: int, name: QUrl | str) -> object:  # noqa: N802 (Qt's name)
        """An empty picture: without one Qt would read the file, and what a model writes must not make it."""
        return _NOTHING

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 (Qt's name)
        """Let the conversation scroll."""
        event.ignore()


def open_link(url: QUrl) -> None:
    """Open what was clicked, where it leads to the web or to a letter; nothing else, whoever wrote it."""
    if url.scheme() in _SAFE_SCHEMES:
        QDesktopServices.openUrl(url)


def _is_plain(style: QTextCharFormat) -> bool:
    """Whether words added in this format look like prose: no link, code or emphasis goes on by mistake."""
    special = style.isAnchor() or style.fontFixedPitch() or style.fontItalic() or style.fontStrikeOut()
    return not special and style.fontWeight() <= QFont.Weight.Normal
