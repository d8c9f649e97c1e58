"""The little grammar in which training wordings are written, and drawing random wordings from it.

A line holds alternatives in parentheses `(a|b)`, optional parts in brackets `[a]`, and words of the same
meaning as `{name}`. Lines of a kind (`do:`, `np:`, …) hold items split by `|`, each put in a random frame of
that kind, where `*` stands for the item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

TOKENS = re.compile(r"[()\[\]|]|\{\w+\}|[^()\[\]|{}]+")
KIND = re.compile(r"(do|key|np|def|does|err): ")
NAMED = re.compile(r"(frame )?(\w+): ")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of `options`, each a sequence of texts and further choices."""

    options: tuple[tuple[str | Choice, ...], ...]

    @property
    def size(self) -> float:
        """How many texts can come out (repeats counted)."""
        return sum(
            math.prod(part.size if isinstance(part, Choice) else 1 for part in option)
            for option in self.options
        )

    def draw(self, random: Random) -> str:
        """A random text; every option of a choice is equally likely."""
        option = random.choice(self.options)
        return "".join(part.draw(random) if isinstance(part, Choice) else part for part in option)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a topic: what it says, the frames it may stand in, and how often it is drawn."""

    items: Choice
    frames: Choice | None
    weight: float

    def draw(self, random: Random) -> str:
        """A random wording of this line."""
        item = self.items.draw(random)
        text = item if self.frames is None else self.frames.draw(random).replace("*", item)
        return " ".join(text.split())


class Grammar:
    """All wordings of all topics."""

    def __init__(self, folder: Path) -> None:
        """Read every .txt file of `folder`. Raises ValueError with file and line for what is unreadable."""
        self._named: dict[str, Choice] = {}
        self._frames: dict[str, Choice] = {}
        self._lines: dict[str, list[Line]] = {}
        files = sorted(folder.glob("*.txt"), key=lambda file: (file.name != "macros.txt", file.name))
        for file in files:
            self._read(file)

    @property
    def topics(self) -> tuple[str, ...]:
        """Ids of all topics that have wordings, sorted."""
        return tuple(sorted(self._lines))

    def draw(self, topic: str, random: Random) -> str:
        """A random wording of `topic`, in lower case mostly, without end punctuation."""
        lines = self._lines[topic]
        return random.choices(lines, [line.weight for line in lines])[0].draw(random)

    def _read(self, file: Path) -> None:
        topic = ""
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            if text.startswith("# "):
                topic = text[2:] if re.fullmatch(r"# \w+", text) else ""
            elif text.strip():
                try:
                    self._take(text.strip(), topic)
                except (KeyError, IndexError) as error:
                    raise ValueError(f"{file.name}, line {number}: cannot read it ({error!r})") from error

    def _take(self, text: str, topic: str) -> None:
        if topic:
            self._lines.setdefault(topic, []).append(self._line(text))
            return
        name = NAMED.match(text)
        if name is None:
            raise KeyError("a line outside a topic must define a name")
        target = self._frames if name[1] else self._named
        target[name[2]] = self._parse(text[name.end() :])

    def _line(self, text: str) -> Line:
        kind = KIND.match(text)
        if kind is None:
            items, frames = self._parse(text), None
        else:
            items, frames = self._parse(text[kind.end() :]), self._frames[kind[1]]
        weight = 1 + math.log(items.size) + (1 if frames else 0)
        return Line(items, frames, weight)

    def _parse(self, text: str) -> Choice:
        tokens: list[str] = TOKENS.findall(text)
        choice = self._options(tokens, "")
        if tokens:
            raise IndexError(f"unexpected {tokens[0]}")
        return choice

    def _options(self, tokens: list[str], close: str) -> Choice:
        trim = tuple if close else _trim  # blanks around a `|` count inside parentheses only
        options: list[tuple[str | Choice, ...]] = []
        parts: list[str | Choice] = []
        while tokens and tokens[0] != close:
            token = tokens.pop(0)
            if token == "|":
                options.append(trim(parts))
                parts = []
            else:
                parts.append(self._part(token, tokens))
        if close:
            tokens.pop(0)
        return Choice((*options, trim(parts)))

    def _part(self, token: str, tokens: list[str]) -> str | Choice:
        if token == "(":
            return self._options(tokens, ")")
        if token == "[":
            inner = self._options(tokens, "]")
            return Choice((*inner.options, *[("",)] * len(inner.options)))
        if token.startswith("{"):
            return self._named[token[1:-1]]
        if token in ")]":
            raise IndexError(f"unexpected {token}")
        return token


def _trim(parts: Sequence[str | Choice]) -> tuple[str | Choice, ...]:
    """Parts without the blanks at either end."""
    kept = list(parts)
    if kept and isinstance(kept[0], str):
        kept[0] = kept[0].lstrip()
    if kept and isinstance(kept[-1], str):
        kept[-1] = kept[-1].rstrip()
    return tuple(kept)
