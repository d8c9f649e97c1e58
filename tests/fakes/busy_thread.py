"""A background thread that is at work until somebody waits for its end."""

from __future__ import annotations

import threading

import pytest

from app.models.background import Background

PATIENCE = 60.0


def keep_busy(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of `background` from now on is done while its end is waited for, and not before.

    Where nobody waits, as the end of the process does not, it is never done.
    """
    is_waited_for = threading.Event()
    background.ask(is_waited_for.wait, lambda _: None, lambda _: None)
    thread = background._thread
    join = thread.join

    def join_now(timeout: float | None = None) -> None:
        is_waited_for.set()
        join(timeout and PATIENCE)

    monkeypatch.setattr(thread, "join", join_now)
