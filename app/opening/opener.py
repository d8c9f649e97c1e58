"""Opening in the window what comes from outside, and the dialogs for chats as files."""

from __future__ import annotations

import logging
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from app import text
from app.chat.chat_list import ChatListViewModel
from app.chat.conversation import ConversationViewModel
from app.errors import AppError
from app.models.models_view_model import ModelsViewModel
from app.models_door import ModelsDoor
from app.opening import opening_words as words
from app.opening.chat_files import ChatFiles, file_name
from app.opening.link import ChatLink, ModelLink
from app.opening.target import ChatFile, ModelFile, understand
from app.store.chat_file import SUFFIX
from app.store.chat_markdown import SUFFIX as MARKDOWN
from app.store.records import Chat
from app.window import MainWindow

log = logging.getLogger(__name__)


class Opener(QObject):
    """Opens links, chat files and models in the window, and exports chats from its list.

    What is refused is said in one line over the chat.
    """

    def __init__(
        self,
        window: MainWindow,
        door: ModelsDoor,
        models: ModelsViewModel,
        chats: ChatListViewModel,
        conversation: ConversationViewModel,
        files: ChatFiles,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._models = models
        self._door = door
        self._chats = chats
        self._conversation = conversation
        self._files = files
        rows = window.sidebar.list
        rows.export_wanted.connect(self._ask_where_to)
        rows.import_wanted.connect(self._ask_which)
        rows.link_wanted.connect(self._copy_link)
        window.chat_file_dropped.connect(self._read)
        files.exported.connect(self._say_exported)
        files.imported.connect(self._show_imported)
        files.found.connect(self._show_linked)
        files.failed.connect(self._refuse)

    @Slot(str)
    def open(self, wanted: str) -> None:
        """Open what is written as a link, a path or the address of a file."""
        self._window.come_forward()
        try:
            target = understand(wanted)
        except AppError as error:
            self._refuse(str(error))
            return
        match target:
            case ModelLink(repo):
                self._door.show_repo(repo)
            case ChatLink(chat_id):
                self._files.find(chat_id)
            case ChatFile(path):
                self._files.read(path)
            case ModelFile(path):
                self._models.open(str(path))

    def close(self, seconds: float) -> None:
        """Finish the files that are being written."""
        if not self._files.close(seconds):
            log.warning("a chat's file was not finished in time")

    def export(self, chat_id: str, path: Path) -> None:
        """Save a chat at `path`, in the form that its suffix says."""
        self._conversation.save_now()  # its last words too
        self._files.write(chat_id, path)

    @Slot(str)
    def _ask_where_to(self, chat_id: str) -> None:
        forms = {words.WHOLE.format(suffix=SUFFIX): SUFFIX, words.READABLE.format(suffix=MARKDOWN): MARKDOWN}
        dialog = QFileDialog(self._window, words.EXPORT_TITLE)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters(list(forms))
        dialog.selectFile(file_name(self._chats.title_of(chat_id)) + SUFFIX)
        dialog.filterSelected.connect(lambda name: _rename(dialog, forms[name]))
        dialog.fileSelected.connect(
            lambda path: self.export(chat_id, _with_suffix(Path(path), forms[dialog.selectedNameFilter()]))
        )
        self._open_dialog(dialog)

    @Slot()
    def _ask_which(self) -> None:
        dialog = QFileDialog(self._window, words.IMPORT_TITLE)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(words.CHAT_FILES.format(suffix=SUFFIX))
        dialog.fileSelected.connect(self._read)
        self._open_dialog(dialog)

    def _open_dialog(self, dialog: QFileDialog) -> None:
        folder = QStandardPaths.StandardLocation.DocumentsLocation
        dialog.setDirectory(QStandardPaths.writableLocation(folder))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    @Slot(str)
    def _read(self, path: str) -> None:
        self._files.read(Path(path))

    @Slot(str)
    def _copy_link(self, chat_id: str) -> None:
        QGuiApplication.clipboard().setText(f"mlxr://chat/{chat_id}")
        title = text.titled(self._chats.title_of(chat_id))
        self._window.toast.say(words.LINK_COPIED.format(title=title))

    @Slot(object)
    def _show_linked(self, chat: Chat | None) -> None:
        if chat is None:
            self._refuse(words.NO_SUCH_CHAT)
        else:
            self._show(chat)

    def _show(self, chat: Chat) -> None:
        self._window.show_chat()
        self._conversation.open(chat)

    @Slot(object)
    def _show_imported(self, chat: Chat) -> None:
        self._chats.upsert(chat)
        self._show(chat)
        said = " ".join(chat.system.split())
        shown = said if len(said) <= words.SYSTEM_SHOWN else f"{said[: words.SYSTEM_SHOWN]}…"
        line = words.IMPORTED_WITH_SYSTEM if said else words.IMPORTED
        self._window.toast.say(line.format(title=text.titled(chat.title), system=text.isolated(shown)))

    @Slot(object, object)
    def _say_exported(self, chat: Chat, path: Path) -> None:
        title, name = text.titled(chat.title), text.isolated(path.name)
        line = words.EXPORTED.format(title=title, name=name)
        self._window.toast.offer(line, words.SHOW_FOLDER, lambda: _show_folder(path.parent))

    @Slot(str)
    def _refuse(self, line: str) -> None:
        self._window.show_chat()
        self._window.toast.say(text.sentence(line))


def _show_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _rename(dialog: QFileDialog, suffix: str) -> None:
    """The name in the dialog gets the suffix of the form that is chosen now."""
    chosen = dialog.selectedFiles()
    if chosen:
        dialog.selectFile(Path(chosen[0]).with_suffix(suffix).name)


def _with_suffix(path: Path, suffix: str) -> Path:
    """With the suffix of the form that was chosen, unless the name has one of the two."""
    return path if path.suffix.lower() in (SUFFIX, MARKDOWN) else path.with_name(path.name + suffix)
