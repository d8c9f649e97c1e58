"""The screen of `mlxr top`, drawn with rich: a block of figures for each model in memory."""

from __future__ import annotations

from collections import deque
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli import top_figures as figures

NO_MODEL = "No model is in memory."
HINT = "Ctrl-C leaves"
_LABEL = 13
_INDENT = 2
_NARROWEST_BAR, _WIDEST_BAR = 8, 40


class TopScreen:
    """What was said so far: the newest line of each model, and how fast it has written lately."""

    def __init__(self, app: dict[str, Any]) -> None:
        """`app`: what it says of itself."""
        self._app = app
        self._lines: dict[str, dict[str, Any]] = {}
        self._rates: dict[str, deque[float]] = {}
        self._left = ""

    def take(self, line: dict[str, Any]) -> None:
        """The app has said something."""
        if "unloaded" in line:
            path = str(line["model"])
            self._lines.pop(path, None)
            self._rates.pop(path, None)
            self._left = figures.left(line)
            return
        path = line["model"]["path"]
        self._lines[path] = line
        self._left = ""
        if line["stats"] is not None:
            rates = self._rates.setdefault(path, deque(maxlen=figures.TREND))
            rates.append(line["stats"]["decode_tps"])

    def drawn(self, width: int, is_live: bool) -> RenderableType:
        """The screen at so many columns; `is_live` when it is going to change."""
        parts: list[RenderableType] = [self._head(width, is_live)]
        for path, line in self._lines.items():
            parts += [Text(), *self._block(path, line, width)]
        if not self._lines:
            parts += [Text(), Text(NO_MODEL)]
        if self._left:
            parts += [Text(), Text(self._left, style="dim")]
        return Group(*parts)

    def _head(self, width: int, is_live: bool) -> Text:
        words = f"MLXR {self._app['mlxr']} · process {self._app['pid']}"
        hint = HINT if is_live else ""
        blanks = max(1, width - len(words) - len(hint))
        return Text.assemble((words, "bold"), " " * blanks if hint else "", (hint, "dim"), no_wrap=True)

    def _block(self, path: str, line: dict[str, Any], width: int) -> list[RenderableType]:
        head = Text(figures.title(line), style="bold", no_wrap=True, overflow="ellipsis")
        about = Text(" " * _INDENT + figures.about(line), style="dim", no_wrap=True, overflow="ellipsis")
        stats = line["stats"]
        if stats is None:
            return [head, about, Text(" " * _INDENT + figures.NOTHING_ASKED)]
        table = Table.grid(padding=(0, 1), expand=True)  # or what is too long is cut without a sign
        table.add_column(min_width=_LABEL, style="dim", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        found, room = figures.pages(stats), width - _INDENT - _LABEL - 1
        trend = figures.trend(list(self._rates[path]))
        table.add_row(_label("decode"), Text.assemble((f"{figures.decode(stats):<14}", "bold"), trend))
        first, *rest = figures.rows(line)
        for label, words in (first, ("KV pages", _pages(found, room)), *rest):
            table.add_row(_label(label), words)
        return [head, about, table]


def _label(words: str) -> str:
    return " " * _INDENT + words


def _pages(found: figures.Pages, room: int) -> str:
    words = figures.pages_words(found)
    bar = min(_WIDEST_BAR, room - len(words) - 2)
    return f"{found.bar(bar)}  {words}" if bar >= _NARROWEST_BAR else words


def make_console() -> Console:
    """The terminal as rich sees it; names are shown as they are, without its markup and emoji."""
    return Console(markup=False, emoji=False, highlight=False)
