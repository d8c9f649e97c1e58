"""Whether a model fits: by hand for round numbers, and as loading then decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import EngineSettings, ModelError, inspect_model, model_fit
from engine.fitting.fit import Tenant, page_shares, pages_alone
from engine.loading import model as loading
from engine.loading.model import load_model
from engine.machine import machine
from tests.fakes.random_model import write_random_model


@dataclass(frozen=True)
class Sizes:
    """A model of round numbers: 16 kB a page."""

    weight_bytes: int = 1_000_000
    kv_bytes_per_token: int = 1_000
    context_length: int = 100
    largest_window: int | None = None


@pytest.mark.parametrize(
    ("memory", "verdict", "most"),
    [
        (1_111_110, "does not fit", 48),  # a tenth must stay free
        (1_111_112, "tight", 48),  # half of 111,112 bytes are three pages
        (1_223_999, "tight", 96),
        (1_224_000, "fits", 100),  # seven pages hold 100 tokens
    ],
)
def test_the_verdict_turns_where_the_numbers_do(memory: int, verdict: str, most: int) -> None:
    fit = model_fit(Sizes(), memory)
    assert (fit.verdict, fit.most_context) == (verdict, most)
    assert (fit.weight_bytes, fit.memory_bytes, fit.context) == (1_000_000, memory, 100)
    assert fit.kv_bytes == 7 * 16_000
    assert fit.kv_budget == (memory - 1_000_000) // 2


def test_a_shorter_context_may_fit_where_the_whole_does_not() -> None:
    assert model_fit(Sizes(), 1_200_000).verdict == "tight"
    short = model_fit(Sizes(), 1_200_000, context=90)
    assert (short.verdict, short.kv_bytes) == ("fits", 6 * 16_000)


def test_a_window_bounds_the_pages() -> None:
    windowed = replace(Sizes(context_length=100_000), largest_window=20)
    fit = model_fit(windowed, 10**9, settings=EngineSettings(prefill_chunk=44))
    assert fit.kv_bytes == 5 * 16_000  # 20 + 44 + 16 tokens
    assert fit.most_context == 100_000


def test_a_budget_that_was_set_counts() -> None:
    assert model_fit(Sizes(), 10**9, settings=EngineSettings(kv_bytes=48_000)).most_context == 48
    assert model_fit(Sizes(), 10**9, settings=EngineSettings(kv_pages=2)).most_context == 32
    assert model_fit(Sizes(), 10**9, settings=EngineSettings(kv_bytes=15_999)).verdict == "does not fit"


def test_a_budget_is_never_more_than_the_weights_leave() -> None:
    assert model_fit(Sizes(), 1_224_000, settings=EngineSettings(kv_bytes=10**9)).kv_budget == 224_000


@pytest.mark.parametrize("bits", [None, 8])
def test_loading_finds_what_was_foretold(
    bits: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_random_model(tmp_path / "m", "mistral", head_dim=32, sliding_window=64)
    summary = inspect_model(folder, bits)
    monkeypatch.setattr(loading, "memory_bytes", lambda: memory)
    settings = EngineSettings(kv_bits=bits, prefill_chunk=64)
    for room in (0, 16, 300, 1024):
        page = summary.kv_bytes_per_token * 16
        memory = summary.weight_bytes * 10 // 9 + 2 * page * (room // 16)
        settings = replace(settings, kv_bytes=max(1, page * room // 16))
        fit = model_fit(summary, memory, settings=settings)
        if fit.verdict == "does not fit":
            with pytest.raises(ModelError):
                load_model(folder, settings, lambda done, total: None)
            continue
        info = load_model(folder, settings, lambda done, total: None).info
        assert info.context_length == fit.most_context
        assert info.weight_bytes == fit.weight_bytes


def test_what_cannot_fit_is_refused_before_a_weight_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_random_model(tmp_path / "small")
    weights = inspect_model(folder).weight_bytes
    monkeypatch.setattr(loading, "memory_bytes", lambda: weights)
    told: list[int] = []
    with pytest.raises(ModelError) as raised:
        load_model(folder, EngineSettings(), lambda done, total: told.append(done))
    assert told == []
    assert f"small does not fit: its weights take {weights:,} bytes" in str(raised.value)
    assert f"{weights:,} at most {int(0.9 * weights):,}" in str(raised.value)


def test_a_gpu_is_asked_how_much_it_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "device_kind", lambda: "Metal")
    known = {"memory_size": 16 << 30, "max_recommended_working_set_size": 12 << 30}
    monkeypatch.setattr(mx, "device_info", lambda: known)
    assert machine.memory_bytes() == 12 << 30
    del known["max_recommended_working_set_size"]
    assert machine.memory_bytes() == 16 << 30


SMALL = Tenant(weight_bytes=1_000, page_bytes=10, needed_pages=20)
LARGE = Tenant(weight_bytes=5_000, page_bytes=50, needed_pages=30)


def test_one_alone_has_the_whole_budget_even_if_it_is_tight() -> None:
    assert page_shares([SMALL], 3_000, EngineSettings()) == [100]
    assert page_shares([SMALL], 1_120, EngineSettings()) == [6]
    assert page_shares([SMALL], 3_000, EngineSettings(kv_pages=7)) == [7]


def test_two_share_as_their_chats_are_long() -> None:
    # Chats of 200 and 1,500 bytes: of 3,400 bytes they get 400 and 3,000.
    assert page_shares([SMALL, LARGE], 6_000 + 2 * 3_400, EngineSettings()) == [40, 60]
    assert page_shares([LARGE, SMALL], 6_000 + 2 * 3_400, EngineSettings()) == [60, 40]


@pytest.mark.parametrize(("memory", "fits"), [(6_000 + 2 * 1_700, True), (6_000 + 2 * 1_700 - 2, False)])
def test_two_fit_where_each_has_room_for_its_whole_context(memory: int, fits: bool) -> None:
    assert page_shares([SMALL, LARGE], memory, EngineSettings()) == ([20, 30] if fits else None)


def test_two_do_not_fit_where_their_weights_do_not() -> None:
    settings = EngineSettings(kv_bytes=10_000)
    both = [replace(tenant, needed_pages=1) for tenant in (SMALL, LARGE)]
    assert page_shares(both, 6_667, settings)
    assert page_shares(both, 6_666, settings) is None  # a tenth must stay free


def test_what_is_held_is_not_given_away() -> None:
    settings = EngineSettings(kv_bytes=3_400)
    # The small one holds 1,000 bytes; of the 900 that nobody needs it gets its part of the chats' lengths.
    assert page_shares([replace(SMALL, held_pages=100), LARGE], 10**6, settings) == [110, 45]
    assert page_shares([replace(SMALL, held_pages=191), LARGE], 10**6, settings) is None


def test_a_budget_in_pages_is_shared_too() -> None:
    shares = page_shares([SMALL, replace(SMALL, needed_pages=40)], 10**6, EngineSettings(kv_pages=90))
    assert shares == [30, 60]


@given(
    tenants=st.lists(
        st.builds(
            Tenant,
            weight_bytes=st.integers(1, 10**10),
            page_bytes=st.integers(1, 10**7),
            needed_pages=st.integers(1, 10**5),
            held_pages=st.integers(0, 10**5),
        ),
        min_size=2,
        max_size=4,
    ),
    memory=st.integers(10**6, 10**12),
    kv_pages=st.none() | st.integers(1, 10**6),
)
def test_shares_never_exceed_the_budget_and_cover_what_is_needed_and_held(
    tenants: list[Tenant], memory: int, kv_pages: int | None
) -> None:
    shares = page_shares(tenants, memory, EngineSettings(kv_pages=kv_pages))
    if shares is None:
        return
    weights = sum(tenant.weight_bytes for tenant in tenants)
    taken = sum(pages * tenant.page_bytes for pages, tenant in zip(shares, tenants, strict=True))
    assert taken <= (memory - weights) // 2
    assert kv_pages is None or sum(shares) <= kv_pages
    for pages, tenant in zip(shares, tenants, strict=True):
        assert pages >= max(tenant.needed_pages, tenant.held_pages)


@pytest.mark.parametrize(
    ("memory", "settings", "shares"),
    [
        (6_000 + 2 * 10**6, EngineSettings(), (33_333 + 33_313 * 10 // 20, 20)),
        (6_000 + 2 * 900, EngineSettings(), (30, 30)),  # not a whole context: both reach as far
        (10**5, EngineSettings(kv_bytes=900), (30, 30)),
        (10**5, EngineSettings(kv_bytes=10_000, kv_pages=7), (7, 7)),
        (10**5, EngineSettings(kv_bytes=30), (1, 1)),
        (10**5, EngineSettings(kv_bytes=29), (0, 0)),
    ],
)
def test_a_draft_model_has_pages_for_one_answer_out_of_the_same_budget(
    memory: int, settings: EngineSettings, shares: tuple[int, int]
) -> None:
    target, draft = Tenant(5_000, 20, 500), Tenant(1_000, 10, 20 if memory > 10**6 else 500)
    both = target.with_draft(draft)
    assert (both.weight_bytes, both.needed_pages, both.held_pages) == (6_000, 500, 0)
    assert target.beside_draft(draft, pages_alone(both, memory, settings)) == shares
    if settings.kv_bytes:
        assert shares[0] * 20 + shares[1] * 10 <= settings.kv_bytes


_SIZES = st.integers(1, 50)


@given(_SIZES, _SIZES, st.integers(0, 300), st.integers(1, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_model_and_its_draft_are_left_what_they_hold(
    page: int, draft_page: int, holds: int, draft_needs: int, draft_holds: int, more: int
) -> None:
    """Found by trying each number of pages, as many as both hold and one less."""
    target = Tenant(0, page, 1, holds)
    draft = Tenant(0, draft_page, draft_needs, min(draft_holds, draft_needs))
    held = target.with_draft(draft).held_pages

    def leaves(pages: int) -> bool:
        own, drafts = target.beside_draft(draft, pages)
        assert own * page + drafts * draft_page <= pages * (page + draft_page)
        return own >= holds and drafts >= draft.held_pages

    assert leaves(held)
    assert leaves(held + more)
    assert not held or not leaves(held - 1)
