"""What the cache promises a chat, counted; and each known way in which engines like this break, by name.

Where a page or a kernel is all it takes, the test is beside that room; the rest is here or in test_mix.

| what breaks | test |
|---|---|
| a fully cached prompt computes nothing | here |
| counts stale after a prefix hit | here, kv/test_memory |
| batches of hits and misses | here, kv/test_memory |
| a hash that points at an evicted page, hash collisions | kv/test_memory, kv/test_ssd_tier |
| use after free under eviction | kv/test_memory, test_mix (the books at each step) |
| a chunked prefill races an insert | here, kv/test_memory |
| accounting drifts | kv/test_memory_random, test_mix (the books at each step) |
| another conversation's KV in a reply | test_mix, test_faults |
| NaN in slots that nobody wrote | here, kv/test_memory |
| padding written into live pages, rows above 0 rotated wrongly | test_in_place, test_batching |
| a cache of another model or dtype | here, test_restart, kv/test_memory_ssd |
| a dispatch that was dropped: zeros for results | test_idle_trials, metal/test_selection, test_launches |
| indices past 32k | metal/test_decode_attention, metal/test_prefill_attention (32,769 keys) |
| memory, threads or open files without bound | here |
| one bad request ends the thread, or makes others wait for ever | test_engine, test_faults |
| preemption loses tokens, or cascades | here, test_mix |
| a deadlock when pages run out | here, test_scheduler |
| a half file, growth past the cap | kv/test_ssd_tier, kv/test_ssd_tier_kill, test_mix |
| a prefix hit differs from cold | here, test_mix (log-probabilities) |
| split characters | tokenizer/test_detokenizer |
| two BOS, several EOS | tokenizer/test_json_backend, tokenizer/test_loader |
| stripped thoughts | tokenizer/test_history |
| RoPE scaling ignored, double mask, window off by one | test_runner, loading/test_config, kv/test_memory |
| a full disk that stops the app | app/store/test_worker, app/test_log, test_faults (the cache's) |
| KV of the old model stays after a failed load | here |
| screen readers read nonsense | app/widgets, app/chat (accessible names) |

Bad input, with real parts:

| bad input | test |
|---|---|
| a full disk, a read-only folder | test_faults and kv/test_ssd_tier, on a disk of their own |
| a file cut short, flipped or swapped | test_faults, kv/test_page_file |
| a request longer than the context; more answers than pages | test_engine; test_many_answers |
| a cancel at any moment | test_mix, test_mix_in_place, test_engine_random, test_faults (restoring) |
| a clock that jumps | test_faults, kv/test_ssd_tier |
| a process killed while it writes | kv/test_ssd_tier_kill, test_faults_kill |
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import (
    CacheReport,
    Cancel,
    EngineSettings,
    Finished,
    Forget,
    Generate,
    LoadModel,
    ModelUnloaded,
    Pin,
    SamplingParams,
    SsdSettings,
    Stats,
    UnloadModel,
)
from engine.kv.arena import empty_pool
from engine.kv.coding import Plane
from tests.engine.mix import samples
from tests.engine.oracle import WINDOW, Checked, checked_model
from tests.engine.watched import Watch, restore_always, watch_memory
from tests.fakes.listener import Listener, running_engine

GREEDY = SamplingParams(temperature=0)
PAGE = 4
PROMPT = tuple(3 + 7 * number % 290 for number in range(50))
NEW = (17, 28, 39, 40, 51)

MODELS = ("llama", "window", "mixed windows")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    root = tmp_path_factory.mktemp("models")
    return {kind: checked_model(root, kind) for kind in (*MODELS, "qwen3")}


@pytest.fixture(params=["llama", pytest.param("window", marks=pytest.mark.long), "mixed windows"])
def model(request: pytest.FixtureRequest, models: dict[str, Checked]) -> Checked:
    return models[request.param]


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = watch_memory(monkeypatch)
    restore_always(monkeypatch)
    yield watch
    assert not watch.wrong


class Chat:
    """Asks one engine, and checks every answer against the oracle."""

    def __init__(self, listener: Listener, model: Checked, suffix: str = "") -> None:
        self.listener, self.model, self._suffix = listener, model, suffix
        self.asked: dict[str, Generate] = {}

    def submit(self, tokens: tuple[int, ...], count: int = 9, chat: str = "chat") -> str:
        name = f"r{len(self.asked)}" + self._suffix
        self.asked[name] = Generate(
            name,
            tokens=tokens,
            max_tokens=count,
            sampling=GREEDY,
            logprobs=0,
            ignore_eos=True,
            chat=chat,
        )
        self.listener.submit(self.asked[name])
        return name

    def end(self, name: str) -> tuple[Finished, CacheReport]:
        end = self.listener.finished(name)
        (report,) = (e for e in self.listener.events if isinstance(e, CacheReport) and e.id == name)
        for sample in samples(end):
            assert len(sample.tokens) == self.asked[name].max_tokens
            wrong = self.model.oracle.complaint(self.asked[name], end.prompt_tokens, sample)
            assert not wrong, wrong
        reused = report.cached_tokens + report.restored_tokens
        assert end.timing.cached_tokens == reused
        assert end.timing.prefill_tokens == len(end.prompt_tokens) - reused
        return end, report

    def say(
        self, tokens: tuple[int, ...], count: int = 9, chat: str = "chat"
    ) -> tuple[tuple[int, ...], CacheReport]:
        """The whole conversation after an answer, and what was cached for it."""
        end, report = self.end(self.submit(tokens, count, chat))
        return (*end.prompt_tokens, *end.tokens), report

    def idle(self) -> Stats:
        """The engine's pulse when nothing is left to do."""
        self.end(self.submit((5,), 1, ""))
        stats = self.listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return stats


