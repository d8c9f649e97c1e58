"""What a check of the machine found, as values: the report in words and the one in JSON come from these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        area: the section of the report, such as "Engine".
        what: what was looked at, in a word or two.
        is_: what it is here, in words.
        state: "ok"; "note" could be better; "broken" stops something from working.
        advice: what to do about it; "" when nothing is to be done.
    """

    area: str
    what: str
    is_: str
    state: State = "ok"
    advice: str = ""


def amount(count: int) -> str:
    """A number of weights for people: 8.9 million."""
    for limit, word in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if count >= limit:
            return f"{count / limit:.1f} {word}"
    return str(count)
