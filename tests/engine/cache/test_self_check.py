"""Pages from SSD that are not what the model computes are noticed, removed, and not served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import CacheReport, EngineSettings, Finished, Generate, SamplingParams, SsdSettings, Stats
from engine.cache.self_check import CODED_TOLERANCE, SelfCheck
from engine.kv.arena import Arena
from engine.kv.page_data import PageData
from engine.kv.page_table import PageTable
from engine.kv.restoring import Restoring
from engine.kv.ssd.runs import StoredRun
from engine.kv.ssd.tier import SsdTier
from engine.kv.stores import MemoryOf
from engine.runner import Runner
from tests.engine.cold import Cold
from tests.engine.oracle import checked_model
from tests.engine.watched import restore_always
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

PROMPT = tuple(3 + (7 * place) % 290 for place in range(200))


@pytest.fixture(autouse=True)
def _restores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is quicker on this machine: these tests are of what comes back."""
    restore_always(monkeypatch)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "tiny")


def run(
    tiny: Path, home: Path, share: float, bits: int | None = None, page_size: int = 16
) -> tuple[Finished, CacheReport, Stats]:
    ssd = SsdSettings(home / "kv", cap_bytes=64 << 20, floor_bytes=0, check_share=share)
    settings = EngineSettings(ssd=ssd, cache=home / "cache", kv_bits=bits, page_size=page_size)
    with running_engine(settings) as listener:
        listener.load(tiny)
        greedy = SamplingParams(temperature=0)
        listener.submit(Generate("a", tokens=PROMPT, max_tokens=8, sampling=greedy, ignore_eos=True))
        end = listener.finished("a")
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        (report,) = (event for event in listener.events if isinstance(event, CacheReport))
        assert isinstance(stats, Stats)
        return end, report, stats


def test_right_pages_pass(tiny: Path, tmp_path: Path) -> None:
    first, _, _ = run(tiny, tmp_path, 1.0)
    again, report, stats = run(tiny, tmp_path, 1.0)
    assert report.restored_tokens == 192
    assert again.tokens == first.tokens
    assert stats.cache.quarantined_files == 0


