"""Answers with speculation are those without it, and text that repeats is guessed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence as Many
from pathlib import Path

import mlx.core as mx
import pytest

from engine import (
    EngineClosed,
    EngineSettings,
    Finished,
    Forget,
    Generate,
    LoadModel,
    Message,
    SamplingParams,
    Stats,
)
from engine.batcher import Batcher
from engine.loading.files import ModelFiles
from engine.loading.model import load_model
from engine.loading.model import open_model as open_files
from engine.machine.machine import compute_dtype
from engine.residents.opening import open_model
from engine.runner import Runner
from engine.speculation.model_drafter import DraftModel, ModelDrafter
from engine.speculation.model_guesses import Lengths, ModelGuesses
from engine.speculation.speculating import Speculation
from engine.steps.batch import Sent
from engine.steps.parts import Part
from tests.engine.watched import guess_always, warm_always
from tests.fakes.listener import Listener, running_engine
from tests.fakes.random_model import write_random_model

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"
TEXT = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0),
    "warm": SamplingParams(temperature=0.7, top_p=0.9, seed=5),
    "penalties": SamplingParams(temperature=0, frequency_penalty=0.05, repetition_penalty=1.01),
    "warm penalties": SamplingParams(temperature=0.4, presence_penalty=0.1, seed=7),
}


def answer(is_on: bool, draft: Path | None = None, **asked: object) -> tuple[Finished, Stats]:
    with running_engine(EngineSettings(speculation=is_on, draft_model=draft)) as listener:
        listener.load(GUIDE)
        listener.submit(Generate("a", prompt=TEXT, max_tokens=120, ignore_eos=True, **asked))  # type: ignore[arg-type]
        end = listener.finished("a")
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return end, stats


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


def without_repetition(draft: Path | None, **asked: object) -> tuple[Finished, Stats]:
    with running_engine(EngineSettings(draft_model=draft)) as listener:
        listener.load(GUIDE)
        question = (Message("user", "What is a page, and where are my chats kept?"),)
        listener.submit(Generate("a", messages=question, max_tokens=80, **asked))  # type: ignore[arg-type]
        end = listener.finished("a")
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return end, stats


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_draft_model_changes_no_token_and_a_good_one_is_right(name: str, tmp_path: Path) -> None:
    if "warm" in name and compute_dtype("float16") != mx.float32:
        pytest.skip("in half precision a token drawn near the edge of two may be the other: see test_verify")
    plain, _ = without_repetition(None, sampling=SAMPLINGS[name])
    guessed, stats = without_repetition(GUIDE, sampling=SAMPLINGS[name])
    assert guessed.tokens == plain.tokens
    # It is its own draft model; text that was looked up may be wrong now and then. A GPU's kernels for drafts
    # are compiled at rest, and there was none.
    if name == "greedy" and compute_dtype("float16") == mx.float32:
        assert stats.cache.accepted_tokens >= 0.7 * stats.cache.drafted_tokens > 0


def wrong_draft(folder: Path) -> Path:
    """A model of the guide's vocabulary that knows nothing."""
    config = json.loads((GUIDE / "config.json").read_text())
    fields = ("vocab_size", "bos_token_id", "eos_token_id")
    other = write_random_model(
        folder, max_position_embeddings=4096, **{name: config[name] for name in fields}
    )
    for file in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copy(GUIDE / file, other / file)
    return other


def test_a_draft_model_that_is_wrong_changes_nothing_either(tmp_path: Path) -> None:
    other = wrong_draft(tmp_path / "draft")
    plain, _ = without_repetition(None, sampling=SAMPLINGS["greedy"])
    guessed, _ = without_repetition(other, sampling=SAMPLINGS["greedy"])
    assert guessed.tokens == plain.tokens


def test_a_draft_model_says_the_same_again_where_nothing_came_behind() -> None:
    model = load_model(GUIDE, EngineSettings(), lambda done, total: None)
    drafter = ModelDrafter(DraftModel(model, model))
    drafter.add(model.tokenizer.encode(TEXT), "c")
    while drafter.is_behind:
        drafter.read(1.0)
    first = drafter.draft(3)
    for _ in range(2):
        drafter.add((), "c")
        assert drafter.draft(3) == first
    drafter.add(first.tokens, "c")
    drafter.add((), "c")
    assert drafter.draft(1).tokens
    drafter.close("c")
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
    with running_engine(EngineSettings(draft_model=GUIDE)) as listener:
        listener.load(GUIDE)
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
    with running_engine(EngineSettings(draft_model=wrong_draft(tmp_path / "draft"))) as listener:
        listener.load(GUIDE)
        for number in range(4):
            ids = tuple(rng.randrange(300, 3000) for _ in range(10))
            ended = turns(listener, ids, f"short {number}")
        assert ended.accepted_tokens == 0
        reading.tokens.clear()
        turns(listener, tuple(rng.randrange(300, 3000) for _ in range(3000)), "long")
        assert sum(reading.tokens) < 2000


