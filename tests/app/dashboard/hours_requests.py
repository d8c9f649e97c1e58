"""What the history should show, from the requests as events told of them, apart from the product."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.appearance import Appearance
from app.dashboard.history_figures import Plot
from app.dashboard.history_pane import HistoryPane
from app.dashboard.history_times import SPAN_NAMES, SpanName
from app.dashboard.palette import colour_of
from tests.app.dashboard.hours import Clocks, Told
from tests.app.dashboard.painted import Painted

BUCKETS: dict[SpanName, int] = {"session": 60, "day": 24, "week": 7}
DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()

Value = float | None


@dataclass(frozen=True, slots=True)
class Session:
    """Requests that have ended, of this session and of those before, and how long this one has gone on."""

    told: Sequence[Told]
    before: Sequence[Told]
    seconds: float


def values_of(key: str, requests: Sequence[Told]) -> Value:
    """What some requests come to on a card's chart."""
    match key:
        case "requests":
            return len(requests)
        case "tokens":
            return sum(request.written for request in requests)
        case "ttft":
            return _middle([request.ttft for request in requests])
        case "decode":
            return _middle([request.decode for request in requests])
        case "failed":
            return sum(request.outcome == "failed" for request in requests)
        case _:
            prompt = sum(request.prompt for request in requests)
            return 100 * sum(request.reused for request in requests) / prompt if prompt else None


def check_history(
    pane: HistoryPane, ask: Callable[[], None], session: Session, clocks: Clocks, appearance: Appearance
) -> None:
    """Every card's chart in every span, its table and its picture are what the events said."""
    for name in SPAN_NAMES:
        pane.spans[name].click()
        ask()
        buckets = _buckets(name, session, clocks.wall)
        everything = [request for bucket in buckets for request in bucket]
        assert pane.history.look
        assert pane.history.look.total.requests == len(everything)
        for key, card in pane.cards.items():
            card.click()
            plot = pane.panel.chart.plot
            assert plot
            wanted = [values_of(key, bucket) for bucket in buckets]
            assert len(plot.values) == 1
            assert all(map(_same, plot.values[0], wanted)), (name, key, plot.values[0], wanted)
            assert len(plot.buckets) == len(wanted) == BUCKETS[name]
            _check_labels(name, plot, clocks.wall)
            for bad in ("nan", "inf", "-"):
                assert bad not in card.words
            if any(wanted):
                _check_picture(pane, wanted, appearance)


def check_models(pane: HistoryPane, ask: Callable[[], None], session: Session) -> None:
    """Two models beside each other are two lines, each of its own requests."""
    pane.spans["session"].click()
    pane.history.compare("model")
    ask()
    look = pane.history.look
    assert look
    pane.cards["decode"].click()
    plot = pane.panel.chart.plot
    assert plot
    models = [line.value for line in look.lines]
    assert len(models) == len({request.model for request in session.told}) == 2
    for values, model in zip(plot.values, models, strict=True):
        mine = Session([r for r in session.told if r.model == model], (), session.seconds)
        wanted = [values_of("decode", bucket) for bucket in _buckets("session", mine, 0.0)]
        assert all(map(_same, values, wanted))
    pane.history.compare(None)
    ask()


def _buckets(name: SpanName, session: Session, now: float) -> list[list[Told]]:
    """The requests of each bucket of a span."""
    found: list[list[Told]] = [[] for _ in range(BUCKETS[name])]
    last = len(found) - 1
    if name == "session":
        for request in session.told:
            place = sum(session.seconds / len(found) * edge <= request.since for edge in range(1, last + 1))
            found[place].append(request)
        return found
    today = datetime.fromtimestamp(now)
    for request in (*session.before, *session.told):
        at = datetime.fromtimestamp(request.at)
        if name == "day":
            hours = (_whole_hour(today) - _whole_hour(at)) / timedelta(hours=1)
            place = last - round(hours)
        else:
            place = last - (today.date() - at.date()).days
        if 0 <= place <= last:
            found[place].append(request)
    return found


def _check_labels(name: SpanName, plot: Plot, now: float) -> None:
    """The words of the last bucket say the hour or the day that it is."""
    moment = datetime.fromtimestamp(now)
    if name == "day":
        assert plot.buckets[-1].startswith(f"{DAYS[moment.weekday()]} {moment:%H}:00 to ")
    elif name == "week":
        assert plot.buckets[-1] == f"{DAYS[moment.weekday()]} {moment.day}"


def _check_picture(pane: HistoryPane, wanted: Sequence[Value], appearance: Appearance) -> None:
    theme = appearance.theme
    highest = max(value for value in wanted if value is not None)
    picture = Painted(pane.panel.chart, theme, colour_of(0, theme), highest)
    count = len(wanted)
    for place, value in enumerate(wanted):
        if value:
            assert picture.has_ink((place + 0.5) / count, value), (place, value)
        elif value is None:
            assert picture.is_blank((place + 0.1) / count, (place + 0.9) / count), place


def _whole_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _middle(values: Sequence[Value]) -> Value:
    """The median by nearest rank."""
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(len(known) / 2) - 1] if known else None


def _same(shown: Value, wanted: Value) -> bool:
    if shown is None or wanted is None:
        return shown is wanted
    return math.isclose(shown, wanted, rel_tol=1e-9)