def settings(pages: int = 128, folder: Path | None = None) -> EngineSettings:
    ssd = None if folder is None else SsdSettings(folder, 1 << 30, 0)
    return EngineSettings(page_size=PAGE, kv_pages=pages, prefill_chunk=16, ssd=ssd)


@pytest.fixture
def chat(model: Checked) -> Iterator[Chat]:
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        yield Chat(listener, model)


def test_the_next_turn_computes_the_new_tokens_and_the_last_of_the_answer(chat: Chat) -> None:
    """The last token of an answer was drawn, and never went through the model."""
    said, report = chat.say(PROMPT)
    assert report == CacheReport("r0", 50, 0, 0, None, None)
    for _ in range(3):
        before = len(said)
        said, report = chat.say((*said, *NEW))
        assert report.cached_tokens == before - 1
        assert (report.missed_from, report.reason) == (None, None)


def test_regenerating_computes_one_token(chat: Chat) -> None:
    first, _ = chat.say(PROMPT)
    again, report = chat.say(PROMPT)
    assert report.cached_tokens == len(PROMPT) - 1
    assert again == first


@pytest.mark.parametrize("length", [1, 2, PAGE, PAGE + 1, 3 * PAGE, 50])
def test_a_prompt_that_is_cached_whole_computes_its_last_token(length: int, chat: Chat) -> None:
    first, _ = chat.say(PROMPT[:length])
    again, report = chat.say(PROMPT[:length], chat="another")
    assert report.cached_tokens == length - 1
    assert again == first


@pytest.mark.parametrize("cut", [1, 14, 15, 16, 17, 49])
def test_an_edit_computes_what_is_behind_it(cut: int, models: dict[str, Checked]) -> None:
    with running_engine(settings()) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        chat.say(PROMPT)
        _, report = chat.say((*PROMPT[:cut], *NEW))
        assert report.cached_tokens == cut
        assert (report.missed_from, report.reason) == (cut, "edited")


def test_each_branch_of_a_chat_goes_on_from_where_it_was(chat: Chat) -> None:
    trunk, _ = chat.say(PROMPT)
    left, _ = chat.say((*trunk, *NEW))
    right, report = chat.say((*trunk, *reversed(NEW)))
    assert report.cached_tokens == len(trunk)  # its last token was computed for the other branch
    for branch in (left, right, left):
        _, report = chat.say((*branch, 7))
        assert report.cached_tokens >= len(branch) - 1


def test_other_chats_share_what_they_begin_with(chat: Chat) -> None:
    chat.say(PROMPT, chat="a")
    _, report = chat.say((*PROMPT, *NEW), chat="b")
    assert report.cached_tokens == len(PROMPT)


