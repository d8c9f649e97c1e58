"""Whatever is asked of shared KV memory at once, every answer is the one that a cold run would give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine import EngineSettings, SsdSettings
from tests.engine.mix import Chances, Mix
from tests.engine.oracle import KINDS, Checked, checked_model
from tests.engine.watched import (
    ahead_always,
    aside_always,
    mix_always,
    needs_aside,
    restore_always,
    watch_memory,
)

SMALL_CAP = 400_000
"""Bytes of SSD cache that a mix soon fills."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checked]:
    root = tmp_path_factory.mktemp("models")
    return {kind: checked_model(root, kind) for kind in (*KINDS, "guide")}


@pytest.mark.parametrize(
    ("kind", "pages", "size", "chunk", "seed"),
    [
        ("llama", 8, 16, 24, 1),
        ("qwen3", 24, 4, 7, 2),
        pytest.param("window", 40, 2, 64, 3, marks=pytest.mark.long),
        ("window", 12, 4, 5, 4),
        pytest.param("mixed windows", 64, 4, 16, 5, marks=pytest.mark.long),
        pytest.param("llama", 33, 2, 16, 6, marks=pytest.mark.long),
    ],
)
def test_every_answer_of_a_mix_is_that_of_a_cold_run(
    kind: str,
    pages: int,
    size: int,
    chunk: int,
    seed: int,
    models: dict[str, Checked],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = EngineSettings(page_size=size, kv_pages=pages, prefill_chunk=chunk)
    mix = Mix(models[kind], settings, watch_memory(monkeypatch), seed).play(20)
    assert mix.seen["tokens"] > 40  # those alone that are asked first: how the others meet is the machine's
    assert min(mix.seen["cached_tokens"], mix.seen["evicted_pages"]) > 0


@pytest.mark.parametrize(
    "always",
    [mix_always, ahead_always, pytest.param(aside_always, marks=needs_aside)],
    ids=["mixed", "ahead", "aside"],
)
@pytest.mark.parametrize(
    ("kind", "pages", "size", "chunk", "seed"),
    [
        ("llama", 12, 16, 24, 21),
        ("qwen3", 40, 2, 64, 32),
        ("window", 40, 2, 64, 22),
        ("mixed windows", 24, 4, 7, 23),
    ],
)
def test_prompts_beside_answers_leave_them_what_they_are(
    kind: str,
    pages: int,
    size: int,
    chunk: int,
    seed: int,
    always: Callable[[pytest.MonkeyPatch], list[int]],
    models: dict[str, Checked],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the answers' own products, sent before what is in flight is read, and on a thread of their own."""
    settings = EngineSettings(page_size=size, kv_pages=pages, prefill_chunk=chunk)
    pieces = always(monkeypatch)
    Mix(models[kind], settings, watch_memory(monkeypatch), seed).play(16)
    assert pieces


@pytest.mark.parametrize(
    ("kind", "pages", "size", "cap", "seed"),
    [
        ("llama", 16, 4, 1 << 30, 7),
        ("qwen3", 10, 16, SMALL_CAP, 8),
        pytest.param("window", 24, 4, 1 << 30, 9, marks=pytest.mark.long),
        ("mixed windows", 32, 2, SMALL_CAP, 10),
    ],
)
def test_pages_come_back_from_ssd_in_a_mix_that_unloads_and_loads_again(
    kind: str,
    pages: int,
    size: int,
    cap: int,
    seed: int,
    models: dict[str, Checked],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings = EngineSettings(
        page_size=size, kv_pages=pages, prefill_chunk=16, ssd=SsdSettings(tmp_path / "kv", cap, 0)
    )
    restore_always(monkeypatch)
    mix = Mix(models[kind], settings, watch_memory(monkeypatch), seed, Chances(reload=0.15)).play(20)
    assert mix.seen["spilled_pages"] > 0
    assert mix.seen["restored_pages"] > 0
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.safetensors")) <= cap


@pytest.mark.parametrize(
    ("kind", "bits", "seed"),
    [("llama", 8, 12), pytest.param("window", 8, 13, marks=pytest.mark.long), ("qwen3", 4, 14)],
)
def test_quantised_pages_are_shared_copied_evicted_and_restored_alike(
    kind: str, bits: int, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Heads of 32, which quantise; the oracle is mlx-lm with a quantised cache of its own."""
    settings = EngineSettings(
        page_size=4, kv_pages=24, prefill_chunk=16, kv_bits=bits, ssd=SsdSettings(tmp_path / "kv", 1 << 30, 0)
    )
    restore_always(monkeypatch)
    model, watch = checked_model(tmp_path, kind, bits, head_dim=32), watch_memory(monkeypatch)
    mix = Mix(model, settings, watch, seed, Chances(reload=0.1)).play(20)
    assert min(mix.seen[name] for name in ("cached_tokens", "evicted_pages", "restored_pages")) > 0


def test_the_guide_answers_in_a_mix_as_it_does_cold(
    models: dict[str, Checked], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(kv_pages=12, prefill_chunk=64)
    mix = Mix(models["guide"], settings, watch_memory(monkeypatch), 11).play(10, at_once=4)
    assert mix.seen["cached_tokens"] > 0
