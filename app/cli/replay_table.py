"""A replay for people: a line for each request as it ends, in columns under a heading."""

from __future__ import annotations

from collections.abc import Sequence

from app.cli.columns import cropped, screen_width
from app.cli.replay_file import Ask, Step
from app.cli.replay_result import Result
from app.cli.terminal import one_line
from engine import Failed, Finished

_COLUMNS = (
    ("state", 9),
    ("prompt", 7),
    ("cached", 7),
    ("restored", 8),
    ("written", 7),
    ("first ms", 9),
    ("tok/s", 8),
    ("gap p50", 8),
    ("gap p95", 8),
)
_WIDEST_ID = 32


class Table:
    """The columns, as wide as the ids of the file need."""

    def __init__(self, steps: Sequence[Step]) -> None:
        ids = [screen_width(one_line(step.id)) for step in steps if isinstance(step.action, Ask)]
        self._width = min(_WIDEST_ID, max([2, *ids]))

    def heading(self) -> str:
        """The columns' names."""
        return self._line("id", [name for name, _ in _COLUMNS])

    def row(self, result: Result) -> str:
        """A request that has ended."""
        end = result.end
        if isinstance(end, Failed):
            return f"{self._id(end.id)}  failed     {one_line(end.error)}"
        return self._line(end.id, [result.state, *_figures(result, end)])

    def _id(self, name: str) -> str:
        shown = cropped(one_line(name), self._width)
        return shown + " " * (self._width - screen_width(shown))

    def _line(self, name: str, cells: Sequence[str]) -> str:
        (_, first), *others = _COLUMNS
        right = (f"{cell:>{width}}" for cell, (_, width) in zip(cells[1:], others, strict=True))
        return "  ".join([self._id(name), f"{cells[0]:<{first}}", *right])


def _figures(result: Result, end: Finished) -> list[str]:
    timing = end.timing
    written = len(end.tokens) + sum(len(sample.tokens) for sample in end.others)
    return [
        f"{len(end.prompt_tokens):,}",
        f"{result.cached_tokens:,}",
        f"{result.restored_tokens:,}",
        f"{written:,}",
        f"{timing.ttft_ms:,.1f}" if end.tokens else "–",
        f"{timing.decode_tps:,.1f}" if timing.decode_tps else "–",
        *(_milliseconds(result.gap(share)) for share in (0.5, 0.95)),
    ]


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
