"""How people really type: other words, small words in front and behind, slips, missing capitals and marks."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

QUESTION = re.compile(
    r"(what|whats|how|why|where|when|who|whose|which|is|are|can|could|does|do|did|will|would|should|may|any)\b",
    re.I,
)
NEIGHBOURS = {
    "a": "qs", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo",
    "j": "hk", "k": "jl", "l": "kp", "m": "n", "n": "bm", "o": "ip", "p": "ol", "q": "wa", "r": "et",
    "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc", "y": "tu", "z": "x",
}  # fmt: skip
SMALL_WORDS = frozenset("the a an do i to is of in my it does can for be on you that this me and are".split())


def read_sections(file: Path) -> dict[str, list[str]]:
    """The lines of a file under its `# name: …` headers."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("# "):
            lines = sections.setdefault(line[2:].split(":")[0], [])
        elif line.strip():
            lines.append(line.strip())
    return sections


def read_thesaurus(file: Path) -> dict[str, list[str]]:
    """Each word or phrase of a line stands for every other one of that line."""
    others: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        group = [word.strip() for word in line.split(",")]
        for word in group:
            others.setdefault(word, []).extend(other for other in group if other != word)
    return others


class Noise:
    """Rewrites wordings the way different people would type them; draws only from the `Random` given."""

    def __init__(self, folder: Path) -> None:
        """Reads thesaurus.txt and phrases.txt of `folder`."""
        self._others = read_thesaurus(folder / "thesaurus.txt")
        self._phrases = read_sections(folder / "phrases.txt")

    def system(self, random: Random) -> str:
        """A system message somebody might have set."""
        return random.choice(self._phrases["system"])

    def reword(self, text: str, random: Random, losing: bool) -> str:
        """Some words exchanged for others of like meaning, or added; `losing` allows dropping any word."""
        words = text.split()
        if random.random() < 0.5:
            rate = random.choice((0.15, 0.3, 0.6))
            words = [self._other(word, random) if random.random() < rate else word for word in words]
        if len(words) > 2 and random.random() < 0.12:
            words = [word for word in words if word not in SMALL_WORDS or random.random() < 0.5] or words
        if losing and len(words) > 4 and random.random() < 0.05:
            words.pop(random.randrange(len(words)))
        if len(words) > 2 and random.random() < 0.12:
            words.insert(random.randrange(1, len(words)), random.choice(self._phrases["inner"]))
        return " ".join(words)

    def surround(self, text: str, random: Random, about_app: bool) -> str:
        """Words in front and behind that change nothing; `about_app` allows "in mlxr" and the like."""
        draw = random.random()
        if draw < 0.18:
            text = f"{random.choice(self._phrases['before'])} {text}"
        draw = random.random()
        if draw < 0.1:
            text = _join(text, random.choice(self._phrases["after"]))
        elif draw < 0.2 and about_app:
            text = _join(text, random.choice(self._phrases["about"]))
        return text

    def finish(self, text: str, random: Random) -> str:
        """Slips of the finger, capitals and end marks."""
        if random.random() < 0.2:
            for _ in range(random.choice((1, 1, 2))):
                text = _slip(text, random)
        case = random.random()
        if case < 0.5:
            text = re.sub(r"\bi\b", "I", text[:1].upper() + text[1:])
        elif case < 0.53:
            text = text.upper()
        elif case < 0.75:
            text = text.lower()
        return text + _mark(text, random)

    def _other(self, word: str, random: Random) -> str:
        others = self._others.get(word)
        return random.choice(others) if others else word


def _join(text: str, tail: str) -> str:
    return f"{text}{tail}" if tail.startswith(",") else f"{text} {tail}"


def _mark(text: str, random: Random) -> str:
    if text[-1:] in "?!.:)":
        return ""
    draw = random.random()
    if QUESTION.match(text):
        return "?" if draw < 0.62 else "??" if draw < 0.64 else " ?" if draw < 0.66 else ""
    return "." if draw < 0.25 else "?" if draw < 0.45 else "!" if draw < 0.5 else "..." if draw < 0.51 else ""


def _slip(text: str, random: Random) -> str:
    """One letter of a longer word swapped, dropped, doubled or mistyped."""
    places = [i for i in range(1, len(text) - 1) if text[i - 1 : i + 2].isalpha()]
    if not places:
        return text
    at = random.choice(places)
    kind = random.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if kind == 1:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + text[at] + text[at:]
    return text[:at] + random.choice(NEIGHBOURS.get(text[at].lower(), text[at])) + text[at + 1 :]
