"""What the guide says about the window and its shortcuts."""

from __future__ import annotations

import re

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about using the window."""
    return [*_shortcuts(f), *_using(f)]


def keys(f: Facts, action: str) -> str:
    """A regular expression for the keys of `action`, not those that only begin or end like them."""
    return rf"(?<!\w){re.escape(f.shortcuts[action])}(?!\w)"


def _shortcuts(f: Facts) -> list[Topic]:
    return [
        topic(
            "shortcuts",
            "which keyboard shortcuts there are",
            (keys(f, "new_chat"), keys(f, "open_model"), keys(f, "models"), keys(f, "search")),
            f"{f.shortcuts['new_chat']} new chat, {f.shortcuts['open_model']} open a model, "
            f"{f.shortcuts['models']} Models page, {f.shortcuts['search']} search, "
            f"{f.shortcuts['toggle_sidebar']} list of chats, {f.shortcuts['settings']} settings, "
            f"{f.shortcuts['quit']} quit, {f.shortcuts['stop']} stops the answer. On a Mac, Cmd takes "
            f"Ctrl's place.",
        ),
        topic(
            "send", "how to send a message", keys(f, "send"), f"Type your message and press {f.key('send')}."
        ),
        topic(
            "line_break",
            "how to start a new line in a message",
            keys(f, "line_break"),
            f"Press {f.key('line_break')} to start a new line; {f.key('send')} alone sends.",
        ),
        topic(
            "stop",
            "how to stop or cancel an answer in the window",
            (keys(f, "stop"), "Stop button"),
            f"Press {f.key('stop')} or click the Stop button: the answer ends at once and what is written "
            f"stays.",
        ),
        topic(
            "new_chat",
            "how to start a new chat",
            keys(f, "new_chat"),
            f"Press {f.key('new_chat')} to start a new chat; the old one stays in the list.",
        ),
        topic(
            "search",
            "how to search in chats",
            keys(f, "search"),
            f"Press {f.key('search')} to search all of your chats.",
        ),
        topic(
            "sidebar",
            "how to show or hide the list of chats",
            keys(f, "toggle_sidebar"),
            f"Press {f.key('toggle_sidebar')} to show or hide the list of chats.",
        ),
        topic(
            "settings",
            "how to open the settings or preferences",
            keys(f, "settings"),
            f"Press {f.key('settings')} to open the settings.",
        ),
        topic(
            "quit",
            "how to quit or close MLXR",
            keys(f, "quit"),
            f"Press {f.key('quit')} to quit MLXR. Your chats are saved.",
        ),
        topic(
            "mac_keys",
            "what Ctrl is on a Mac, whether shortcuts differ there",
            ("Cmd",),
            "On a Mac, use Cmd wherever a shortcut says Ctrl.",
        ),
    ]


def _using(f: Facts) -> list[Topic]:
    return [
        topic(
            "dark_mode",
            "dark or light theme",
            ("follows your system", "settings"),
            f"MLXR follows your system's light or dark look; {f.key('settings')} opens the settings, where "
            f"you can "
            "choose one.",
        ),
        topic(
            "delete_chat",
            "how to delete a chat",
            ("list of chats", "delete"),
            "Right-click the chat in the list of chats and choose Delete; Undo brings it back.",
        ),
        topic(
            "rename_chat",
            "how to rename a chat",
            ("list of chats", "rename"),
            "Right-click the chat in the list of chats and choose Rename.",
        ),
        topic(
            "old_chats",
            "how to find or continue an earlier chat",
            ("list of chats",),
            "Your earlier chats are in the list of chats on the left, newest first: click one to go on with "
            "it.",
        ),
        topic(
            "edit_message",
            "how to edit or correct a message that was sent",
            ("pencil", keys(f, "send_edit")),
            f"Click the pencil beside your message, change it and press {f.key('send_edit')}. The old "
            f"version stays.",
        ),
        topic(
            "regenerate",
            "how to get another answer to the same message, retry",
            ("Regenerate",),
            "Click the round arrow under the answer to regenerate it: another is written, the old one stays.",
        ),
        topic(
            "versions",
            "how to go back to an earlier version of a message or answer, what the arrows and 2 / 3 are",
            ("arrows", "version"),
            "The arrows around 2 / 3 lead to earlier and later versions of a message or answer; all stay.",
        ),
        topic(
            "branch",
            "how to branch or fork a chat, go on from an earlier point",
            ("New chat from here",),
            "Click New chat from here, the branch under an answer: a new chat begins with all said so far.",
        ),
        topic(
            "several_answers",
            "how to get several answers at once, and choose one",
            ("2 to 4", "Keep this one"),
            "The button beside Send asks for 2 to 4 answers at once. Choose Keep this one under the best to "
            "go on.",
        ),
        topic(
            "pin",
            "how to pin a chat, keep it in memory",
            ("Right-click", "Keep in memory"),
            "Right-click the chat in the list of chats and choose Keep in memory: its pages then stay there.",
        ),
        topic(
            "copy_text",
            "how to copy an answer or code",
            ("copy", "select"),
            "Simply select the text and copy it; a code block has its own copy button.",
        ),
        topic(
            "attach_file",
            "how to attach files, PDFs or documents",
            ("paste",),
            "Files cannot be attached: paste the text that matters into your message.",
        ),
        topic(
            "text_size",
            "how to make the text bigger, change the font",
            ("text size", "not yet"),
            "There is not yet a setting for text size or font; your system's display settings enlarge the "
            "whole window.",
        ),
        topic(
            "markdown",
            "how answers are shown: Markdown, tables, code, formulas",
            ("Markdown", "formulas"),
            "Answers are shown as Markdown, with lists, tables and code blocks; formulas stay plain text.",
        ),
    ]
