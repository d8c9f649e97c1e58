"""The window from its start to its end, with what watches over it: crashes, safe mode, signals."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QTimer

from app.application import make_application
from app.crash.desk import CrashDesk
from app.crash.diary import Diary
from app.crash.display_end import watch_display
from app.crash.keys import is_safe_key_held
from app.crash.safe_engine import safe_settings
from app.crash.safe_mode import why_safe
from app.crash.session import Session
from app.engine_settings import window_settings
from app.instance.address import Claim
from app.paths import default_paths
from app.settings import SettingsFile
from app.wiring import CLOSE_SECONDS, Desktop
from engine import Engine


def run_window(model: Path, claim: Claim, session: Session, wanted: str | None = None) -> int:
    """Open the window with the model in folder `model`; returns the exit code when it is closed.

    `wanted`: a link, or a file's path, that is opened there.
    """
    application = make_application()
    # In the loop: a signal that comes before it begins would be lost, and the window stay.
    session.ask_to_end(lambda: QTimer.singleShot(0, application.quit))
    watch_display(session.close)
    session.be_safe(why_safe(session.is_safe_asked, is_safe_key_held(), session.early_crashes))
    paths = default_paths()
    settings = window_settings(paths, SettingsFile(paths.settings).load().settings)
    settings = safe_settings(settings, session.safe)
    make_engine = Diary(session.note).watching(lambda emit: Engine(emit, settings))
    desktop = Desktop(application, make_engine, paths, claim)
    crashes = CrashDesk(session, desktop.appearance, desktop.pane, paths, desktop.queue.post)
    crashes.restart_wanted.connect(desktop.window.close)
    desktop.settings.restart_wanted.connect(crashes.restart)
    desktop.chats.deleted.connect(crashes.forget)
    desktop.start(model)
    crashes.start()
    application.wanted.connect(desktop.opener.open)
    application.listen()
    if wanted is not None:
        desktop.opener.open(wanted)
    try:
        return application.exec()
    finally:
        session.close()
        crashes.close(CLOSE_SECONDS)
        desktop.close()
