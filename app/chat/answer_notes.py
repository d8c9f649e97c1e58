"""The small print under an answer: how it ended, how fast it was and what was read again, in words."""

from __future__ import annotations

from collections.abc import Mapping

from app import text
from app.chat.cache_words import miss_words
from app.store.records import ChatMessage
from engine import Limit

NOTES = {
    "stopped": text.NOTE_STOPPED,
    "length": text.NOTE_LENGTH,
    "interrupted": text.NOTE_INTERRUPTED,
}
ENDINGS = {
    "streaming": text.WRITING,
    "stopped": text.NOTE_STOPPED,
    "length": text.CUT,
    "failed": text.FAILED,
}
"""The same in a word, and for one that has not ended."""
CUT_WORDS: dict[Limit, str] = {
    "context": text.CUT_CONTEXT,
    "setting": text.CUT_SETTING,
    "memory": text.CUT_MEMORY,
    "max_tokens": text.CUT_ANSWER,
}
"""What an answer that was cut has come to the end of; such a message keeps it as its `error`."""


def note_for(message: ChatMessage) -> str:
    """What stands under an answer, a miss on a line of its own; "" while it is being written."""
    if message.status == "streaming":
        return ""
    missed = miss_words(message.missed_from, message.miss_reason)
    why = message.error if message.status in ("length", "stopped") else ""
    how = why or _ending_of(message, NOTES, text.NOTE_WORDLESS)
    ended = "  ·  ".join(part for part in (how, numbers_of(message)) if part)
    return "\n".join(line for line in (ended, missed) if line)


def progress_of(message: ChatMessage) -> str:
    """How far one of several answers is: its tokens, how it ended if not by itself, or that it is blank."""
    count = message.generated_tokens
    tokens = ("1 token" if count == 1 else f"{count:,} tokens") if count else ""
    ended = _ending_of(message, ENDINGS, text.WORDLESS)
    return "  ·  ".join(part for part in (tokens, ended) if part)


def _ending_of(message: ChatMessage, endings: Mapping[str, str], wordless: str) -> str:
    is_blank = message.status == "complete" and not message.text.strip()
    return wordless if is_blank else endings.get(message.status, "")


def numbers_of(message: ChatMessage) -> str:
    """Its tokens, speed and the wait for its first word, as far as told; "" without a word."""
    if message.ttft_ms <= 0 or not message.text.strip():
        return ""
    parts = [f"{message.generated_tokens:,} tokens" if message.generated_tokens != 1 else "1 token"]
    if message.decode_tps > 0:
        parts.append(
            f"{message.decode_tps:.0f} tok/s"
            if message.decode_tps >= 10
            else f"{message.decode_tps:.1f} tok/s"
        )
    parts.append(f"first word after {_wait(message.ttft_ms)}")
    return "  ·  ".join(parts)


def _wait(milliseconds: float) -> str:
    """Milliseconds where it is short: an answer behind what was cached begins after a few of them."""
    if milliseconds < 100:
        return f"{max(1, round(milliseconds))} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
