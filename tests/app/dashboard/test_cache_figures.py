"""What is said of the cache, after scripted counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.dashboard.cache_figures import Occupancy, facts, occupancy, occupancy_words
from engine import CacheCounts, Stats
from tests.fakes.scripted_engine import model_info

QUIET = Stats("", 0, 0, 0.0, 0.0, 0, 512, 0, 0, model="/m")
COUNTS = CacheCounts(
    computed_tokens=300,
    cached_tokens=600,
    restored_tokens=100,
    evicted_pages=7,
    spilled_pages=1_200,
    restored_pages=6,
    spilled_bytes_today=2_500_000,
    ssd_bytes=1_500_000,
    ssd_cap_bytes=16_000_000_000,
)


def said(stats: Stats | None) -> dict[str, str]:
    return {fact.name: fact.value for fact in facts(stats)}


def test_counts_in_words() -> None:
    assert said(replace(QUIET, cache=replace(COUNTS, saved_seconds=3.5), prefill_tps=200.0)) == {
        "Hit rate": "70 %",
        "Tokens saved": "700",
        "Time saved": "about 3.5 s",
        "Evicted": "7 pages",
        "Written to SSD": "1,200 pages",
        "Read from SSD": "6 pages",
        "SSD cache": "1.5 MB of 16.0 GB",
        "Written today": "2.5 MB",
    }


def test_zero_tokens_make_no_number() -> None:
    assert [said(QUIET)[name] for name in ("Hit rate", "Tokens saved", "Time saved")] == ["–", "0", "–"]
    unmeasured = replace(QUIET, cache=COUNTS, prefill_tps=200.0)
    assert said(unmeasured)["Time saved"] == "–"
    assert set(said(None).values()) == {"–"}


def test_the_speed_of_the_last_prompt_does_not_change_what_was_saved_before() -> None:
    counts = replace(COUNTS, saved_seconds=318.0)
    told = {said(replace(QUIET, cache=counts, prefill_tps=tps))["Time saved"] for tps in (0.0, 80.0, 1100.0)}
    assert told == {"about 5 min 18 s"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "–"),
        (9.6e-05, "less than 0.1 s"),
        (0.0999, "less than 0.1 s"),
        (0.1, "about 0.1 s"),
        (59.6, "about 60 s"),
        (60.0, "about 1 min 0 s"),
    ],
)
def test_a_moment_saved_is_no_power_of_ten(seconds: float, words: str) -> None:
    assert said(replace(QUIET, cache=replace(COUNTS, saved_seconds=seconds)))["Time saved"] == words


def test_all_is_not_said_of_less() -> None:
    nearly = CacheCounts(cached_tokens=26_304, computed_tokens=49)
    assert said(replace(QUIET, cache=nearly))["Hit rate"] == "99 %"
    assert said(replace(QUIET, cache=replace(nearly, computed_tokens=0)))["Hit rate"] == "100 %"


def test_without_an_ssd_cache_it_is_off() -> None:
    assert (said(QUIET)["SSD cache"], said(QUIET)["Written today"]) == ("off", "off")


def test_pages_add_up() -> None:
    info = replace(model_info("/m"), page_bytes=1_000_000)
    assert occupancy(None, None).total == 0
    assert occupancy_words(occupancy(None, None), 0) == "No model is in memory"
    assert occupancy(None, info) == Occupancy(0, 0, 512)
    busy = replace(QUIET, pages_used=12, cached_pages=40)
    assert occupancy(busy, info) == Occupancy(12, 40, 460)
    assert occupancy_words(occupancy(busy, info), info.page_bytes) == (
        "12 of 512 pages in use, 40 kept for later, 460 free (460 MB)"
    )
