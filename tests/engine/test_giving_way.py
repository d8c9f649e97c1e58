"""Who waits for whom when pages are short: the better-ranked begins, and whoever gave way loses nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.accepting import accept_command
from engine.commands import Generate, Lane, LoadModel
from engine.events import Event, Failed, Finished
from engine.opening import open_model
from engine.runner import Runner
from engine.sampling_params import SamplingParams
from engine.scheduler import MAX_RUNNING
from engine.serving import Serving
from engine.settings import EngineSettings
from tests.engine.mix import samples
from tests.engine.oracle import Checked, Oracle, checked_model
from tests.engine.watched import guess_always
from tests.fakes.random_model import write_random_model


@pytest.fixture(autouse=True)
def _on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that who has come how far is not a matter of threads."""
    monkeypatch.setattr(Runner, "has_aside", False)


def ids(count: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(3 + (seed * 37 + place * 7 + place * place) % 290 for place in range(count))


class Queue:
    """A served model whose requests arrive when they are told to."""

    def __init__(
        self,
        folder: Path,
        pages: int,
        draft: bool = False,
        model: Checked | None = None,
        **settings: object,
    ) -> None:
        self.model = model
        self.path = (
            model.folder if model else write_random_model(folder / "model", max_position_embeddings=1024)
        )
        if draft:
            settings["draft_model"] = write_random_model(folder / "draft", max_position_embeddings=1024)
        made = EngineSettings(kv_pages=pages, cache=folder / "cache", **settings)  # type: ignore[arg-type]
        self.events: list[Event] = []
        self.serving: Serving = open_model(
            LoadModel("load", str(self.path)), made, self.events.append, lambda: False
        )
        self.asked: dict[str, tuple[int, ...]] = {}

    def add(
        self,
        name: str,
        tokens: tuple[int, ...],
        answer: int,
        lane: Lane = "api",
        chat: str = "",
        age: float = 0.0,
    ) -> None:
        """It has waited for `age` seconds."""
        command = Generate(
            name,
            tokens=tokens,
            max_tokens=answer,
            ignore_eos=True,
            sampling=SamplingParams(temperature=0),
            lane=lane,
            chat=chat,
        )
        serving, arrived = self.serving, time.perf_counter() - age
        request = accept_command(
            command, serving.model, lambda prompt: serving.chats.capacity(chat, prompt), arrived
        )
        self.asked[name] = tokens
        serving.add(request)

    def work(self, steps: int | None = None) -> None:
        while self.serving.busy and steps != 0:
            self.serving.work()
            steps = None if steps is None else steps - 1
        failed = [event for event in self.events if isinstance(event, Failed)]
        assert not failed, failed[0].detail

    def work_until_all_write(self) -> None:
        """Each that was asked has its first token."""
        while not all(sequence.generated for sequence in self.serving._batcher):
            self.work(1)

    @property
    def ends(self) -> list[Finished]:
        return [event for event in self.events if isinstance(event, Finished)]

    @property
    def running(self) -> set[str]:
        return {sequence.request.id for sequence in self.serving._batcher.running}

    @property
    def preemptions(self) -> int:
        return self.serving._batcher.preemptions

    def close(self) -> None:
        """Every answer is what it is alone, and nothing is left."""
        oracle = self.model.oracle if self.model else Oracle(self.path)
        for end in self.ends:
            wrong = oracle.complaint(Generate(end.id), self.asked[end.id], samples(end)[0])
            assert not wrong, f"{end.id}: {wrong}"
        assert self.serving.model.pager.pages_used == 0
        self.serving.model.memory.check([])
        self.serving.close()


def test_the_window_s_chat_does_not_wait_for_a_program_s_whole_answer(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=16)
    queue.add("api", ids(100), 150)
    queue.work_until_all_write()
    queue.add("win", ids(150, 4), 3, "window", "w")
    queue.work()
    assert [end.id for end in queue.ends] == ["win", "api"]
    assert [len(end.tokens) for end in queue.ends] == [3, 150]
    assert queue.preemptions == 1
    queue.close()


def test_the_window_s_chat_does_not_wait_for_one_of_many_answers_to_end(tmp_path: Path) -> None:
    """As many as may run at once, and pages for many more: the last that came makes place for it."""
    queue = Queue(tmp_path, pages=500)
    many = {f"api {number}" for number in range(MAX_RUNNING)}
    for number in range(MAX_RUNNING):
        queue.add(f"api {number}", ids(4, number), 900)
    queue.work_until_all_write()
    assert queue.running == many
    queue.add("one more", ids(4, 50), 3)
    queue.add("win", ids(20, 40), 3, "window", "w")
    while not queue.running & {"win"}:
        queue.work(1)
    assert queue.running == {*many, "win"} - {f"api {MAX_RUNNING - 1}"}
    while queue.running != many:
        queue.work(1)
    assert [end.id for end in queue.ends] == ["win"]
    assert queue.preemptions == 1
    queue.serving.cancel_all()
    queue.close()


def test_a_prompt_that_is_longer_than_memory_begins_beside_others_where_a_window_leaves_most_of_it(
    tmp_path: Path,
) -> None:
    """Of its 300 tokens 41 are in pages at once, and there are pages for 96."""
    model = checked_model(tmp_path, "window", max_position_embeddings=1024)
    queue = Queue(tmp_path, pages=24, model=model, page_size=4, prefill_chunk=16)
    queue.add("api", ids(10), 200)
    queue.work_until_all_write()
    queue.add("win", ids(300, 4), 3, "window", "w")
    queue.work()
    assert [end.id for end in queue.ends] == ["win", "api"]
    assert queue.preemptions == 0
    queue.close()


@pytest.mark.parametrize(("lane", "age"), [("api", 0.0), ("window", 0.0)])
def test_nobody_gives_way_to_one_that_is_ranked_behind(lane: Lane, age: float, tmp_path: Path) -> None:
    """Another program's, or the window's that came half a minute after this one."""
    queue = Queue(tmp_path, pages=16)
    queue.add("first", ids(100), 60, age=31.0)
    queue.work_until_all_write()
    queue.add("second", ids(150, 4), 3, lane, age=age)
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    assert queue.preemptions == 0
    queue.close()


def test_the_worst_ranked_gives_way_first_and_the_best_goes_on(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=44)
    for number in range(3):
        queue.add(f"api {number}", ids(80, number), 100)
    queue.work_until_all_write()
    queue.add("win", ids(400, 9), 3, "window", "w")
    while not queue.running & {"win"}:
        queue.work(1)
    assert "api 0" in queue.running
    assert "api 2" not in queue.running
    queue.work()
    assert sorted(end.id for end in queue.ends) == ["api 0", "api 1", "api 2", "win"]
    queue.close()


def test_a_pinned_chat_goes_on_where_its_pages_would_help_nobody(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=24)
    queue.serving.chats.pin("kept", True)
    queue.add("api", ids(100), 60)
    queue.add("kept", ids(100, 7), 11, chat="kept")
    queue.work_until_all_write()
    queue.add("win", ids(150, 4), 3, "window", "w")
    given_up = set[str]()
    while queue.serving.busy:
        queue.work(1)
        given_up |= {
            one.request.id for one in queue.serving._batcher if one.generated and not one.table.pages
        }
    assert given_up == {"api"}
    assert sorted(end.id for end in queue.ends) == ["api", "kept", "win"]
    queue.serving.chats.pin("kept", False)
    queue.close()


def test_a_pinned_chat_that_fills_memory_goes_on_in_its_last_page(tmp_path: Path) -> None:
    queue = Queue(tmp_path, pages=8)
    queue.serving.chats.pin("a", True)
    queue.add("first", ids(117), 4, chat="a")
    queue.work()
    said = (*ids(117), *queue.ends[0].tokens, 9)
    queue.add("second", said, 3, chat="a")
    queue.work()
    assert [end.id for end in queue.ends] == ["first", "second"]
    assert queue.serving.model.memory.cached_pages == 8
    queue.serving.chats.pin("a", False)
    queue.close()


def test_an_answer_that_gave_way_is_guessed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt is computed again in pieces, behind each of which nothing is new for the draft model."""
    guess_always(monkeypatch)
    queue = Queue(tmp_path, pages=24, draft=True, prefill_chunk=16)
    queue.add("low", ids(150), 200)
    queue.work_until_all_write()
    queue.add("high", ids(37, 9), 120, "window")
    queue.work()
    assert [len(end.tokens) for end in queue.ends] == [120, 200]
    assert queue.preemptions > 0
    queue.close()
