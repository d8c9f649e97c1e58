"""Reading one object of a chat file: each value is checked, and what is wrong is said with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

MOST = 1 << 53
"""The largest whole number that every reader of JSON keeps exactly."""

C = TypeVar("C", bound=str)


class Fields:
    """The values of one object; `place` names it in what is raised. Every method may raise ValueError."""

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self._values = values
        self._place = place

    def text(self, name: str, default: str | None = None) -> str:
        """A text that can be stored; `default` where there is none."""
        value = self._values.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name)
        try:
            value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise self._wrong(name) from None
        return value

    def one_of(self, name: str, choices: Sequence[C]) -> C:
        """One of a few words."""
        value = self._values.get(name)
        found = next((choice for choice in choices if choice == value), None)
        if found is None:
            raise self._wrong(name)
        return found

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number, not below zero; `default` where there is none."""
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self._wrong(name)
        return value

    def number_of(self, name: str, last: int) -> int | None:
        """The number of a message, 1 to `last`; None where there is none."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= last:
            raise self._wrong(name)
        return value

    def amount(self, name: str) -> float:
        """A number, not below zero; 0 where there is none."""
        value = self._values.get(name, 0)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self._wrong(name)
        return float(value)

    def time(self, name: str) -> float:
        """A time in ISO 8601, as seconds since the epoch; without a zone it is UTC."""
        try:
            moment = datetime.fromisoformat(self.text(name))
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise self._wrong(name) from None
        if not math.isfinite(seconds) or seconds < 0:
            raise self._wrong(name)
        return seconds

    def objects(self, name: str, most: int) -> list[Fields]:
        """A list of at most `most` objects."""
        value = self._values.get(name)
        if not isinstance(value, list):
            raise self._wrong(name)
        items = cast(list[object], value)
        if len(items) > most:
            raise ValueError(f"it has more than {most:,} {name}")
        found: list[Fields] = []
        for number, item in enumerate(items, start=1):
            if not isinstance(item, dict):
                raise ValueError(f"{name.removesuffix('s')} {number} is no object")
            found.append(Fields(cast(dict[str, Any], item), f"{name.removesuffix('s')} {number}"))
        return found

    def _wrong(self, name: str) -> ValueError:
        return ValueError(f"{self._place} has no valid {name}")
