"""A chat as Markdown."""

from __future__ import annotations

from app.store.chat_markdown import to_markdown
from app.store.records import Chat, ChatMessage

EXPECTED = """\
# Pages and more

> Be brief.
>
> In English.

---

**You** · 2023-11-14 22:13 UTC

What is a page?

---

**tiny** · 2023-11-14 22:13 UTC

1. A block.

*This answer was stopped.*
"""


def test_who_says_what_and_when() -> None:
    chat = Chat("Pages\nand more", system="Be brief.\n\nIn English.")
    question = ChatMessage(chat.id, "user", "What is a page?\n", created=1_700_000_000)
    answer = ChatMessage(
        chat.id,
        "assistant",
        "\n1. A block.",
        question.id,
        model="/m/tiny",
        status="stopped",
        created=1_700_000_001,
    )
    assert to_markdown(chat, (question, answer), lambda path: path.removeprefix("/m/")) == EXPECTED