def test_a_draft_model_gives_back_pages_that_its_window_has_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has no more pages than its window and a chunk take."""
    Reading(monkeypatch)
    model = write_random_model(tmp_path / "m", "mistral", sliding_window=21, max_position_embeddings=4096)
    text = tuple(random.Random(3).randrange(3, 300) for _ in range(2500))
    with running_engine(EngineSettings(draft_model=model, cache=tmp_path / "cache")) as listener:
        listener.load(model)
        first = turns(listener, text)
        assert 0 < first.drafted_tokens == first.accepted_tokens
        next_turn = (*text, *first.tokens, *text[:50])
        second = turns(listener, next_turn)
        assert 0 < second.drafted_tokens == second.accepted_tokens
    with running_engine(EngineSettings(cache=tmp_path / "cache")) as listener:
        listener.load(model)
        assert turns(listener, next_turn).tokens == second.tokens


def test_behind_a_step_that_broke_a_draft_model_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, broken = Reading(monkeypatch), list[int]()
    text, step = tuple(300 + 7 * place % 2700 for place in range(700)), Runner.step

    def breaks_once(runner: Runner, parts: Many[Part], tokens: mx.array) -> mx.array:
        if not broken and parts[0].table.length > 710:
            broken.append(1)
            raise RuntimeError("the device is gone")
        return step(runner, parts, tokens)

    with running_engine(EngineSettings(draft_model=GUIDE)) as listener:
        listener.load(GUIDE)
        plain = turns(listener, text, "plain")
        reading.tokens.clear()
        monkeypatch.setattr(Runner, "step", breaks_once)
        listener.submit(Generate("breaks", tokens=text, max_tokens=60, ignore_eos=True, chat="d"))
        assert "the device is gone" in listener.failed("breaks").error
        reading.tokens.clear()
        again = turns(listener, text, "plain")
        assert sum(reading.tokens) > 600
        assert again.tokens == plain.tokens


@pytest.mark.parametrize("budget", [7_000_000, 700_000])
def test_a_model_and_its_draft_model_share_one_budget(budget: int, tmp_path: Path) -> None:
    models = [write_random_model(tmp_path / name, max_position_embeddings=4096) for name in ("own", "draft")]
    settings = EngineSettings(draft_model=models[1], kv_bytes=budget, cache=tmp_path / "cache")
    serving = open_model(LoadModel("load", str(models[0])), settings, lambda event: None, lambda: False)
    draft = serving._speculations._model
    assert draft is not None
    both = (serving.model, draft.model)
    taken = [model.pager.total_pages * model.arena.page_bytes for model in both]
    assert budget - 2 * both[0].arena.page_bytes < sum(taken) <= budget
    assert serving.model.info.context_length == min(4096, 16 * both[0].pager.total_pages)
    assert both[1].pager.total_pages == min(256, both[0].pager.total_pages)
    serving.close()


def test_who_quits_does_not_wait_for_a_draft_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, draft = (write_random_model(tmp_path / name) for name in ("own", "draft"))
    opened = list[Path]()

    def noted(path: Path) -> ModelFiles:
        opened.append(path)
        return open_files(path)

    monkeypatch.setattr("engine.loading.model.open_model", noted)
    settings = EngineSettings(draft_model=draft, cache=tmp_path / "cache")
    with pytest.raises(EngineClosed):
        open_model(LoadModel("load", str(own)), settings, lambda event: None, lambda: draft in opened)
    assert opened == [own, draft]


def test_a_budget_that_has_no_page_for_a_draft_model_is_refused_in_one_line(tmp_path: Path) -> None:
    own, draft = (write_random_model(tmp_path / name) for name in ("own", "draft"))
    with running_engine(EngineSettings(draft_model=draft, kv_bytes=20_000)) as listener:
        listener.submit(LoadModel("load", str(own)))
        error = listener.failed("load").error
        assert "leave the draft model out" in error
        assert "\n" not in error


def test_a_draft_model_of_another_vocabulary_is_refused_in_one_line(tmp_path: Path) -> None:
    other = write_random_model(tmp_path / "draft")
    with running_engine(EngineSettings(draft_model=other)) as listener:
        listener.submit(LoadModel("load", str(GUIDE)))
        failed = listener.failed("load")
        assert "their vocabularies differ" in failed.error
        assert failed.kind == "ModelError"


@pytest.mark.parametrize("rows", [(320, 1024), (1024, 320)])
def test_rows_that_only_one_of_both_has_break_no_answer(
    rows: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess_always(monkeypatch)
    warm_always(monkeypatch)
    own, draft = (write_random_model(tmp_path / str(each), vocab_size=each) for each in rows)
    ends = list[Finished]()
    for model in (None, draft):
        with running_engine(EngineSettings(draft_model=model, cache=tmp_path / "cache")) as listener:
            listener.load(own)
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
