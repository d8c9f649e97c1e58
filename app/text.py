"""Words the window shows in more than one place, and those that greet the user."""

from __future__ import annotations

from unicodedata import bidirectional

APP_NAME = "MLXR"

EMPTY_TITLE = "What would you like to know?"
EMPTY_GUIDE = (
    "This is the guide, a small model built into MLXR. It answers questions about MLXR itself, "
    "without a network: no message leaves this machine. For all else, choose a larger one."
)
EMPTY_MODEL = "{name} runs on this machine, without a network: no message leaves it."
EMPTY_NONE = "Open a model to chat: choose its folder or .gguf file, or drop it onto this window."

GUIDE_SUGGESTIONS = (
    "How do I open another model?",
    "Where are my chats saved?",
    "What is a page?",
)
MODEL_SUGGESTIONS = (
    "Explain in three sentences how a language model works.",
    "Write a short, friendly note that moves a meeting to Thursday.",
    "Compare lists and tuples in Python in a table.",
)

FIND_MODEL = "Find a model for this machine…"

GUIDE_NAME = "Guide"
NO_MODEL = "No model"
OPEN_MODEL = "Open a model file…"
OPEN_FOLDER = "Open a model folder…"
MODELS = "Models"
OPEN_GUIDE = "Open the guide"
RECENT_MODELS = "Opened before"
LOAD_FAILED = "{name} could not be opened: {error}"
RELOAD_FAILED = "{name} stays as it was; it could not be loaded anew: {error}"

PLACEHOLDER = "Message {name}"
PLACEHOLDER_NONE = "Open a model to chat"

WAITING = "Waiting for the model…"
WAITING_FOR = "Waiting: {why}"
WAITING_BEHIND = "Waiting for another answer: {reading}"
LOADING = "Opening {name}…"
RESTING = "{name} rests: it is loaded again when you write"
RESTING_ASKED = "{name} rests: it is loaded as soon as there is room for it"
RESTING_CROWDED = "{name} rests for lack of room: when you send, it is loaded as soon as another has answered"
TRYING = "Finding out how {name} runs fastest here. This is done once…"
READING_ELSEWHERE = "Another answer: {reading}"
READING = "Reading {done:,} of {tokens}"
READING_NEW = READING + " · {cached:,} cached"
LEFT = "{wait} left"
STOPPING = "Stopping…"

NOTE_STOPPED = "Stopped"
NOTE_LENGTH = "There was no room for more, so the answer ends here. Start a new chat to go on."
NOTE_INTERRUPTED = "MLXR was closed while this was being written"
NOTE_WORDLESS = "The model ended without a word"
"""Notes under an answer that did not end by itself, or has nothing to show."""
CUT_CONTEXT = "The context is full, so the answer ends here. Start a new chat to go on."
CUT_SETTING = (
    "The context is as full as it is set to be, so the answer ends here. "
    "Allow more in the model’s settings, or start a new chat."
)
CUT_MEMORY = (
    "KV memory is full, so the answer ends here. "
    "Start a new chat to go on, keep fewer chats in memory, or store keys and values in fewer bits."
)
CUT_ANSWER = "The answer has as many tokens as were allowed."
"""The same where it is known what it has come to the end of."""
WRITING = "Writing…"
ANSWERING = "Answering…"
DRAFT = "Draft"
CUT = "Out of room"
FAILED = "Failed"
WORDLESS = "Without a word"

CACHED = "{cached:,} of {total:,} tokens cached"
MISSED = "Read again from token {token:,}: {reason}"
MISSED_ALL = "Read again from the start: {reason}"
MISSED_NEW = "Read from token {token:,} on: {reason}"
IN_MEMORY = "{size} in memory"
ON_SSD = "{size} on SSD"
COLD = "No pages of its own with a model that is open, in memory or on SSD"
SHARED = "{size} of it shared with other chats"

PIN = "Keep in memory"
UNPIN = "Let go of memory"
KEPT_IN_MEMORY = "in memory"
PINNED = "Stays in memory until you let go of it"
PINNED_COLD = "Will stay in memory from its next answer on"

DISK_USE = "On disk now: {held} · written today (UTC): {written}"
DISK_PROBLEM = "Nothing is written at present: {reason}"
DISK_UNUSED = "Not in use since MLXR was started"
UNKNOWN = "–"
NOTHING = "nothing"