@pytest.mark.parametrize("page", [0, 5, 11])
def test_one_wrong_page_is_found_wherever_it_is(
    page: int, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = run(tiny, tmp_path, 1.0)

    read = Restoring.read

    def wrong(self: Restoring, run: StoredRun, memory: MemoryOf) -> int:
        pages = read(self, run, memory)
        for part in memory(page, 1)["values"]:
            np.frombuffer(part, np.float32)[:] += 1.0
        return pages

    with monkeypatch.context() as patch:
        patch.setattr(Restoring, "read", wrong)
        again, report, stats = run(tiny, tmp_path, 1.0)
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert stats.cache.quarantined_files == 1
    assert again.tokens == first.tokens
    assert Cold(tiny).accepts(PROMPT, again.tokens)
    _, report, _ = run(tiny, tmp_path, 1.0)
    assert report.restored_tokens == 192  # what was computed anew is on SSD again, and right


WINDOW = 48
SEEN = range(9, 12)
"""Pages that are read back of 192 tokens, where a token sees 48: those that one behind them sees."""


@pytest.fixture(scope="module")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every layer has a sliding window; beside it lies a twin that mlx-lm computes alike."""
    root = tmp_path_factory.mktemp("models")
    return checked_model(root, "window", sliding_window=WINDOW, max_position_embeddings=1024).folder


def test_right_pages_of_a_sliding_window_pass(
    sliding: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = run(sliding, tmp_path, 1.0)
    asked, agrees = list[bool](), SelfCheck.agrees

    def told(*given: Any) -> bool:
        asked.append(agrees(*given))
        return asked[-1]

    monkeypatch.setattr(SelfCheck, "agrees", told)
    again, report, stats = run(sliding, tmp_path, 1.0)
    assert asked == [True]
    assert (report.restored_tokens, stats.cache.restored_pages) == (192, len(SEEN))
    assert again.tokens == first.tokens
    assert stats.cache.quarantined_files == 0


@pytest.mark.parametrize("page", SEEN)
def test_one_wrong_page_of_a_sliding_window_is_found_wherever_it_is(
    page: int, sliding: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Arena.read

    def wrong(self: Arena, pages: Sequence[int]) -> PageData:
        data = write(self, pages)
        if len(pages) == 12:  # all that are full, as they go to SSD
            for part in data.part(page, 1).arrays["values"]:
                part *= -1
        return data

    with monkeypatch.context() as patch:
        patch.setattr(Arena, "read", wrong)
        first, _, _ = run(sliding, tmp_path, 1.0)
    again, report, stats = run(sliding, tmp_path, 1.0)
    assert (report.cached_tokens, report.restored_tokens) == (0, 0)
    assert stats.cache.quarantined_files == 1
    assert again.tokens == first.tokens
    assert Cold(sliding.with_name("window twin")).accepts(PROMPT, again.tokens)
    _, report, _ = run(sliding, tmp_path, 1.0)
    assert report.restored_tokens == 192


def test_where_the_page_before_a_window_is_gone_nothing_is_compared(
    sliding: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = run(sliding, tmp_path, 1.0)
    read = SsdTier.read
    monkeypatch.setattr(SsdTier, "read", lambda *given: read(*given) if len(given[1]) > 1 else 0)
    compared, next_logits = list[int](), Runner.next_logits

    def told(self: Runner, table: PageTable, tokens: Sequence[int]) -> mx.array:
        if list(tokens) != [0]:  # what is compiled at load
            compared.append(len(tokens))
        return next_logits(self, table, tokens)

    monkeypatch.setattr(Runner, "next_logits", told)
    again, report, stats = run(sliding, tmp_path, 1.0)
    assert (report.restored_tokens, compared) == (192, [])
    assert again.tokens == first.tokens
    assert stats.cache.quarantined_files == 0


def test_a_share_of_none_checks_nothing(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tiny, tmp_path, 0.0)
    monkeypatch.setattr("engine.cache.self_check.SelfCheck.agrees", lambda *_: False)
    _, report, stats = run(tiny, tmp_path, 0.0)
    assert report.restored_tokens == 192
    assert stats.cache.quarantined_files == 0


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of 32 elements: these can be stored in fewer bits."""
    return write_random_model(tmp_path_factory.mktemp("models") / "wide", hidden_size=128, head_dim=32)


def spoil(change: Callable[[dict[str, np.ndarray]], None], patch: pytest.MonkeyPatch) -> None:
    """All pages that come back are changed before they are used: by name, arrays of words of 32 bits."""
    read = Restoring.read

    def wrong(self: Restoring, run: StoredRun, memory: MemoryOf) -> int:
        pages = read(self, run, memory)
        given = memory(0, pages)
        arrays = {name: np.frombuffer(b"".join(parts), np.uint32).copy() for name, parts in given.items()}
        change(arrays)
        for name, parts in given.items():
            left = arrays[name].tobytes()
            for part in parts:
                part[:], left = left[: len(part)], left[len(part) :]
        return pages

    patch.setattr(Restoring, "read", wrong)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("part", "is_right"), [(0.0, True), (0.5, True), (3.0, False)])
def test_quantised_pages_may_differ_by_what_a_code_is_and_no_more(
    bits: int, part: float, is_right: bool, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are off by a `part` of what is granted, and by more."""
    run(wide, tmp_path, 1.0, bits)
    off = np.float32(1 + part * CODED_TOLERANCE[bits])

    def scaled(arrays: dict[str, np.ndarray]) -> None:
        for name in ("values_scales", "values_biases"):
            arrays[name].view(np.float32)[:] *= off

    spoil(scaled, monkeypatch)
    _, report, stats = run(wide, tmp_path, 1.0, bits)
    assert (report.restored_tokens == 192) == is_right
    assert stats.cache.quarantined_files == (0 if is_right else 1)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers that add little to what goes through them."""
    root = tmp_path_factory.mktemp("models")
    return checked_model(root, "llama", head_dim=32, max_position_embeddings=1024).folder


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_wild_numbers_are_found_though_what_follows_hangs_on_few_of_them(
    bits: int | None, narrow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys so large that a token attends to one of them alone, and not to the page that is computed anew."""
    first, _, _ = run(narrow, tmp_path, 1.0, bits, page_size=4)

    def wild(arrays: dict[str, np.ndarray]) -> None:
        rng = np.random.default_rng(1)
        for name, array in arrays.items():
            if bits is not None and name in ("keys", "values"):
                rng.shuffle(array)  # codes
            else:
                array.view(np.float32)[:] += 3 * rng.normal(size=array.size).astype(np.float32)

    with monkeypatch.context() as patch:
        spoil(wild, patch)
        again, report, stats = run(narrow, tmp_path, 1.0, bits, page_size=4)
    assert report.restored_tokens == 0
    assert stats.cache.quarantined_files > 0
    assert again.tokens == first.tokens
    _, report, stats = run(narrow, tmp_path, 1.0, bits, page_size=4)
    assert (report.restored_tokens, stats.cache.quarantined_files) == (196, 0)
