"""`mlxr top` shows what the running app's engine said, on screens of any width, and as JSON."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from rich.console import Console

from app.cli import top_figures as figures
from app.cli.top_screen import TopScreen
from app.instance.feed import LiveFeed
from app.instance.listener import Listener
from app.paths import default_paths
from engine import (
    CacheCounts,
    MemoryUse,
    ModelReady,
    ModelUnloaded,
    RequestStats,
    Stats,
    TokenGaps,
)
from tests.app.cli.conftest import Run, StartTerminal
from tests.app.instance.conftest import PATIENCE, connected, nothing
from tests.fakes.scripted_engine import model_info

MODEL = "/models/tiny-chat"
BUSY = Stats(
    active_id="r",
    queued=3,
    context_tokens=1234,
    decode_tps=61.54,
    prefill_tps=2345.6,
    pages_used=128,
    total_pages=512,
    memory_bytes=1,
    peak_memory_bytes=2,
    running=2,
    cached_pages=64,
    cache=CacheCounts(
        computed_tokens=250,
        cached_tokens=700,
        restored_tokens=50,
        drafted_tokens=80,
        accepted_tokens=60,
        spilled_bytes_today=1_500_000,
        ssd_bytes=2_500_000,
        ssd_cap_bytes=17_200_000_000,
    ),
    model=MODEL,
    requests=(
        RequestStats("r", "c", 100, 100, 9, 251.0, 900.0, 61.0),
        RequestStats("s", "d", 500, 100, 0, 0.0, 900.0, 0.0),
    ),
    gaps=TokenGaps(100, 3.21, 4.56, 7.89),
    memory=MemoryUse(33_000_000, process_bytes=180_000_000, is_short=True, draft_bytes=9_900_000),
)
SHOWN = {
    "decode": "61.5 tok/s",
    "prefill": "2,346 tok/s",
    "KV pages": "128 in use, 64 cached, 320 free",
    "requests": "2 running, 3 waiting",
    "first token": "after 0.25 s; 1 reading the prompt",
    "each token": "3.2 ms (median), 95% within 4.6 ms, 99% within 7.9 ms",
    "context": "1,234 tokens in 2 answers",
    "reused": "75% of 1,000 prompt tokens",
    "guesses": "75% of 80 right",
    "memory": "weights 6.4 MB, pages 33.0 MB, draft model 9.9 MB, process 180 MB, "
    "the machine is short of memory",
    "disk cache": "2.5 MB of 17.2 GB, 1.5 MB written today",
}


@pytest.fixture
def feed() -> Iterator[LiveFeed]:
    """What the running app's engine says."""
    feed = LiveFeed()
    listener = Listener(default_paths().home, feed, nothing)
    listener.start()
    yield feed
    assert listener.close(PATIENCE)


def line(stats: Stats | None = BUSY) -> dict[str, Any]:
    """A line of the app, as JSON brings it."""
    told = {"model": asdict(model_info(MODEL)), "stats": asdict(stats) if stats else None}
    return json.loads(json.dumps(told))


