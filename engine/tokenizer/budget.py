"""The time and text that one rendering of a chat template may use."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Generator, Iterable, Iterator, MappingView
from contextlib import contextmanager
from typing import Any, cast

import jinja2
from jinja2.runtime import LoopContext

IDLE_CHARACTERS = 4_000_000
MAX_PRODUCT = 100_000_000
"""Most characters that one call may make at worst: the product of the sizes of its two largest arguments."""
MAX_INTEGER_BITS = 256
MADE_TIMES = 32
"""How often one rendering may make as much text as it may hold: variables by the thousand add up."""
MAX_SLOW = 10_000
"""Most characters given to a filter whose time grows with the square of them."""
MAX_NAME = 1000
"""Longest name of an attribute, format of a date, or number of digits to round to."""
_WIDE = re.compile(r"[%{][^%{}]{0,40}?\d{6}|%[-+ #0-9]*\.?\*")
_FIELD = re.compile(r"[%{][^%{}]{0,60}")
_SLOW = frozenset({"pprint", "striptags", "sum", "urlize", "wordwrap"})
_BY_NAME = frozenset({"groupby", "map", "max", "min", "rejectattr", "selectattr", "sort", "sum", "unique"})
"""Filters that look up attributes by a dotted name, part by part, for every item."""
_MULTIPLIERS = frozenset(
    {
        *("batch", "center", "expandtabs", "format", "format_map", "indent", "join", "ljust", "replace"),
        *("rjust", "round", "slice", "translate", "truncate", "urlize", "wordwrap", "xmlattr", "zfill"),
    }
)
"""Methods of text and filters whose result can be much larger than what they are given."""


class TemplateTooLarge(jinja2.TemplateError):
    """The template went past a limit."""


class Budget:
    """Limits, and what has been used of them; outside `spend` (while compiling) only sizes are limited."""

    def __init__(self) -> None:
        self._deadline = math.inf
        self._limit = IDLE_CHARACTERS
        self._written = 0
        self._made = 0

    @contextmanager
    def spend(self, seconds: float, characters: int) -> Generator[None]:
        """Limits for the rendering inside the `with`."""
        self._deadline, self._limit = time.monotonic() + seconds, characters
        self._written = self._made = 0
        try:
            yield
        finally:
            self._deadline, self._limit = math.inf, IDLE_CHARACTERS

    def tick(self) -> None:
        """Raises TemplateTooLarge once time is up."""
        if time.monotonic() > self._deadline:
            raise TemplateTooLarge("takes too long to render")

    def steps(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items of a loop or stream: each on the clock, all of them together within the limit."""
        total = 0
        for item in items:
            self.tick()
            total += _size(item, self._limit)
            _require(total <= self._limit)
            yield item

    def check(self, value: Any) -> Any:
        """`value`, unless it is larger than a template may hold."""
        self.tick()
        _require(_size(value, self._limit) <= self._limit)
        return value

    def made(self, value: Any) -> Any:
        """`value`, new in this rendering; counted, without the old that it may hold, for it may be kept."""
        self._made += len(cast("str", value)) if isinstance(value, (str, list, tuple, dict)) else 1
        _require(self._made <= MADE_TIMES * self._limit)
        return self.check(value)

    def write(self, value: Any) -> Any:
        """`value`, about to be printed; counted."""
        self.tick()
        self._written += _size(value, self._limit)
        _require(self._written <= self._limit)
        return value

    def concat(self, chunks: Iterable[str]) -> str:
        """The chunks as one text."""
        return "".join(self.steps(chunks))

    def admit(self, name: str, value: Any) -> Any:
        """An argument of the filter or method `name`: of limited size, even if it is still to be made."""
        if not isinstance(value, Iterator) or isinstance(value, LoopContext):
            return self.check(value)
        items = self.steps(cast("Iterator[Any]", value))
        return list(items) if name in _MULTIPLIERS else items

    def check_call(self, name: str, *values: object) -> None:
        """Refuse arguments from which one filter, or one method of text, could make a giant.

        `values` starts with the text or list worked on; the product of the two largest bounds the result.
        """
        self.tick()
        if name in _SLOW:
            _require(all(_size(value, MAX_SLOW) <= MAX_SLOW for value in values))
        if name in _BY_NAME:
            _require(all(len(value) <= MAX_NAME for value in values[1:] if isinstance(value, str)))
        if name not in _MULTIPLIERS:
            return
        if name == "round":
            _require(all(abs(value) <= MAX_NAME for value in values[1:] if isinstance(value, int)))
        if name == "replace":  # what is looked for cannot make the result larger
            values = values[:1] + values[2:]
        if name.startswith("format"):
            _check_format(values[0])
        sizes = sorted((_reach(value) for value in values), reverse=True)
        _require(math.prod(sizes[:2]) <= (IDLE_CHARACTERS if name in ("batch", "slice") else MAX_PRODUCT))

    def check_operator(self, operator: str, left: object, right: object) -> None:
        """Refuse operands of `+`, `*`, `**` and `%` that would make a giant."""
        self.tick()
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            grown = abs(right) * _bits(left) if operator == "**" else _bits(left) + _bits(right)
            _require(grown <= MAX_INTEGER_BITS)
        elif operator == "%":
            _check_format(left)
            _require(_size(left, MAX_PRODUCT) * _size(right, MAX_PRODUCT) <= MAX_PRODUCT)
        elif operator == "*":
            _require(_reach(left) * _reach(right) <= MAX_PRODUCT)


def _require(within: bool) -> None:
    if not within:
        raise TemplateTooLarge("makes too much text")


def _bits(number: float) -> int:
    return number.bit_length() if isinstance(number, int) else 1


def _check_format(form: object) -> None:
    """Refuse widths that are huge, alone or together, or left to an argument, in a format of either kind."""
    if isinstance(form, str):
        _require(len(form) <= IDLE_CHARACTERS and not _WIDE.search(form))
        numbers = (number for field in _FIELD.findall(form) for number in re.findall(r"\d+", field))
        _require(sum(map(int, numbers)) <= IDLE_CHARACTERS)


def _reach(value: object) -> int:
    """How many characters `value` has or, being a number, may ask for."""
    return abs(value) + 1 if isinstance(value, int) else _size(value, MAX_PRODUCT) + 1


def _size(value: object, enough: int) -> int:
    """Characters that `value` takes when printed, roughly; counting stops once it exceeds `enough`."""
    if isinstance(value, str):
        return len(value)
    total = 0
    waiting = [value]
    while waiting and total <= enough:
        item = waiting.pop()
        if isinstance(item, (str, bytes)):
            total += len(item)
        elif isinstance(item, dict):
            waiting.extend(cast("dict[object, object]", item).keys())
            waiting.extend(cast("dict[object, object]", item).values())
        elif isinstance(item, (list, tuple, set, frozenset, MappingView)):
            waiting.extend(cast("Iterable[object]", item))
        elif isinstance(item, int) and item.bit_length() > MAX_INTEGER_BITS:
            return enough + 1
        total += 1
    return total
