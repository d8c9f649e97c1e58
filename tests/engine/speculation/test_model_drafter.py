"""What a draft model reads, when, and what it keeps of it."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path

import mlx.core as mx
import pytest

from engine import EngineSettings, Finished, Forget, Generate, KernelsChosen, SamplingParams
from engine.kv.page_table import PageTable
from engine.loading.model import load_model
from engine.requests.request import Sequence
from engine.runner import Runner
from engine.speculation.draft import Draft
from engine.speculation.model_drafter import DraftModel, ModelDrafter
from engine.speculation.model_guesses import Lengths, ModelGuesses
from engine.speculation.speculating import Speculation
from engine.steps.batch import Sent
from tests.engine.speculation.guide import GUIDE, SAMPLINGS, TEXT, wrong_draft
from tests.engine.watched import guess_always, warm_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD


def test_a_draft_model_says_the_same_again_where_nothing_came_behind() -> None:
    model = load_model(GUIDE, EngineSettings(), lambda done, total: None)
    drafter = ModelDrafter(DraftModel(model, model))
    drafter.add(text := model.tokenizer.encode(TEXT), "c")
    while drafter.is_behind:
        drafter.read(1.0)
    first = drafter.draft(3)
    for _ in range(2):
        drafter.add((), "c")
        assert drafter.draft(3) == first
    drafter.add(first.tokens, "c")
    drafter.add((), "c")
    assert drafter.draft(1).tokens
    drafter.close("c", len(text))
    model.memory.check([])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_on_a_device_a_draft_is_what_the_model_says_token_by_token(
    count: int, executor_name: str, tmp_path: Path
) -> None:
    write_random_model(tmp_path, head_dim=64)
    settings = EngineSettings(executor=executor_name, cache=BUILD.parent)
    model = load_model(tmp_path, settings, lambda done, total: None)
    drafter, text = ModelDrafter(DraftModel(model, model)), [*range(5, 25)]
    drafter.add(text, "c")
    while drafter.is_behind:
        drafter.read(1.0)
    draft = drafter.draft(count)
    drafter.close(None, 0)

    runner, table, said = Runner(model), PageTable(), list[int]()
    assert runner.looks_ahead
    logits = runner.next_logits(table, text)
    for _ in range(count):
        said.append(int(mx.argmax(logits).item()))
        mx.eval(runner.results)
        logits = runner.next_logits(table, said[-1:])
    assert draft.tokens == tuple(said)
    model.memory.free(table)
    model.memory.check([])


class Reading:
    """What the draft model read in one go, and how many tokens of the answer there were before each time.

    Nothing is looked up meanwhile.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, always: bool = True) -> None:
        """`always`: whether it pays or not."""
        if always:
            guess_always(monkeypatch)
        warm_always(monkeypatch)
        monkeypatch.setattr(Speculation, "_match", 0)
        self.tokens, self.behind = list[int](), list[int]()
        read, reads_on = ModelDrafter.read, ModelGuesses.reads_on

        def noted(drafter: ModelDrafter, seconds: float) -> None:
            before = drafter._table.length
            read(drafter, seconds)
            self.tokens.append(drafter._table.length - before)

        def asked(guesses: ModelGuesses, most: int, lengths: Lengths) -> bool:
            is_reading = reads_on(guesses, most, lengths)
            self.behind += [len(guesses._sequence.generated)] * is_reading
            return is_reading

        monkeypatch.setattr(ModelDrafter, "read", noted)
        monkeypatch.setattr(ModelGuesses, "reads_on", asked)


def turns(listener: Listener, prompt: tuple[int, ...], chat: str = "c") -> Finished:
    greedy = SAMPLINGS["greedy"]
    name = f"{len(listener.drain())}"
    listener.submit(Generate(name, tokens=prompt, max_tokens=60, ignore_eos=True, chat=chat, sampling=greedy))
    return listener.finished(name)


def test_a_draft_model_reads_a_long_text_between_tokens_and_each_turn_only_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, rng = Reading(monkeypatch), random.Random(2)
    text = tuple(rng.randrange(300, 3000) for _ in range(1500))
    with running_engine() as listener:
        listener.load(GUIDE, draft=GUIDE)
        first = turns(listener, text)
        assert 1400 < sum(reading.tokens) < 1560
        assert max(reading.tokens) <= 512
        assert len(set(reading.behind)) == len(reading.behind) > 2  # a token of the answer between any two
        assert first.drafted_tokens > 0
        read = len(reading.tokens)
        second = turns(listener, (*text, *first.tokens, *text[:20]))
        assert sum(reading.tokens[read:]) < 60
        assert second.drafted_tokens > 0
        listener.submit(Forget("c"))
        read = len(reading.tokens)
        turns(listener, (*text, *first.tokens), "another")
        assert sum(reading.tokens[read:]) > 1400


