"""Where the window's objects meet: engine, store, view models and widgets are made and joined only here."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app import text
from app.about.door import AboutDoor
from app.appearance import Appearance
from app.bridge import FrameQueue
from app.chat.cache_words import freed_words
from app.chat.chat_list import ChatListViewModel
from app.chat.chat_model import ChatModel
from app.chat.chat_pane import ChatPane
from app.chat.conversation import ConversationViewModel
from app.chat.disk_use import DiskUseViewModel
from app.chat.drafts import DraftsViewModel
from app.chat.edits import Edits
from app.chat.pins import PinsViewModel
from app.chat.prediction import PredictionViewModel
from app.chat.sidebar import Sidebar
from app.chat.status_view_model import StatusViewModel
from app.chat.ways_out import WaysOut
from app.chosen_settings import ChosenSettings
from app.dashboard.door import DashboardDoor
from app.downloads.lanes import Lanes
from app.engine_like import MakeEngine
from app.engine_settings import fit_settings, kv_bits, unload_seconds
from app.event_inbox import EventInbox
from app.fewer_bits import FewerBits
from app.first_run.trials_strip import TrialsStrip
from app.first_run.trials_view_model import TrialsViewModel
from app.garbage import GarbageCollector
from app.instance.address import Claim
from app.instance.protocol import Opening
from app.model_location import GUIDE, remembered
from app.models.models_view_model import ModelsViewModel
from app.models.own_settings import OwnSettings
from app.models_door import ModelsDoor
from app.onlookers import Onlookers
from app.opening.chat_files import ChatFiles
from app.opening.opener import Opener
from app.paths import Paths
from app.settings import SettingsFile
from app.settings_desk import SettingsDesk
from app.store.records import Chat
from app.store.worker import StoreWorker
from app.window import MainWindow
from engine import Event, Failed, Freed

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0


class Desktop:
    """The running window with all that is behind it. `start` sets it going, `close` ends it."""

    def __init__(
        self, application: QApplication, make_engine: MakeEngine, paths: Paths, claim: Claim | None = None
    ) -> None:
        """`claim`: to be the app of the data folder; taken at the start where it is not held yet."""
        self._paths = paths
        self._garbage = GarbageCollector()
        self._problems: dict[str, str] = {}
        self.queue = FrameQueue()
        self.chosen = ChosenSettings(SettingsFile(paths.settings), self.queue.post)
        bits = kv_bits(self.chosen.values.kv_cache)
        tell = partial(self._tell_problem, "history")
        self.onlookers = Onlookers(paths, self.queue.post, tell, self.come_forward, bits, claim)
        self._inbox = EventInbox(self.queue.post, self._dispatch)
        self.engine = make_engine(self.onlookers.before(self._inbox.emit))
        self.store = StoreWorker(paths.chats, self.queue.post, partial(self._tell_problem, "chats"))
        self.appearance = Appearance(application, self.chosen.values.theme)
        self._own_settings = OwnSettings(paths, self.queue.post)
        self._make_view_models()
        self._make_window()
        self._make_doors()
        self._join_chats()
        self._join_models()
        self._join_window()
        self.chosen.failed.connect(partial(self._tell_problem, "settings"))
        self._tell_problem("settings", self.chosen.problem)

    def _make_view_models(self) -> None:
        submit = self.onlookers.recorder.passing(self.engine.submit)
        self.models = ModelsViewModel(submit, GUIDE, self._own_settings.find)
        self.chats = ChatListViewModel(self.store)
        self.pins = PinsViewModel(self.engine.submit, self.store)
        titles, moments = self.chats.title_of, self.chats.moment_of
        self.conversation = ConversationViewModel(submit, self.store, self.models, titles, moments)
        self.chat_model = ChatModel(self.models, self.conversation)
        self.status = StatusViewModel(self.conversation.model_of)
        self.disk_use = DiskUseViewModel(self.chosen.values.ssd_cache == "on")
        self.edits = Edits(self.store)
        told = (self.conversation, self.models, self.edits.answers)
        self.prediction = PredictionViewModel(self.engine.submit, *told)
        self.drafts = DraftsViewModel(self.store, self.conversation)
        self.trials = TrialsViewModel(self.engine.submit)

    def _make_window(self) -> None:
        told = (self.conversation, self.models, self.status, self.prediction)
        self.pane = ChatPane(self.appearance, *told, self.drafts, self.edits)
        self.pane.add_strip(TrialsStrip(self.trials))
        self.window = MainWindow(Sidebar(self.appearance, self.chats, self.pins), self.pane)

    def _make_doors(self) -> None:
        """What the window leads to, beside the chats."""
        appearance, models, window, paths = self.appearance, self.models, self.window, self._paths
        post, lanes = self.queue.post, Lanes(int(self.chosen.values.files_at_once))
        self.models_door = ModelsDoor(
            appearance, models, window, paths, post, fit_settings(paths), lanes, self._own_settings
        )
        self.dashboard = DashboardDoor(
            appearance,
            window,
            self.engine.submit,
            self.conversation.model_of,
            models,
            self.chats,
            self.pins,
            self._open_chat,
            self.onlookers,
            self.trials,
            lambda: unload_seconds(self.chosen.values.unload_after),
            paths,
            post,
        )
        self.settings = SettingsDesk(self.chosen, appearance, lanes, self.engine.submit, window.toast, paths)
        fewer = FewerBits(self._own_settings, models, self.settings, window.toast)
        edit, show = self.pane.transcript.edit, self.models_door.show_context
        ways = (edit, fewer.store, show, window.toast.say)
        self.ways_out = WaysOut(self.conversation, models, self.pins, *ways)
        self.about = AboutDoor(appearance, window, paths, post, self.chosen, models, self.settings)
        files = ChatFiles(self.store, post)
        self.opener = Opener(window, self.models_door, models, self.chats, self.conversation, files)

    def start(self, model: Path | None) -> None:
        """Show the window, then start the threads: whatever they need, the window is there first."""
        self.window.show()
        self._garbage.start()
        self.store.start()
        self.engine.start()
        self.onlookers.start()
        self.drafts.load()
        self.edits.load()
        self.pins.load()
        self.chats.load()
        self.store.ask(lambda store: store.recent_models(), self.models.add_recent)
        if model is not None:
            self.models.open(str(model))
        self.queue.post(self.about.start)
        self.queue.post(self.models_door.resume_downloads)  # not before the window is painted

    def close(self) -> None:
        """Save and end the threads. The engine may be deep in a step: it is given a few seconds.

        What it has told by then is saved too: of an answer that it cuts short, the exact tokens.
        """
        self.window.hide()
        self.onlookers.stop_listening(CLOSE_SECONDS)
        self.conversation.save_now(is_last=True)
        self.drafts.close()
        self.edits.save_now()
        self.models_door.close(CLOSE_SECONDS)
        self.about.close(CLOSE_SECONDS)
        self.dashboard.close(CLOSE_SECONDS)
        self._own_settings.close(CLOSE_SECONDS)
        self.opener.close(CLOSE_SECONDS)
        if not self.engine.close(CLOSE_SECONDS):
            log.warning("the engine did not end in time")
        for event in self._inbox.taken():
            self.conversation.handle(event)
        if not self.store.close(CLOSE_SECONDS):
            log.warning("the conversations database did not close in time")
        self.onlookers.close(CLOSE_SECONDS)
        self.chosen.close()
        self.queue.close()
        self._garbage.stop()

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Failed) and event.detail:
            log.error("%s\n%s", event.error, event.detail)
        if isinstance(event, Freed):
            self.window.toast.say(freed_words(event))
        self.models.handle(event)
        self.status.handle(event)
        self.trials.handle(event)
        self.dashboard.handle(event)
        self.conversation.handle(event)
        self.chats.handle(event)
        self.pins.handle(event)
        self.disk_use.handle(event)
        self.prediction.handle(event)

    def _join_chats(self) -> None:
        self.queue.drained.connect(self.conversation.flush)
        self.queue.drained.connect(self.status.flush)
        self.queue.drained.connect(self.trials.flush)
        self.queue.drained.connect(self.dashboard.flush)
        self.pane.transcript.way_chosen.connect(self.ways_out.take)
        self.conversation.chat_saved.connect(self.chats.upsert)
        self.conversation.answering_changed.connect(self.chats.set_answering)
        self.drafts.changed.connect(self.chats.set_drafts)
        self.conversation.opened.connect(self._mark_current)
        self.conversation.asked.connect(self._mark_current)
        self.chats.renamed.connect(self.conversation.retitle)
        self.chats.renamed.connect(self._mark_current)
        self.chats.deleted.connect(self._forget)
        self.pins.changed.connect(self.prediction.renew)
        sidebar = self.window.sidebar
        sidebar.new_wanted.connect(self._new_chat)
        sidebar.chosen.connect(self._open_chat)

    def _join_models(self) -> None:
        self.models.opened.connect(self._remember_model)
        self.models.state_changed.connect(lambda state: self.status.show(state.path))
        self.pane.model_button.files_wanted.connect(self.window.browse_files)
        self.pane.model_button.page_wanted.connect(self.models_door.toggle)
        self.pane.empty_state.models_wanted.connect(self.models_door.discover)
        self.pane.model_button.folders_wanted.connect(self.window.browse_folders)
        self.window.model_chosen.connect(self.models.open)

    def _join_window(self) -> None:
        self.pane.sidebar_wanted.connect(self.window.toggle_sidebar)
        self.pane.settings_wanted.connect(self._show_settings)
        self.pane.dashboard_wanted.connect(self.dashboard.toggle)
        actions = self.window.bind(
            {
                "stop": self.conversation.stop,
                "new_chat": self._new_chat,
                "models": self.models_door.toggle,
                "dashboard": self.dashboard.toggle,
                "open_model": self._offer_models,
                "search": self.window.search,
                "toggle_sidebar": self.window.toggle_sidebar,
                "settings": self._show_settings,
                "quit": self.window.close,
            }
        )
        stop = actions["stop"]  # Esc is for others while there is nothing to stop
        stop.setEnabled(False)
        self.conversation.state_changed.connect(lambda state: stop.setEnabled(state.busy))

    def come_forward(self, opening: Opening) -> None:
        """Show the window, with what another `mlxr` has left to this app."""
        self.window.come_forward()
        if opening.model is not None:
            self.models.open(opening.model)
        if opening.wanted is not None:
            self.opener.open(opening.wanted)

    def _offer_models(self) -> None:
        self.window.show_chat()
        self.pane.model_button.open_menu()

    def _new_chat(self) -> None:
        self.window.show_chat()
        self.conversation.new_chat()
        self.pane.composer.setFocus()

    def _open_chat(self, chat_id: str) -> None:
        chat = self.chats.find(chat_id)
        if chat:
            self.conversation.open(chat)

    def _mark_current(self) -> None:
        chat = self.conversation.chat
        self.chats.set_current(chat.id if chat else None)
        self.window.show_title(chat.title if chat else "")

    def _forget(self, chat: Chat) -> None:
        self.conversation.forget(chat.id)
        self.pins.forget(chat.id)
        said = text.DELETED.format(title=text.titled(chat.title))
        self.window.toast.offer(said, text.UNDO, lambda: self._undo_delete(chat))

    def _undo_delete(self, chat: Chat) -> None:
        self.chats.undo_delete(chat)
        self.pins.restore(chat.id)

    def _remember_model(self, path: str) -> None:
        self.store.change(lambda store: store.remember_model(path))
        self.chosen.change(lambda settings: replace(settings, last_model=remembered(path)))

    def _show_settings(self) -> None:
        self.settings.show_dialog(self.disk_use, self.window)

    def _tell_problem(self, of: str, problem: str) -> None:
        """Show what is wrong with the chats, else the settings, else the history; "": it is over."""
        self._problems[of] = problem
        known = (self._problems.get(name) for name in ("chats", "settings", "history"))
        self.pane.store_banner.say(next(filter(None, known), ""))
