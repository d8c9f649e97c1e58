"""Which prompts have a process of their own beside answers, in which chunks, at which pace of the answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from engine.kv.page_table import PageTable
from engine.pacing.chunking import ChunkSizer
from engine.pacing.prompt_chunks import PromptChunks
from engine.pacing.ways import Way
from engine.requests.request import Sequence
from tests.engine.asides import loaded, stepped
from tests.engine.watched import needs_aside
from tests.fakes.random_model import write_random_model


@pytest.mark.parametrize(
    ("rate", "most", "remaining", "tokens"),
    [
        (0, 2048, 4096, 256),
        (57, 2048, 4096, 256),
        (200, 2048, 4096, 800),
        (4000, 2048, 4096, 2048),
        (400, 2048, 1856, 1856),
        (400, 2048, 1857, 1600),
        (4000, 7, 100, 7),
        (4000, 2048, 65, 65),
    ],
)
def test_how_many_tokens_go_at_a_time(rate: float, most: int, remaining: int, tokens: int) -> None:
    chunks = ChunkSizer(most, 16, 4)
    if rate:
        chunks.filled(512, 1.0, 512 / rate)
    assert chunks.aside(remaining) == tokens


@pytest.mark.parametrize(
    ("longest", "remaining", "tokens"),
    [(2048, 16384, 2048), (8192, 16384, 6144), (8192, 6144, 6144), (6144, 6145, 6144), (3000, 9000, 3000)],
)
def test_they_are_up_to_three_chunks_of_others(longest: int, remaining: int, tokens: int) -> None:
    chunks = ChunkSizer(2048, 16, 4, longest)
    chunks.filled(2048, 1.0, 0.5)
    assert chunks.aside(remaining) == tokens


@needs_aside
@pytest.mark.parametrize(("rate", "fewest"), [(0, 64), (400, 64), (4000, 400)])
def test_only_a_prompt_that_takes_a_while_is_worth_a_process(
    tmp_path: Path, rate: float, fewest: int
) -> None:
    sizer, runner = ChunkSizer(2048, 16, 4), stepped(loaded(write_random_model(tmp_path / "model")))
    if rate:
        sizer.filled(512, 1.0, 512 / rate)
    chunks = PromptChunks(sizer, lambda _tokens, _length: True)
    for pending, is_worth_it in ((fewest - 1, False), (fewest, True)):
        request = SimpleNamespace(may_have_process=True)
        sequence = cast("Sequence", SimpleNamespace(pending=pending, table=PageTable(), request=request))
        assert (chunks.next(runner, sequence, 1)[1] is Way.ASIDE) == is_worth_it
        assert chunks.next(runner, sequence, 0)[1] is not Way.ASIDE
