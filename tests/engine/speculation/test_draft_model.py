"""Answers with a draft model are those without it, whatever it knows; one that cannot serve is refused."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    EngineClosed,
    EngineSettings,
    Finished,
    Generate,
    LoadModel,
    Message,
    Stats,
    inspect_model,
)
from engine.loading.thread import at_once
from engine.machine.machine import compute_dtype
from engine.residents.opened import open_both
from engine.residents.opening import open_model
from tests.engine.speculation.guide import GUIDE, SAMPLINGS, answered, wrong_draft
from tests.engine.watched import guess_always, warm_always
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model


def without_repetition(draft: Path | None, **asked: object) -> tuple[Finished, Stats]:
    question = (Message("user", "What is a page, and where are my chats kept?"),)
    return answered(EngineSettings(), draft or "", messages=question, max_tokens=80, **asked)


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_draft_model_changes_no_token_and_a_good_one_is_right(name: str) -> None:
    if "warm" in name and compute_dtype("float16") != mx.float32:
        pytest.skip("in half precision a token drawn near the edge of two may be the other: see test_verify")
    plain, _ = without_repetition(None, sampling=SAMPLINGS[name])
    guessed, stats = without_repetition(GUIDE, sampling=SAMPLINGS[name])
    assert guessed.tokens == plain.tokens
    # It is its own draft model; text that was looked up may be wrong now and then. A GPU's kernels for drafts
    # are compiled at rest, and there was none.
    if name == "greedy" and compute_dtype("float16") == mx.float32:
        assert stats.cache.accepted_tokens >= 0.7 * stats.cache.drafted_tokens > 0


def test_a_draft_model_that_is_wrong_changes_nothing_either(tmp_path: Path) -> None:
    other = wrong_draft(tmp_path / "draft")
    plain, _ = without_repetition(None, sampling=SAMPLINGS["greedy"])
    guessed, _ = without_repetition(other, sampling=SAMPLINGS["greedy"])
    assert guessed.tokens == plain.tokens


@pytest.mark.parametrize("rows", [(320, 1024), (1024, 320)])
def test_rows_that_only_one_of_both_has_break_no_answer(
    rows: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    own, draft = (write_random_model(tmp_path / str(each), vocab_size=each) for each in rows)
    ends = list[Finished]()
    for model in (None, draft):
        with running_engine(EngineSettings(cache=tmp_path / "cache")) as listener:
            listener.load(own, draft=model or "")
            for number in range(3):
                ids = tuple(random.Random(number).sample(range(3, 300), 8))
                listener.submit(
                    Generate(
                        f"{number}", tokens=ids, max_tokens=40, ignore_eos=True, speculation=model is not None
                    )
                )
                ends.append(listener.finished(f"{number}"))
    assert [end.tokens for end in ends[:3]] == [end.tokens for end in ends[3:]]
    assert sum(end.drafted_tokens for end in ends[3:])
    assert rows[0] < rows[1] or any(token >= 320 for end in ends for token in end.tokens)


@pytest.mark.parametrize("budget", [7_000_000, 700_000])
def test_a_model_and_its_draft_model_share_one_budget(budget: int, tmp_path: Path) -> None:
    models = [write_random_model(tmp_path / name, max_position_embeddings=4096) for name in ("own", "draft")]
    settings = EngineSettings(kv_bytes=budget, cache=tmp_path / "cache")
    opened = open_both(LoadModel("load", str(models[0]), draft_model=str(models[1])), settings, at_once)
    serving = open_model("load", opened, lambda event: None, lambda: None)
    draft = serving._speculations._model
    assert draft is not None
    both = (serving.model, draft.model)
    taken = [model.pager.total_pages * model.arena.page_bytes for model in both]
    assert budget - 2 * both[0].arena.page_bytes < sum(taken) <= budget
    assert serving.model.info.context_length == min(4096, 16 * both[0].pager.total_pages)
    assert both[1].pager.total_pages == min(256, both[0].pager.total_pages)
    serving.close()


def test_who_quits_does_not_wait_for_a_draft_model(tmp_path: Path) -> None:
    own, draft = (write_random_model(tmp_path / name) for name in ("own", "draft"))
    asked = list[int]()

    def load(guesses: object, most: float) -> None:
        """It asks `most` times and once more; from then on the engine closes."""
        command = LoadModel("load", str(own), draft_model=str(guesses))
        opened = open_both(command, EngineSettings(cache=tmp_path / "cache"), at_once)
        asked.clear()

        def ending() -> EngineClosed | None:
            asked.append(1)
            return EngineClosed("the engine closes") if len(asked) > most else None

        open_model("load", opened, lambda event: None, ending)

    load("", inf)
    alone = len(asked)
    with pytest.raises(EngineClosed):
        load(draft, alone)
    assert len(asked) == alone + 1


@pytest.mark.parametrize("lacks", ["pages", "weights"])
def test_a_draft_model_for_which_there_is_no_room_is_refused_in_one_line(
    lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, draft = (write_random_model(tmp_path / name) for name in ("own", "draft"))
    if lacks == "weights":
        memory = inspect_model(own).weight_bytes * 3 // 2  # of which nine tenths may be weights
        monkeypatch.setattr("engine.residents.opened.memory_bytes", lambda: memory)
    with running_engine(EngineSettings(kv_bytes=20_000 if lacks == "pages" else None)) as listener:
        listener.submit(LoadModel("load", str(own), draft_model=str(draft)))
        error = listener.failed("load").error
        assert "own and draft, which is to guess for it, do not fit in memory together" in error
        assert "leave the draft model out" in error
        assert "\n" not in error
        listener.load(own, "alone")


def test_a_draft_model_of_another_vocabulary_is_refused_in_one_line(tmp_path: Path) -> None:
    other = write_random_model(tmp_path / "draft")
    with running_engine() as listener:
        listener.submit(LoadModel("load", str(GUIDE), draft_model=str(other)))
        failed = listener.failed("load")
        assert "their vocabularies differ" in failed.error
        assert failed.kind == "ModelError"
