"""What a topic of the guide is: a thing people ask, the answer, and the fact a right answer contains."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing people ask.

    Attributes:
        id: name used by wordings, held-out lists and reports.
        asks: what the asker wants, in words (for authors of wordings).
        must: regular expressions, all found (ignoring case) in every right answer.
        answers: what the guide says; several only where variety is friendly.
    """

    id: str
    asks: str
    must: tuple[str, ...]
    answers: tuple[str, ...]

    def accepts(self, answer: str) -> bool:
        """Whether `answer` contains every fact that a right answer has to contain."""
        return all(re.search(fact, answer, re.IGNORECASE) for fact in self.must)


def topic(id: str, asks: str, must: str | tuple[str, ...], *answers: str) -> Topic:
    """A topic; `must` may be one regular expression. Raises ValueError when an own answer fails it."""
    made = Topic(id, asks, (must,) if isinstance(must, str) else must, answers)
    for answer in answers:
        if not made.accepts(answer):
            raise ValueError(f"topic {id}: its own answer lacks {made.must}: {answer}")
    return made