def drawn(screen: TopScreen, width: int) -> list[str]:
    """The screen's lines."""
    console = Console(width=width, height=40, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(screen.drawn(width, is_live=True))
    return captured.get().splitlines()


def test_one_request_may_have_several_answers() -> None:
    shown = dict(figures.rows(line(replace(BUSY, running=3, requests=BUSY.requests[:1]))))
    assert shown["requests"] == "1 running, 3 waiting"
    assert shown["context"] == "1,234 tokens in 3 answers"


@pytest.mark.parametrize("running", [0, 1])
def test_the_tokens_of_one_answer_are_told_of_those_that_it_may_have(running: int) -> None:
    alone = replace(BUSY, running=running, requests=BUSY.requests[:running])
    assert dict(figures.rows(line(alone)))["context"] == "1,234 of 2,048 tokens"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_figure_is_what_the_engine_said(width: int) -> None:
    screen = TopScreen({"mlxr": "1.2", "pid": 77})
    screen.take(line())
    shown = drawn(screen, width)
    assert max(map(len, shown)) <= width
    assert shown[0].startswith("MLXR 1.2 · process 77")
    assert shown[2] == "tiny-chat"
    assert shown[3].strip() == "reference on CPU · float32 · 3.2M weights · 6.4 MB · context 2k"
    for label, words in SHOWN.items():
        (row,) = (row for row in shown if row.strip().startswith(label))
        wanted = words if width > 100 else words[:50]
        assert wanted in row


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_screen_is_cut_and_not_wrapped(width: int) -> None:
    screen = TopScreen({"mlxr": "1.2", "pid": 77})
    screen.take(line())
    shown = drawn(screen, width)
    assert len(shown) == 4 + len(SHOWN)
    assert max(map(len, shown)) <= width
    for label, words in SHOWN.items():  # a number that is cut would be another one
        (row,) = (row.rstrip() for row in shown if row.strip().startswith(label))
        assert words in row or row.endswith("…")


def test_a_model_that_was_asked_nothing_has_no_figures() -> None:
    screen = TopScreen({"mlxr": "1.2", "pid": 77})
    screen.take(line(None))
    assert figures.NOTHING_ASKED in drawn(screen, 80)[-1]


def test_a_model_that_goes_is_gone_and_it_is_said_why() -> None:
    screen = TopScreen({"mlxr": "1.2", "pid": 77})
    screen.take(line())
    screen.take({"model": MODEL, "unloaded": "idle"})
    shown = drawn(screen, 80)
    assert shown[2] == "No model is in memory."
    assert shown[-1] == "tiny-chat rests: nobody has used it for a while"
    screen.take(line())
    assert "rests" not in "".join(drawn(screen, 80))


def test_zeros_are_no_nonsense() -> None:
    empty = Stats("", 0, 0, 0.0, 0.0, 0, 0, 0, 0, model=MODEL)
    words = dict(figures.rows(line(empty)))
    assert {words[name] for name in ("first token", "each token", "reused", "guesses")} == {"–"}
    assert words["disk cache"] == "off"
    assert figures.pages(asdict(empty)).bar(10) == "░" * 10


@pytest.mark.parametrize(
    ("used", "cached", "total", "bar"),
    [
        (0, 0, 8, "░░░░░░░░"),
        (4, 2, 8, "████▒▒░░"),
        (8, 0, 8, "████████"),
        (1, 0, 1000, "█░░░░░░░"),
        (9, 9, 8, "████████"),
    ],
)
def test_the_bar_is_full_when_the_pages_are(used: int, cached: int, total: int, bar: str) -> None:
    assert figures.Pages(used, cached, total).bar(8) == bar


def test_the_trend_is_as_high_as_its_highest() -> None:
    assert figures.trend([0.0, 1.0, 35.0, 70.0]) == " ▂▅█"
    assert figures.trend([0.0, 0.0]) == ""
    assert len(figures.trend([1.0] * 500)) == figures.TREND


def test_names_cannot_drive_the_terminal() -> None:
    info = asdict(model_info("/models/a\x1b[2Jb"))
    screen = TopScreen({"mlxr": "1.2", "pid": 77})
    screen.take({"model": info, "stats": None})
    assert "\x1b" not in "".join(drawn(screen, 80))


def test_without_an_app_it_says_what_to_do(mlxr_here: Run) -> None:
    done = mlxr_here("top")
    assert done.returncode == 1
    home = default_paths().home
    assert done.stderr == (
        f"error: no MLXR is running with the data in {home}; start it with `mlxr`, then try again\n"
    )


def test_once_prints_what_there_is(mlxr_here: Run, feed: LiveFeed) -> None:
    connected(default_paths().home).__exit__(None, None, None)
    assert "No model is in memory." in mlxr_here("top", "--once").stdout
    feed.take(ModelReady("load", model_info(MODEL)))
    feed.take(BUSY)
    shown = mlxr_here("top").stdout  # not a terminal: as with --once
    assert SHOWN["KV pages"] in shown
    assert "Ctrl-C" not in shown
    told = json.loads(mlxr_here("top", "--once", "--json").stdout)
    assert told["stats"] == json.loads(json.dumps(asdict(BUSY)))


def test_a_terminal_follows_the_app_until_ctrl_c(terminal: StartTerminal, feed: LiveFeed) -> None:
    connected(default_paths().home).__exit__(None, None, None)
    feed.take(ModelReady("load", model_info(MODEL)))
    top = terminal("top")
    top.wait_for(figures.NOTHING_ASKED)
    feed.take(BUSY)
    top.wait_for(SHOWN["requests"])
    feed.take(ModelUnloaded(MODEL, "room"))
    top.wait_for("made room for another model")
    top.process.send_signal(signal.SIGINT)
    assert top.end() == 0
    assert top.screen.endswith("\x1b[?1049l"), "the screen of before is back"


def test_it_ends_with_the_app(terminal: StartTerminal) -> None:
    home = default_paths().home
    listener = Listener(home, LiveFeed(), nothing)
    listener.start()
    connected(home).__exit__(None, None, None)
    top = terminal("top")
    top.wait_for("No model is in memory.")
    assert listener.close(PATIENCE)
    top.wait_for("MLXR has ended.")
    assert top.end() == 0
