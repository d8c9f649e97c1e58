"""A replay's results and totals, as JSON and for people, from figures that are known."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.cli.replay_file import Ask, Step
from app.cli.replay_result import Course, Result
from app.cli.replay_table import Table
from app.cli.replay_totals import Tally, Totals
from engine import (
    CacheCounts,
    CacheReport,
    ChatMemory,
    ChatsCached,
    Failed,
    Finished,
    Generate,
    Refusal,
    Stats,
    TextChunk,
    Timing,
    WayOut,
)
from tests.fakes.scripted_engine import model_info

MODEL = model_info("/models/m")
COUNTS = CacheCounts(
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, quarantined_files=11, drafted_tokens=12, accepted_tokens=13
)
END = Stats("", 0, 0, 0, 0, 2, 64, 0, 5 << 20, cached_pages=30, cache=COUNTS)
TIMING = Timing(ttft_ms=12.34, prefill_tokens=1000, cached_tokens=234, prefill_tps=9.0, decode_tps=56.78)


def finished(name: str, *arrivals: float) -> Result:
    course = Course(Ask(Generate(name)), Generate(name), sent=0.5)
    for number, when in enumerate(arrivals, 1):
        course.arrived(TextChunk(name, "x", number), when)
    course.report = CacheReport(name, 1234, 200, 34)
    tokens = tuple(range(len(arrivals)))
    end = Finished(name, "length", "x" * len(tokens), tokens, (1,) * 1234, None, TIMING)
    return course.ended(end, 2.25, MODEL)


def failed(name: str, refusal: Refusal | None = None) -> Result:
    course = Course(Ask(Generate(name)), Generate(name), sent=0.5)
    return course.ended(Failed(name, "no\nroom", "PromptTooLong", refusal=refusal), 1.0, MODEL)


def totals(*results: Result, stats: Stats | None = END) -> Totals:
    tally = Tally()
    if stats is not None:
        tally.take(replace(stats, pages_used=9, shared_pages=4, active_id="x", running=3, queued=2))
        tally.take(stats)
        tally.take(ChatsCached({"c": ChatMemory(10, 20, 5)}))
    return Totals.of(results, tally, MODEL, left_out=4)


@given(st.lists(st.floats(0, 1e3), min_size=1), st.integers(1, 100))
def test_a_gap_has_its_share_of_all_gaps_at_or_below_it(gaps: list[float], percent: int) -> None:
    ordered = tuple(sorted(gaps))
    milliseconds = replace(finished("a"), gaps=ordered).gap(percent / 100)
    assert milliseconds is not None
    below = [gap for gap in ordered if 1000 * gap <= milliseconds]
    smaller = [gap for gap in ordered if 1000 * gap < milliseconds]
    assert len(below) >= percent * len(ordered) / 100 > len(smaller) - 1e-9


def test_gaps_are_between_pieces_of_text() -> None:
    result = finished("a", 10.0, 10.5, 10.75)
    assert result.as_json()["gaps_ms"] == {"p50": 250.0, "p95": 500.0, "p99": 500.0, "max": 500.0}
    nothing = dict.fromkeys(("p50", "p95", "p99", "max"))
    assert finished("a", 10.0).as_json()["gaps_ms"] == nothing


def test_a_failure_tells_why_and_what_would_help() -> None:
    refusal = Refusal(9, 8, (WayOut("shorten", 16), WayOut("evict", 3, "c")))
    ways = tuple(
        {"kind": kind, "amount": amount, "chat": chat, "needs_next": False}
        for kind, amount, chat in (("shorten", 16, ""), ("evict", 3, "c"))
    )
    assert failed("a", refusal).as_json() == {
        "id": "a",
        "error": "no\nroom",
        "kind": "PromptTooLong",
        "refusal": {
            "needed_pages": 9,
            "available_pages": 8,
            "ways_out": ways,
            "pinned_pages": 0,
            "prompt_tokens": 0,
        },
        "sent_s": 0.5,
        "ended_s": 1.0,
    }
    assert failed("a").as_json()["refusal"] is None


def test_the_last_object_has_every_figure() -> None:
    found = totals(finished("a", 1.0), failed("b"), failed("c")).as_json()
    assert list(found) == ["totals"]
    figures = found["totals"]
    names = ("computed_tokens", "cached_tokens", "restored_tokens", "evicted_pages", "spilled_pages")
    assert [figures["cache"][name] for name in names] == [1, 2, 3, 4, 5]
    assert {name: value for name, value in figures.items() if name != "cache"} == {
        "requests": 3,
        "stop": 0,
        "length": 1,
        "cancelled": 0,
        "failed": 2,
        "unexpected": ["b", "c"],
        "left_out": 4,
        "seconds": 2.25,
        "page_size": 16,
        "page_bytes": 65536,
        "pages_total": 64,
        "pages_in_use": 32,
        "pages_cached": 30,
        "pages_leaked": 2,
        "most_pages_held": 9,
        "most_pages_shared": 4,
        "most_running": 3,
        "most_queued": 2,
        "chats": {"c": {"memory_bytes": 10, "ssd_bytes": 20, "shared_bytes": 5}},
        "peak_memory_bytes": 5 << 20,
    }


def test_the_totals_in_words() -> None:
    assert list(totals(finished("a", 1.0), failed("b")).lines()) == [
        "2 requests in 2.25 s: 1 at its length, 1 failed; 4 never began",
        "pages at the end: 30 cached, 2 leaked, of 64 (16 tokens and 65.5 kB each); "
        "requests were seen to hold 9 at most, to share 4, 3 running at once",
        "prompt tokens: 1 computed, 2 cached, 3 restored from SSD",
        "pages: 4 evicted, 5 spilled to SSD, 6 restored, 7 copied on write; 8 preemptions",
        "drafted tokens: 13 of 12 accepted",
        "SSD: 10 bytes kept, 9 bytes written today, 11 files refused",
        "peak memory: 5.2 MB",
    ]


def test_several_at_their_length_are_told_in_the_plural() -> None:
    line = next(iter(totals(finished("a", 1.0), finished("b", 1.0)).lines()))
    assert line == "2 requests in 2.25 s: 2 at their length; 4 never began"


def test_where_the_engine_told_no_figures_there_are_none() -> None:
    nothing = totals(failed("b"), stats=None)
    assert nothing.leaked_pages == 0
    assert (nothing.as_json()["totals"]["cache"], nothing.as_json()["totals"]["pages_total"]) == (None, 512)
    assert list(nothing.lines())[1] == "the engine ended before it said anything of its pages"


def test_columns_line_up_under_their_names() -> None:
    long = "a request with quite a long name, which is cut"
    table = Table([Step(name, 1, Ask(Generate(name))) for name in ("a", long)])
    heading, short = table.heading(), table.row(finished("a", 1.0, 1.1))
    cut, single, bad = table.row(finished(long, 1.0, 1.1)), table.row(finished("a")), table.row(failed("a"))
    assert len(heading) == len(short) == len(cut) == len(single) == len(heading.rstrip())
    assert heading.split()[:6] == ["id", "state", "prompt", "cached", "restored", "written"]
    assert short.split() == ["a", "length", "1,234", "200", "34", "2", "12.3", "56.8", "100.0", "100.0"]
    assert cut.startswith("a request with quite a long nam… ")
    assert single.split()[4:] == ["34", "0", "–", "56.8", "–", "–"]
    assert bad.index("failed") == heading.index("state")
    assert bad.endswith("no room")


def test_ids_in_wide_characters_leave_the_columns_in_their_places() -> None:
    table = Table([Step(name, 1, Ask(Generate(name))) for name in ("漢字の質問", "b")])
    wide, narrow = table.row(finished("漢字の質問", 1.0, 1.1)), table.row(finished("b", 1.0, 1.1))
    assert wide == "漢字の質問" + narrow[10:], "five characters take ten places"
    long = "長い名前" * 10
    table = Table([Step(long, 1, Ask(Generate(long)))])
    assert table.row(finished(long)).startswith("長い名前" * 3 + "長い名…   length"), "31 places of 32"
