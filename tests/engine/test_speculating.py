"""Answers with speculation are those without it, and text that repeats is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import EngineSettings, Finished, Generate, SamplingParams, Stats
from tests.fakes.listener import running_engine

GUIDE = Path(__file__).parents[2] / "resources" / "guide" / "model"
TEXT = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0),
    "warm": SamplingParams(temperature=0.7, top_p=0.9, seed=5),
    "penalties": SamplingParams(temperature=0, frequency_penalty=0.05, repetition_penalty=1.01),
    "warm penalties": SamplingParams(temperature=0.4, presence_penalty=0.1, seed=7),
}


def answer(speculation: bool, **asked: object) -> tuple[Finished, Stats]:
    with running_engine(EngineSettings(speculation=speculation)) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("a", prompt=TEXT, max_tokens=120, ignore_eos=True, **asked))  # type: ignore[arg-type]
        end = listener.finished("a")
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return end, stats


@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_answer_is_the_same_token_by_token(name: str) -> None:
    plain, without = answer(False, sampling=SAMPLINGS[name])
    guessed, stats = answer(True, sampling=SAMPLINGS[name])
    assert guessed.tokens == plain.tokens
    assert guessed.text == plain.text
    assert without.cache.drafted_tokens == 0
    assert stats.cache.drafted_tokens >= stats.cache.accepted_tokens > 0
    assert stats.pages_used == 0


def test_log_probabilities_come_with_guessed_tokens_too() -> None:
    plain, _ = answer(False, sampling=SAMPLINGS["greedy"], logprobs=2)
    guessed, stats = answer(True, sampling=SAMPLINGS["greedy"], logprobs=2)
    assert stats.cache.accepted_tokens > 0
    assert plain.logprobs is not None
    assert guessed.logprobs is not None
    assert [entry.id for entry in guessed.logprobs] == list(guessed.tokens)
    for ours, theirs in zip(guessed.logprobs, plain.logprobs, strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-3)


def test_a_stop_string_ends_inside_a_guess() -> None:
    plain, _ = answer(False, sampling=SAMPLINGS["greedy"])
    stop = plain.text[len(plain.text) // 2 :][:12]
    cut, _ = answer(True, sampling=SAMPLINGS["greedy"], stop=(stop,))
    assert cut.reason == "stop"
    assert cut.text == plain.text[: plain.text.index(stop)]
