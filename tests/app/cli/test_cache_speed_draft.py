"""What `mlxr bench --cache` measures of a draft model, and what it promises of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.cli.cache_speed_draft import before_drafts, longest_gap
from app.cli.rows import Row
from app.measure.engine_client import Answer, Mark
from engine import Finished, Timing

STEPS = [Mark(1.0, 1), Mark(1.5, 2), Mark(2.5, 3), Mark(3.0, 4)]


def test_guesses_that_are_wrong_may_cost_little_and_nothing_else_is_promised(
    rows_of: Callable[..., dict[str, Row]], tmp_path: Path
) -> None:
    rows = rows_of("draft")
    assert {what: row.target.value for what, row in rows.items() if row.target} == {
        "wrong guesses: with to without": 0.97,
        "wrong guesses, behind 230 unread tokens: with to without": 0.97,
    }
    assert all(row.middle > 0 for what, row in rows.items() if "before the first draft" not in what)
    waited = [row.middle for what, row in rows.items() if "before the first draft" in what]
    assert len(waited) == 2
    assert all(0 <= tokens <= 16 for tokens in waited)
    assert not list(tmp_path.glob("draft-*"))


def test_a_gap_is_a_time_without_a_new_piece() -> None:
    assert longest_gap(answer(STEPS, 3.25)) == 1.0
    assert longest_gap(answer(STEPS, 4.75)) == 1.75  # its last tokens had no text
    assert longest_gap(answer([], 4.0)) == 3.0


def test_the_first_draft_is_where_tokens_come_together() -> None:
    drafted = [*STEPS, Mark(4.0, 5), Mark(4.001, 6), Mark(4.5, 7), Mark(4.501, 8)]
    assert before_drafts(answer(drafted, 5.0), 0.5) == 4  # the fifth came with the sixth
    assert before_drafts(answer(STEPS, 5.0), 0.5) == 9


def answer(marks: list[Mark], ended: float) -> Answer:
    """Of nine tokens, the first at 1.0."""
    finished = Finished("a", "length", "", (5,) * 9, (1,), None, Timing(500.0, 1, 0, 0.0, 0.0))
    return Answer("a", 0.5, marks, finished=finished, ended=ended)
