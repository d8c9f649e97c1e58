"""Which questions count as too alike: the one definition of content words and of shared runs of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

RUN = 5
SAME_FROM = 3
WORD = re.compile(r"[a-z0-9']+")
STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are aren't as at be because been before being but by
    can can't cannot could couldn't did didn't do does doesn't doing don't down each either else
    ever every few for from get gets give go got had has hasn't have having he her here him his how
    how's i i'd i'll i'm i've if in into is isn't it it's its itself just let let's like many may me
    might more most much must my myself no nor not now of off on once one only or other our out over
    own please really same shall she should shouldn't so some such than that that's the their them
    then there there's these they this those through to too under until up us very was wasn't we
    were what what's when where where's which while who who's whom whose why will with without won't
    would wouldn't yes yet you you're your yours
    """.split()
)


def content_words(text: str) -> tuple[str, ...]:
    """The words of `text` in lower case, stop words left out."""
    return tuple(word for word in WORD.findall(text.lower().replace("’", "'")) if word not in STOP_WORDS)


def runs(words: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Every run of RUN content words in a row."""
    return {words[i : i + RUN] for i in range(len(words) - RUN + 1)}


class Reserved:
    """Questions kept for measuring: text too much like one of them must not be trained on."""

    def __init__(self, questions: Iterable[str]) -> None:
        """`questions` are the wordings to stay away from."""
        self._runs: set[tuple[str, ...]] = set()
        self._whole: set[tuple[str, ...]] = set()
        for question in questions:
            words = content_words(question)
            self._runs |= runs(words)
            if len(words) >= SAME_FROM:
                self._whole.add(words)

    def touches(self, text: str) -> bool:
        """Whether `text` shares a run with a reserved question, or is one (of SAME_FROM words or more)."""
        words = content_words(text)
        return words in self._whole or not self._runs.isdisjoint(runs(words))
