"""Every keyboard shortcut of the window, declared once: the window binds them, the guide tells them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shortcut:
    """An action's name, its keys in Qt's portable notation (Ctrl is Command on a Mac), and what it does."""

    action: str
    keys: str
    does: str


SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut("send", "Return", "send the message"),
    Shortcut("line_break", "Shift+Return", "start a new line in the message"),
    Shortcut("send_edit", "Ctrl+Return", "send the message being edited"),
    Shortcut("stop", "Esc", "stop the answer"),
    Shortcut("new_chat", "Ctrl+N", "start a new chat"),
    Shortcut("open_model", "Ctrl+O", "open a model"),
    Shortcut("models", "Ctrl+Shift+M", "manage your models"),
    Shortcut("dashboard", "Ctrl+Shift+D", "see what the engine does"),
    Shortcut("search", "Ctrl+F", "search your chats"),
    Shortcut("toggle_sidebar", "Ctrl+B", "show or hide the list of chats"),
    Shortcut("settings", "Ctrl+,", "open the settings"),
    Shortcut("quit", "Ctrl+Q", "quit"),
)


def keys_for(action: str) -> str:
    """The keys of `action`. Raises KeyError for an action that does not exist."""
    for shortcut in SHORTCUTS:
        if shortcut.action == action:
            return shortcut.keys
    raise KeyError(action)