def test_a_draft_model_that_was_never_right_does_not_read_the_next_long_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.speculation.model_drafter._SLICES", (32, 32))  # a GPU reads 512 in no time
    reading, rng = Reading(monkeypatch, always=False), random.Random(3)
    with running_engine() as listener:
        listener.load(GUIDE, draft=wrong_draft(tmp_path / "draft"))
        for number in range(4):
            ids = tuple(rng.randrange(300, 3000) for _ in range(10))
            ended = turns(listener, ids, f"short {number}")
        assert ended.accepted_tokens == 0
        reading.tokens.clear()
        turns(listener, tuple(rng.randrange(300, 3000) for _ in range(3000)), "long")
        assert sum(reading.tokens) < 2000


def test_while_a_draft_model_cannot_draft_most_tokens_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU until what it launches is compiled: looking is a tenth of a small model's step."""
    looks, guess = list[Speculation](), Speculation.guess

    def noted(speculation: Speculation, seconds: float | None, steps: int = 1) -> None:
        looks.append(speculation)
        guess(speculation, seconds, steps)

    monkeypatch.setattr(Speculation, "guess", noted)
    monkeypatch.setattr(ModelDrafter, "is_warm", lambda drafter, length: False)
    monkeypatch.setattr("engine.speculation.speculating._BRIEF_WITH_MODEL", inf)  # on a busy machine, too
    flat, prompt = SamplingParams(temperature=100, seed=1), tuple(range(300, 340))
    with running_engine() as listener:
        listener.load(GUIDE, draft=GUIDE)
        listener.submit(Generate("a", tokens=prompt, max_tokens=200, ignore_eos=True, sampling=flat))
        assert listener.finished("a").drafted_tokens == 0
    assert len(looks) < 100


def test_a_draft_model_gives_back_pages_that_its_window_has_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has no more pages than its window and a chunk take."""
    Reading(monkeypatch)
    model = write_random_model(tmp_path / "m", "mistral", sliding_window=21, max_position_embeddings=4096)
    text = tuple(random.Random(3).randrange(3, 300) for _ in range(2500))
    with running_engine(EngineSettings(cache=tmp_path / "cache")) as listener:
        listener.load(model, draft=model)
        first = turns(listener, text)
        assert 0 < first.drafted_tokens == first.accepted_tokens
        next_turn = (*text, *first.tokens, *text[:50])
        second = turns(listener, next_turn)
        assert 0 < second.drafted_tokens == second.accepted_tokens
    with running_engine(EngineSettings(cache=tmp_path / "cache")) as listener:
        listener.load(model)
        assert turns(listener, next_turn).tokens == second.tokens


def test_behind_a_step_that_broke_a_draft_model_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, text = Reading(monkeypatch), tuple(300 + 7 * place % 2700 for place in range(700))

    def breaks(runner: Runner, sequence: Sequence, draft: Draft) -> Sent:
        raise RuntimeError("the device is gone")

    with running_engine() as listener:
        listener.load(GUIDE, draft=GUIDE)
        plain = turns(listener, text, "plain")
        reading.tokens.clear()
        with monkeypatch.context() as patch:
            patch.setattr("engine.batcher.send_draft", breaks)
            listener.submit(Generate("breaks", tokens=text, max_tokens=60, ignore_eos=True, chat="d"))
            assert "the device is gone" in listener.failed("breaks").error
        reading.tokens.clear()
        again = turns(listener, text, "plain")
        assert sum(reading.tokens) > 600
        assert again.tokens == plain.tokens


@pytest.mark.parametrize("breaks", ["read", "draft"])
def test_where_a_draft_model_breaks_the_answer_goes_on_and_it_is_asked_no_more(
    breaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Reading(monkeypatch)
    asked, text = list[int](), tuple(300 + 7 * place % 2700 for place in range(300))

    def broken(drafter: ModelDrafter, most: float) -> Draft:
        asked.append(drafter._table.length)
        raise RuntimeError("[malloc] Unable to allocate")

    with running_engine() as listener:
        listener.load(GUIDE, draft=GUIDE)
        plain = turns(listener, text, "plain")
        assert plain.drafted_tokens > 0
        monkeypatch.setattr(ModelDrafter, breaks, broken)
        for chat in ("first", "second"):
            listener.submit(Forget("plain"))
            ended = turns(listener, (*text[5:], *text[:5]), chat)
            assert len(ended.tokens) == 60
            assert len(asked) == 1
        again = turns(listener, text, "plain")
        assert again.tokens == plain.tokens
        assert again.drafted_tokens == 0
        (told,) = (event for event in listener.events if isinstance(event, KernelsChosen))
        assert "draft model guesses no more" in told.model.kernel_notes[-1]
