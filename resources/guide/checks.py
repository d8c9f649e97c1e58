"""What a good answer of the guide looks like, apart from its fact: it ends, and does not repeat itself."""

from __future__ import annotations

import re
from collections import Counter

MOST_TOKENS = 120
RUN = 3
MOST_REPEATS = 2
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def repeats(text: str) -> bool:
    """Whether any run of three words comes more than twice."""
    words = text.lower().split()
    counts = Counter(tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1))
    return any(count > MOST_REPEATS for count in counts.values())


def sentences(text: str) -> int:
    """How many sentences `text` has, counted by their end marks."""
    return len(SENTENCE_END.findall(text))
