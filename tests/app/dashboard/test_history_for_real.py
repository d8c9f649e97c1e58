"""The history's tab with the real engine and the guide: what is shown is what the engine's events said."""

from __future__ import annotations

from pathlib import Path
from statistics import median_low

from pytestqt.qtbot import QtBot

from app.dashboard.axis import number_words
from app.dashboard.history_pane import HistoryPane
from app.dashboard.live_cards import time_words
from engine import CacheReport, Finished
from tests.app.conftest import OpenDesktop
from tests.app.dashboard.watched import Watched


def test_a_sessions_cards_are_the_engines_events(
    open_desktop: OpenDesktop, qtbot: QtBot, tmp_path: Path
) -> None:
    watched = Watched(open_desktop, qtbot, tmp_path)
    watched.look("History")
    (pane,) = watched.page.findChildren(HistoryPane)
    for question in ("What is a page?", "And what is a chat?", "Where are my chats saved?"):
        watched.say(question)
    watched.wait(lambda: pane.cards["requests"].words == "3")
    ends = [event for event in watched.events if isinstance(event, Finished)]
    reports = {event.id: event for event in watched.events if isinstance(event, CacheReport)}
    asked = [reports[end.id] for end in ends]
    prompt = sum(report.prompt_tokens for report in asked)
    reused = sum(report.cached_tokens + report.restored_tokens for report in asked)
    written = sum(len(end.tokens) for end in ends)
    assert reused > 0
    said = {key: card.words for key, card in pane.cards.items()}
    assert said["tokens"] == f"{written:,}, {prompt:,} in prompts"
    assert said["cached"] == f"{number_words(100 * reused / prompt)} %, {reused:,} of {prompt:,} tokens"
    first = median_low([end.timing.ttft_ms for end in ends])
    assert said["ttft"].startswith(f"{' '.join(time_words(first))}, median")
    decode = median_low([end.timing.decode_tps for end in ends])
    assert said["decode"].startswith(f"{number_words(decode)} tok/s, median")
    assert said["failed"] == "0"
    table = pane.tables.latest
    shown = [item.text() for row in range(3) if (item := table.item(row, 5))]
    assert shown == [f"{len(end.tokens):,}" for end in reversed(ends)]
    pane.cards["tokens"].click()
    plot = pane.panel.chart.plot
    assert plot
    assert sum(value or 0 for value in plot.values[0]) == written
