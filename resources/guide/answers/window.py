"""What the guide says about the window and its shortcuts."""

from __future__ import annotations

from resources.guide.facts import Facts
from resources.guide.topic import Topic, topic


def topics(f: Facts) -> list[Topic]:
    """Topics about using the window."""
    return [*_shortcuts(f), *_using(f)]


def _shortcuts(f: Facts) -> list[Topic]:
    def keys(action: str) -> str:
        return rf"(?<!\w){f.shortcuts[action].replace('+', chr(92) + '+')}(?!\w)"

    return [
        topic(
            "shortcuts",
            "which keyboard shortcuts there are",
            (keys("new_chat"), keys("open_model"), keys("search")),
            f"{f.shortcuts['new_chat']} new chat, {f.shortcuts['open_model']} open a model, "
            f"{f.shortcuts['search']} "
            f"search, {f.shortcuts['toggle_sidebar']} list of chats, {f.shortcuts['settings']} settings, "
            f"{f.shortcuts['quit']} quit, {f.shortcuts['stop']} stops the answer. On a Mac, Cmd takes "
            f"Ctrl's place.",
        ),
        topic("send", "how to send a message", keys("send"), f"Type your message and press {f.key('send')}."),
        topic(
            "line_break",
            "how to start a new line in a message",
            keys("line_break"),
            f"Press {f.key('line_break')} to start a new line; {f.key('send')} alone sends.",
        ),
        topic(
            "stop",
            "how to stop or cancel an answer in the window",
            (keys("stop"), "Stop button"),
            f"Press {f.key('stop')} or click the Stop button: the answer ends at once and what is written "
            f"stays.",
        ),
        topic(
            "new_chat",
            "how to start a new chat",
            keys("new_chat"),
            f"Press {f.key('new_chat')} to start a new chat; the old one stays in the list.",
        ),
        topic(
            "search",
            "how to search in chats",
            keys("search"),
            f"Press {f.key('search')} to search all of your chats.",
        ),
        topic(
            "sidebar",
            "how to show or hide the list of chats",
            keys("toggle_sidebar"),
            f"Press {f.key('toggle_sidebar')} to show or hide the list of chats.",
        ),
        topic(
            "settings",
            "how to open the settings or preferences",
            keys("settings"),
            f"Press {f.key('settings')} to open the settings.",
        ),
        topic(
            "quit",
            "how to quit or close MLXR",
            keys("quit"),
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
            "how to edit a sent message or regenerate an answer",
            ("not yet", "new message"),
            "Editing a message or asking for another answer is not yet possible: send a new message instead.",
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
    ]
