"""Words the window shows in more than one place, and those that greet the user."""

from __future__ import annotations

APP_NAME = "MLXR"

EMPTY_TITLE = "What would you like to know?"
EMPTY_GUIDE = (
    "This is the guide, a small model built into MLXR. It answers questions about MLXR itself, "
    "without a network: nothing you type leaves this machine."
)
EMPTY_MODEL = "{name} runs on this machine, without a network: nothing you type leaves it."
EMPTY_NONE = "Open a model to chat: choose its folder, or drop it onto this window."

GUIDE_SUGGESTIONS = (
    "How do I open another model?",
    "Where are my chats saved?",
    "What is a page?",
)
MODEL_SUGGESTIONS = (
    "Explain in three sentences how a language model chooses its next word.",
    "Write a short, friendly note that moves a meeting to Thursday.",
    "Compare lists and tuples in Python in a table.",
)

GUIDE_NAME = "Guide"
NO_MODEL = "No model"
OPEN_MODEL = "Open a model folder…"
OPEN_GUIDE = "Open the guide"
RECENT_MODELS = "Opened before"
LOAD_FAILED = "{name} could not be opened: {error}"

PLACEHOLDER = "Message {name}"
PLACEHOLDER_NONE = "Open a model to chat"

WAITING = "Waiting for the model…"
LOADING = "Opening {name}…"
READING = "Reading {done:,} of {total:,} tokens…"
STOPPING = "Stopping…"

NOTE_STOPPED = "Stopped"
NOTE_LENGTH = "The context is full, so the answer ends here. Start a new chat to go on."
NOTE_INTERRUPTED = "MLXR was closed while this was being written"
"""Notes under an answer that did not end by itself."""

DELETED = "Deleted “{title}”"
UNDO = "Undo"


def sentence(line: str) -> str:
    """An error's line as a sentence: a capital first, unless it begins with a name such as config.json."""
    first = line.split(" ", 1)[0]
    return line[:1].upper() + line[1:] if first.isalpha() and first.islower() else line


def model_title(path_name: str, is_guide: bool) -> str:
    """A model's name for people."""
    return GUIDE_NAME if is_guide else path_name or NO_MODEL
