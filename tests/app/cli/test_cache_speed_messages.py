"""What `mlxr bench --cache` counts of chats whose turns are messages: what is new, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.cache_speed_messages import new_tokens_of
from app.cli.cache_speed_turns import MOVES
from app.cli.rows import Row
from app.measure.engine_client import Answer
from engine import Finished, Timing
from tests.fakes.random_model import write_random_model

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"
TOLD = tuple(range(100, 120))


@pytest.mark.parametrize("is_guide", [False, True])
def test_messages_compute_what_is_new_and_no_more(
    rows_of: Callable[..., dict[str, Row]], random_model: Path, *, is_guide: bool
) -> None:
    rows = rows_of("messages", GUIDE if is_guide else random_model, context=900)
    counted = [f"computed beyond what was new, {what}" for what in ("its own turns", *MOVES)]
    assert [rows[what].samples for what in counted] == [(0,)] * 5
    assert [what for what, row in rows.items() if row.target] == counted
    assert all(row.verdict == "pass" for row in rows.values() if row.target)
    assert all(row.middle > 0 for what, row in rows.items() if what not in counted)
    (length,) = (row for what, row in rows.items() if what.startswith("tokens of 16 messages"))
    assert length.middle == pytest.approx(900 * 0.75, rel=0.15)


@pytest.mark.parametrize(("context", "has_template"), [(1024, False), (700, True)])
def test_a_model_that_has_no_such_chats_has_no_rows(
    rows_of: Callable[..., dict[str, Row]], tmp_path: Path, context: int, *, has_template: bool
) -> None:
    model = write_random_model(tmp_path / "plain", max_position_embeddings=context)
    if not has_template:
        settings = json.loads((model / "tokenizer_config.json").read_text())
        del settings["chat_template"]
        (model / "tokenizer_config.json").write_text(json.dumps(settings))
    assert rows_of("messages", model) == {}


def test_the_shortest_chat_fits_the_shortest_context(
    rows_of: Callable[..., dict[str, Row]], tmp_path: Path
) -> None:
    rows = rows_of("messages", write_random_model(tmp_path / "short", max_position_embeddings=811))
    assert rows["computed beyond what was new, its own turns"].samples == (0,)


@pytest.mark.parametrize(
    ("prompt", "kept", "new"),
    [
        ((*TOLD, 7, 8, 9), TOLD, 4),  # the last token told was drawn alone
        ((*TOLD[:10], 7, 8, 9), TOLD[:10], 3),
        ((*TOLD[:12], 7, 8, 9), TOLD[:10], 3),  # the two behind what is kept are as before
        ((*TOLD[:5], *range(7)), TOLD[:10], 2),  # it lost five: they are no new ones
        (TOLD, TOLD[:10], 1),  # asked for once more
        ((7, 8, 9), (), 3),
    ],
)
def test_new_is_what_was_never_there(prompt: tuple[int, ...], kept: tuple[int, ...], new: int) -> None:
    finished = Finished("a", "length", "", (5,), prompt, None, Timing(1.0, 1, 0, 0.0, 0.0))
    assert new_tokens_of(Answer("a", 0.0, finished=finished), kept, TOLD) == new