def test_after_a_restart_whole_pages_come_back(model: Checked, tmp_path: Path) -> None:
    with running_engine(settings(folder=tmp_path)) as listener:
        listener.load(model.folder)
        said, _ = Chat(listener, model).say(PROMPT)
        listener.submit(UnloadModel())
        listener.load(model.folder, "again")
        _, report = Chat(listener, model, "again").say((*said, *NEW), chat="later")
    assert report.cached_tokens == 0
    assert report.restored_tokens == (len(said) - 1) // PAGE * PAGE


def test_a_chat_with_a_window_comes_back_in_an_arena_of_little_more_than_its_window(
    models: dict[str, Checked], tmp_path: Path
) -> None:
    model, long = models["window"], tuple(3 + 11 * number % 290 for number in range(120))
    pages = -(-(WINDOW + 16 + PAGE) // PAGE) + 1
    with running_engine(settings(pages, tmp_path)) as listener:
        listener.load(model.folder)
        chat = Chat(listener, model)
        said, _ = chat.say(long)
        chat.say(tuple(reversed(long)), chat="other")
        _, report = chat.say((*said, *NEW))
    assert report.cached_tokens + report.restored_tokens >= len(said) - PAGE


def test_models_share_nothing(models: dict[str, Checked], tmp_path: Path) -> None:
    restored: list[int] = []
    with running_engine(settings(folder=tmp_path)) as listener:
        for number, kind in enumerate(("llama", "qwen3", "llama")):
            listener.load(models[kind].folder, f"load {number}")
            _, report = Chat(listener, models[kind], f" of model {number}").say(PROMPT)
            assert report.cached_tokens == 0
            restored.append(report.restored_tokens)
    assert restored == [0, 0, 48]


def test_counts_are_those_of_the_requests(chat: Chat) -> None:
    said, _ = chat.say(PROMPT)
    chat.say(PROMPT, count=1)
    chat.say((*said, *NEW), count=1)
    chat.say(PROMPT[:1], count=1)
    counts = chat.idle().cache
    ends = [event for event in chat.listener.events if isinstance(event, Finished)]
    assert counts.cached_tokens == sum(end.timing.cached_tokens for end in ends)
    assert counts.computed_tokens == sum(end.timing.prefill_tokens for end in ends)
    assert counts.cached_tokens + counts.computed_tokens == sum(len(end.prompt_tokens) for end in ends)


def test_hits_and_misses_share_steps(chat: Chat) -> None:
    chat.say(PROMPT)
    others = [tuple(4 + (13 * place + 31 * number) % 289 for place in range(40)) for number in range(3)]
    asked = [PROMPT, others[0], (*PROMPT[:22], *NEW), others[1], PROMPT[:33], others[2]]
    names = [chat.submit(tokens, chat=f"chat {number}") for number, tokens in enumerate(asked)]
    cached = [chat.end(name)[1].cached_tokens for name in names]
    assert cached == [49, 0, 22, 0, 32, 0]


def test_two_who_compute_the_same_at_once_both_get_it_right(chat: Chat) -> None:
    names = [chat.submit(PROMPT, chat=f"chat {number}") for number in range(4)]
    assert len({chat.end(name)[0].tokens for name in names}) == 1


def test_slots_that_nobody_wrote_may_hold_anything(model: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    made = set[int]()

    def poisoned(kv_heads: int, plane: Plane, slots: int) -> mx.array:
        made.add(slots)
        return empty_pool(kv_heads, plane, slots) + mx.array(float("nan"))

    monkeypatch.setattr("engine.kv.arena.empty_pool", poisoned)
    with running_engine(settings()) as listener:
        listener.load(model.folder)
        chat = Chat(listener, model)
        names = [chat.submit(PROMPT[:length], chat=f"{length}") for length in (1, 7, 22, 33, 50)]
        for name in names:
            chat.end(name)  # which compares
    assert max(made) > 0


def test_memory_does_not_grow_with_the_number_of_requests(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=32)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        seen: list[int] = []
        for turn in range(40):
            chat.say(tuple(3 + (7 * place + 11 * turn) % 290 for place in range(60)), 4, f"chat {turn}")
            if turn in (9, 39):
                seen.append(chat.idle().memory_bytes)
    assert seen[1] <= 1.02 * seen[0]


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_threads_and_open_files_do_not_grow_with_the_number_of_loads(
    models: dict[str, Checked], tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    with running_engine(settings(folder=tmp_path)) as listener:
        for number in range(6):
            listener.load(models["llama"].folder, f"load {number}")
            Chat(listener, models["llama"], f" of load {number}").say(PROMPT * 2)
            listener.submit(UnloadModel())
            listener.wait(lambda event: isinstance(event, ModelUnloaded))
            seen.append((threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))))
    assert seen[-1] <= seen[1]


def test_who_gives_way_loses_no_token_and_is_not_chased_about(chat: Chat) -> None:
    """Eighteen pages: each of three answers fits alone, no two of them together."""
    with running_engine(settings(pages=18)) as listener:
        listener.load(chat.model.folder)
        tight = Chat(listener, chat.model)
        prompts = [tuple(3 + (7 * place + 31 * number) % 290 for place in range(24)) for number in range(3)]
        names = [tight.submit(tokens, 44, f"chat {number}") for number, tokens in enumerate(prompts)]
        for name in names:
            tight.end(name)
        counts = tight.idle().cache
    assert counts.preemptions <= 6


@pytest.mark.parametrize("pages", [8, 9, 13])
def test_everybody_gets_an_answer_when_pages_run_out(pages: int, models: dict[str, Checked]) -> None:
    with running_engine(settings(pages)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        names = [
            chat.submit(PROMPT[number : number + 5 + number], 20 - number, f"chat {number}")
            for number in range(12)
        ]
        for name in names:
            chat.end(name)
        assert chat.idle().pages_used == 0


@pytest.mark.usefixtures("settled_memory")
def test_a_failed_load_leaves_nothing_of_a_model_that_made_room_for_it(
    models: dict[str, Checked], watch: Watch, tmp_path: Path
) -> None:
    broken = shutil.copytree(models["llama"].folder, tmp_path / "broken") / "model.safetensors"
    save_file({**load_file(broken), "odd.weight": np.ones((2, 2), np.float32)}, broken)
    with running_engine(settings(64)) as listener:
        listener.load(models["llama"].folder, "constants")  # what the first answer of a process leaves
        Chat(listener, models["llama"], " before").say(PROMPT)
        listener.submit(UnloadModel())
        watch.models.clear()
        with listener.held():
            before = mx.get_active_memory()
        listener.load(models["llama"].folder)
        Chat(listener, models["llama"]).say(PROMPT)
        assert mx.get_active_memory() > before
        watch.models.clear()
        listener.submit(LoadModel("broken", str(tmp_path / "broken")))
        assert "do not belong" in listener.failed("broken").error
        assert any(isinstance(event, ModelUnloaded) and event.reason == "room" for event in listener.events)
        with listener.held():  # it fails while what it has read so far is still held
            assert mx.get_active_memory() <= before


def test_a_chat_that_was_forgotten_is_pinned_no_longer(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=20)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        listener.submit(Pin("a", True))
        chat.say(PROMPT, chat="a")
        listener.submit(Forget("a"))
        chat.say(PROMPT, chat="a")
        said, _ = chat.say(tuple(reversed(PROMPT)), chat="b")  # needs pages of the other
    assert len(said) > len(PROMPT)


def test_a_pinned_chat_that_takes_most_of_memory_goes_on(models: dict[str, Checked]) -> None:
    with running_engine(settings(pages=20)) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        listener.submit(Pin("a", True))
        said, _ = chat.say(PROMPT, chat="a")
        _, report = chat.say((*said, *NEW), chat="a")  # 16 pages, of which it has 15
        assert report.cached_tokens == len(said) - 1
        listener.submit(Generate("other", tokens=tuple(reversed(PROMPT)), chat="b"))
        failed = listener.failed("other")
        assert failed.refusal is not None
        assert [way.chat for way in failed.refusal.ways_out if way.kind == "evict"] == ["a"]


def test_a_request_that_was_cancelled_before_it_began_changes_no_reason(models: dict[str, Checked]) -> None:
    with running_engine(settings()) as listener:
        listener.load(models["llama"].folder)
        chat = Chat(listener, models["llama"])
        chat.say(PROMPT)
        with listener.held():
            listener.submit(Generate("never", tokens=PROMPT, chat="chat"))
            listener.submit(Cancel("never"))
        assert listener.finished("never").tokens == ()
        _, report = chat.say((*PROMPT[:30], *NEW))
    assert (report.missed_from, report.reason) == (30, "edited")
