"""What the cache promises a chat, counted; and each known way in which engines like this break, by name.

Where a page or a kernel is all it takes, the test is beside that room; the rest is here or in test_mix.

| what breaks | test |
|---|---|
| a fully cached prompt computes nothing | here |
| counts stale after a prefix hit | here, kv/test_memory |
| batches of hits and misses | here, kv/test_memory |
| a hash that points at an evicted page, hash collisions | kv/test_memory, kv/ssd/test_tier |
| use after free under eviction | kv/test_memory, test_mix (the books at each step) |
| a chunked prefill races an insert | here, kv/test_memory |
| accounting drifts | kv/test_memory_random, test_mix (the books at each step) |
| another conversation's KV in a reply | test_mix, test_faults |
| NaN in slots that nobody wrote | here, kv/test_memory |
| padding written into live pages, rows above 0 rotated wrongly | test_in_place, test_batching |
| a cache of another model or dtype | here, test_restart, kv/test_memory_ssd |
| a dropped dispatch: zeros for results | kernels/test_idle_trials, metal/test_selection, test_launches |
| indices past 32k | metal/test_far_slots; 32,769 keys: test_decode_attention, test_prefill_attention |
| memory, threads or open files without bound | test_cache_limits |
| one bad request ends the thread, or makes others wait for ever | test_engine, test_faults |
| preemption loses tokens, or cascades | test_cache_limits, test_mix |
| a deadlock when pages run out | test_cache_limits, test_scheduler |
| a half file, growth past the cap | kv/ssd/test_tier_damage, _room and _kill, test_mix |
| a prefix hit differs from cold | here, test_mix (log-probabilities) |
| split characters | tokenizer/test_detokenizer |
| two BOS, several EOS | tokenizer/test_json_backend, tokenizer/test_loader |
| stripped thoughts | tokenizer/test_history |
| RoPE scaling ignored, double mask | test_runner, loading/test_config |
| a window off by one | test_runner, kv/test_memory_windows |
| Xet downloads that stall, a resumed one with a wrong checksum | app/downloads/test_faults |
| a full disk that stops the app | app/test_bad_start_window, app/store/test_worker, test_faults (cache) |
| KV of the old model stays after a failed load | test_cache_limits |
| screen readers read nonsense | app/chat/test_read_aloud, app/test_tab_key |

Bad input, with real parts:

| bad input | test |
|---|---|
| a full disk, a read-only folder | test_faults and kv/ssd/test_tier_unwritable, on a disk of their own |
| a file cut short, flipped or swapped | test_faults, kv/test_page_file |
| a request longer than the context; more answers than pages | test_engine; test_many_answers |
| a cancel at any moment | test_mix, test_mix_in_place, test_engine_random, test_faults (restoring) |
| a clock that jumps | test_faults, kv/ssd/test_tier_counts and _room |
| a process killed while it writes | kv/ssd/test_tier_kill, test_faults_kill |
"""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from engine import CacheReport, Cancel, Finished, Generate, UnloadModel
from engine.kv.arena import empty_pool
from engine.kv.coding import Plane
from tests.engine.oracle import WINDOW, Checked
from tests.engine.promises.asked import NEW, PAGE, PROMPT, Chat, settings
from tests.fakes.listener import running_engine


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
