"""Mixes of 500 requests over budgets from 8 pages up, with all that may happen beside them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine import EngineSettings, SsdSettings
from tests.engine.mix import Chances, Mix
from tests.engine.oracle import KINDS, checked_model
from tests.engine.watched import (
    ahead_always,
    aside_always,
    guess_always,
    needs_aside,
    restore_always,
    watch_memory,
)
from tests.fakes.random_model import write_random_model

REQUESTS = 500


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pages", [8, 12, 16, 24, 40, 64])
@pytest.mark.parametrize("has_ssd", [False, True])
def test_five_hundred_requests(
    pages: int, has_ssd: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{pages} {has_ssd}")
    kind, size = rng.choice(list(KINDS)), rng.choice((2, 4, 16) if pages >= 16 else (4, 16))
    cap = rng.choice((150_000, 1 << 30))
    settings = EngineSettings(
        page_size=size,
        kv_pages=pages,
        prefill_chunk=rng.choice((5, 16, 64)),
        ssd=SsdSettings(tmp_path / "kv", cap, floor_bytes=0) if has_ssd else None,
    )
    restore_always(monkeypatch)
    model, watch = checked_model(tmp_path, kind), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, pages, Chances(reload=0.02 * has_ssd)).play(REQUESTS, at_once=10)
    print(f"\n{kind}, {pages} pages of {size}, {watch.steps} steps: {dict(mix.seen)}")
    assert mix.seen["tokens"] > 4 * REQUESTS
    assert mix.seen["evicted_pages"] > REQUESTS
    assert (mix.seen["restored_pages"] > 0) == has_ssd
    assert sum(file.stat().st_size for file in tmp_path.glob("kv/*/*.safetensors")) <= cap


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_five_hundred_requests_to_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in model: trained, with the default page, and with guesses where a prompt repeats itself."""
    settings = EngineSettings(
        kv_pages=24, prefill_chunk=64, ssd=SsdSettings(tmp_path / "kv", 1 << 30, floor_bytes=0)
    )
    restore_always(monkeypatch)
    model, watch = checked_model(tmp_path, "guide"), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, 24, Chances(reload=0.02)).play(REQUESTS, at_once=10)
    print(f"\nthe guide, {watch.steps} steps: {dict(mix.seen)}")
    assert mix.seen["tokens"] > 4 * REQUESTS
    assert min(mix.seen["evicted_pages"], mix.seen["restored_pages"], mix.seen["preemptions"]) > 0


@needs_aside
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "pages"), [("llama", 12), ("mixed windows", 40)])
def test_five_hundred_requests_whose_prompts_have_a_thread_of_their_own(
    kind: str, pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(
        page_size=4, kv_pages=pages, prefill_chunk=16, ssd=SsdSettings(tmp_path / "kv", 1 << 30, 0)
    )
    restore_always(monkeypatch)
    chunks = aside_always(monkeypatch)
    model, watch = checked_model(tmp_path, kind), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, pages, Chances(reload=0.02)).play(REQUESTS, at_once=10)
    print(f"\n{kind}, {len(chunks)} chunks aside, {watch.steps} steps: {dict(mix.seen)}")
    assert len(chunks) > REQUESTS // 20
    assert mix.seen["evicted_pages"] > REQUESTS


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_hundred_requests_whose_steps_are_sent_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with kernels: a CPU's host computes each step at once."""
    settings = EngineSettings(page_size=4, kv_pages=12, prefill_chunk=16)
    ahead = ahead_always(monkeypatch)
    model, watch = checked_model(tmp_path, "llama"), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, 12, Chances()).play(REQUESTS, at_once=10)
    assert len(ahead) > REQUESTS
    assert mix.seen["evicted_pages"] > REQUESTS


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("kind", "pages"), [("llama", 12), ("window", 24), ("qwen3", 40)])
def test_five_hundred_requests_on_quantised_pages(
    bits: int, kind: str, pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evicted, restored, forked, preempted and, wherever a text repeats, guessed."""
    settings = EngineSettings(
        page_size=4,
        kv_pages=pages,
        prefill_chunk=16,
        kv_bits=bits,
        ssd=SsdSettings(tmp_path / "kv", 1 << 30, 0),
    )
    restore_always(monkeypatch)
    guess_always(monkeypatch)
    model, watch = checked_model(tmp_path, kind, bits, head_dim=32), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, pages, Chances(reload=0.02)).play(REQUESTS, at_once=10)
    print(f"\n{kind}, {bits} bits, {pages} pages of 4, {watch.steps} steps: {dict(mix.seen)}")
    for name in ("preemptions", "copied_pages", "evicted_pages", "restored_pages"):
        assert mix.seen[name] > 0, name
    # The others' text seldom repeats: of two runs with a window and 4 bits one had nothing to guess.
    assert kind != "qwen3" or mix.seen["drafted_tokens"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "pages", "is_right"), [("llama", 12, True), ("qwen3", 40, False)])
def test_five_hundred_requests_with_a_draft_model(
    kind: str, pages: int, is_right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model itself, whose drafts are right, or another of its shape; its pages are few as well."""
    model = checked_model(tmp_path, kind)
    settings = EngineSettings(
        page_size=4,
        kv_bytes=pages * 2 * 12_288,
        prefill_chunk=16,
        ssd=SsdSettings(tmp_path / "kv", 1 << 30, 0),
    )
    draft = model.folder if is_right else write_random_model(tmp_path / "other", seed=9)
    restore_always(monkeypatch)
    guess_always(monkeypatch)
    watch = watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, pages, Chances(reload=0.02), draft).play(REQUESTS, at_once=3)
    drafts = watch.models[-1]
    print(f"\n{kind}, {drafts.pager.total_pages} pages of drafts, {watch.steps} steps: {dict(mix.seen)}")
    drafts.memory.check([])
    for name in ("evicted_pages", "restored_pages", "drafted_tokens"):
        assert mix.seen[name] > 0, name
