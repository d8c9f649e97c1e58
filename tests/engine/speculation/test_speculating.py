"""Answers with speculation are those without it, and text that repeats is guessed."""

from __future__ import annotations

import random
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings, Finished, Generate, SamplingParams, Stats
from engine.batcher import Batcher
from engine.machine.machine import compute_dtype
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.speculation.draft import Draft
from engine.steps.batch import Sent, send_draft
from tests.engine.served_model import PROMPT, Model
from tests.engine.speculation.guide import GUIDE, SAMPLINGS, TEXT, answered
from tests.engine.watched import guess_always, warm_always
from tests.fakes.listener import running_engine


def answer(is_on: bool, **asked: object) -> tuple[Finished, Stats]:
    return answered(EngineSettings(speculation=is_on), prompt=TEXT, max_tokens=120, ignore_eos=True, **asked)


@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_answer_is_the_same_token_by_token(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    plain, without = answer(False, sampling=SAMPLINGS[name])
    guessed, stats = answer(True, sampling=SAMPLINGS[name])
    assert guessed.tokens == plain.tokens
    assert guessed.text == plain.text
    assert without.cache.drafted_tokens == 0
    assert stats.cache.drafted_tokens >= stats.cache.accepted_tokens > 0
    of_request = (guessed.drafted_tokens, guessed.accepted_tokens)
    assert of_request == (stats.cache.drafted_tokens, stats.cache.accepted_tokens), "nothing else was asked"
    assert (plain.drafted_tokens, plain.accepted_tokens) == (0, 0)
    assert stats.pages_used == 0


def test_a_request_may_ask_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    plain, _ = answer(True, sampling=SAMPLINGS["greedy"], speculation=False)
    guessed, _ = answer(True, sampling=SAMPLINGS["greedy"])
    assert plain.drafted_tokens == 0 < guessed.drafted_tokens
    assert plain.tokens == guessed.tokens


def test_log_probabilities_come_with_guessed_tokens_too(monkeypatch: pytest.MonkeyPatch) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    plain, _ = answer(False, sampling=SAMPLINGS["greedy"], logprobs=2)
    guessed, stats = answer(True, sampling=SAMPLINGS["greedy"], logprobs=2)
    assert stats.cache.accepted_tokens > 0
    assert plain.logprobs is not None
    assert guessed.logprobs is not None
    assert [entry.id for entry in guessed.logprobs] == list(guessed.tokens)
    near = 1e-3 if compute_dtype("float16") == mx.float32 else 1e-2
    for ours, theirs in zip(guessed.logprobs, plain.logprobs, strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=near)


def test_a_stop_string_ends_inside_a_guess() -> None:
    plain, _ = answer(False, sampling=SAMPLINGS["greedy"])
    stop = plain.text[len(plain.text) // 2 :][:12]
    cut, _ = answer(True, sampling=SAMPLINGS["greedy"], stop=(stop,))
    assert cut.reason == "stop"
    assert cut.text == plain.text[: plain.text.index(stop)]


def test_at_random_text_steps_are_sent_ahead_and_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the engine's thread: whether the step before was not read yet. As with kernels."""
    monkeypatch.setattr(Runner, "looks_ahead", True)
    sent_ahead, send = list[bool](), Batcher.send

    def counted(self: Batcher, runner: Runner, before: Sent | None) -> Sent | None:
        sent = send(self, runner, before)
        if sent is not None and sent.slice is None:
            sent_ahead.append(before is not None)
        return sent

    monkeypatch.setattr(Batcher, "send", counted)
    prompt = tuple(random.Random(1).sample(range(100, 3000), 60))
    sampling = SamplingParams(temperature=5.0, seed=1)  # hardly a token is likelier than another
    with running_engine(EngineSettings()) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("a", tokens=prompt, sampling=sampling, max_tokens=200, ignore_eos=True))
        end = listener.finished("a")
    assert end.drafted_tokens == 0
    assert len(sent_ahead) >= 199
    assert sent_ahead.count(False) <= 2, "the first, and perhaps one that was held back"


def test_what_was_guessed_for_a_step_that_others_joined_is_checked_in_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    served, checked = Model(tmp_path, None, has_draft=True), list[tuple[int, Draft]]()

    def note(runner: Runner, sequence: Sequence, draft: Draft) -> Sent:
        checked.append((len(sequence.generated), draft))
        return send_draft(runner, sequence, draft)

    monkeypatch.setattr("engine.batcher.send_draft", note)
    serving, answer = served.serving, served.request("answer", PROMPT[:40], 60)
    serving.add(answer)
    while not checked:
        serving.work()
    serving.add(served.request("other", PROMPT, 60))
    for _ in range(3):
        serving.work()
    serving.cancel("other")
    while serving.busy:
        serving.work()
    (end,) = (event for event in served.events if isinstance(event, Finished) and event.id == "answer")
    by_model = [(at, draft.tokens) for at, draft in checked if not draft.match]  # which guesses for itself
    assert len(by_model) > 2
    assert [tokens for _, tokens in by_model] == [end.tokens[at : at + len(of)] for at, of in by_model]