REFUSED = "This needs {needed}, and KV memory has {available:,}"
REFUSED_BESIDE = "This needs {needed}, and KV memory has {available:,} beside the chats you keep in memory"
REFUSED_LONG = "; start a new chat to go on"
"""Behind either where the message is not what is too long."""
WAY_SHORTEN = "Shorten the message by {amount}"
WAY_SHORTEN_WORDS = "Shorten the message by {amount}, about {words}"
WAY_FEWER = "Ask for {amount:,} answers"
WAY_ONE = "Ask for one answer"
WAY_EVICT = "Let go of the memory of {chat}, {amount}"
WAY_EVICT_ALL = "Let go of the memory of {count} chats: {chats}"
WAY_LARGER = "Allow more in this model's settings, up to {amount}"
WAY_QUANTISE = "Store keys and values in {amount} bits, from the next start of MLXR on"
"""Ways out of a refusal; each is a button under it, and those that help only together are one."""

QUANTISED = "Keys and values are stored in {amount} bits from the next start of MLXR on"
QUANTISED_MODEL = "Keys and values of {name} are stored in {amount} bits when it is opened again"
NEXT_START = "What you changed holds from the next start of MLXR on"
START_AGAIN = "Start it again now"

EDIT = "Edit this message"
SAVE_AND_SEND = "Save & send"
CANCEL = "Cancel"
REGENERATE = "Regenerate this answer"
REGENERATE_SEVERAL = "Answer this several ways"
SEND_SEVERAL = "Send, and answer several ways"
SEVERAL_ANSWERS = "{count} answers"
ANSWER_NUMBER = "Answer {number}"
SHOW_ANSWER = "Show answer {number}"
KEEP = "Keep this one"
KEEP_FIRST = "Keep one of the answers to go on"
ANSWER_FIRST = "An answer is on its way here: wait for it, or stop it, and try again"
BRANCH = "New chat from here"
BRANCH_TITLE = "Branch of {title}"
EARLIER_VERSION = "Earlier version"
LATER_VERSION = "Later version"
VERSION = "Version {place} of {count}"

KEPT = "Kept one answer · the memory of the others is free: {size}"
KEPT_NOTHING_FREE = "Kept one answer · the others hold no memory of their own"

DELETED = "Deleted “{title}”"
UNDO = "Undo"

MODELS_PAGE = "Models"
MANAGE_MODELS = "Manage models…"
MY_MODELS = "My models"
DISCOVER = "Discover"
BACK_TO_CHAT = "Back to the chat"
OPEN = "Open"
UNLOAD = "Unload"
MODEL_NAME = "Name of the model"
TOKEN = "Token for gated models"
TOKEN_KEPT = "The token of {name} is kept."
TOKEN_FORGOTTEN = "The token is forgotten."
NOT_LISTED = "{name} is not among your models any more"
LISTED = "{name} is listed now, where it lies"
ALL_LISTED = "{count} models are listed now, where they lie"
LOADED = "{name} is loaded"
MADE_ROOM = "{name} was unloaded to make room"
CHAT = "Chat with it"
OUTDATED = "The length of chats, the KV cache and the draft model hold when {name} is opened again"
OPEN_AGAIN = "Open it again"
READY = "{title} is ready"
REMOVED = "{name} is deleted: {size} freed"
GONE_FORGOTTEN = "{name} is no longer listed"
FORGOTTEN = "{name} is no longer listed; its files stay"


def sentence(line: str) -> str:
    """An error's line as a sentence: a capital first, unless it begins with a name such as config.json."""
    first = line.split(" ", 1)[0]
    is_word = first.rstrip(":,;").isalpha() and first.islower()
    return line[:1].upper() + line[1:] if is_word else line


def unmarked(line: str) -> str:
    """A line for a button or a menu, where a single & marks a key and is not shown."""
    return line.replace("&", "&&")


def untagged(words: str) -> str:
    """Words for a tooltip, where Qt takes what looks like HTML for it: a title may ask about a <p>."""
    return words.replace("<", "<\u200b").replace("&lt;", "&\u200blt;")


def isolated(name: str) -> str:
    """A name within a line: what is read from the right, as Arabic is, leaves all around it in its place."""
    is_from_right = any(bidirectional(letter) in ("R", "AL") for letter in name)
    return f"\u2068{name}\u2069" if is_from_right else name


def titled(title: str, most: int = 60) -> str:
    """A chat's title within a line, cut to `most` characters: people give it any length."""
    return isolated(title if len(title) <= most else title[: most - 1].rstrip() + "…")


def elsewhere(words: str, reading: str) -> str:
    """A line about another answer's prompt; `reading` says how far it is, as a sentence of its own."""
    return words.format(reading=reading[:1].lower() + reading[1:])


def model_title(path_name: str, is_guide: bool) -> str:
    """A model's name for people."""
    return GUIDE_NAME if is_guide else path_name or NO_MODEL
