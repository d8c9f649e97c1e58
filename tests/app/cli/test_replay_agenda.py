"""When steps are due, against a plain model: a list that is searched anew each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.cli.replay_agenda import Agenda
from app.cli.replay_file import Step
from engine import Forget


def step(name: str, at: float = 0.0, after: str | None = None) -> Step:
    return Step(name, 1, Forget(name), at, after)


@st.composite
def files(draw: st.DrawFn) -> list[Step]:
    """Steps that wait for the clock or for one another, in any order, without circles."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 12))):
        after = draw(st.sampled_from([None, *(one.id for one in steps)]))
        at = 0.0 if after else draw(st.integers(0, 5)) / 2
        steps.append(step(str(number), at, after))
    return draw(st.permutations(steps))


@given(files(), st.data())
def test_steps_begin_once_when_their_time_has_come(steps: list[Step], data: st.DataObject) -> None:
    agenda, now = Agenda(steps), 0.0
    begun: list[Step] = []
    ended: set[str] = set()
    while len(begun) < len(steps):
        while (due := agenda.due(now)) is not None:
            begun.append(due)
            assert due.after in ended if due.after else due.at <= now
        left = [one for one in steps if one not in begun]
        assert len(agenda) == len(left)
        assert all(one.at > now if one.after is None else one.after not in ended for one in left)
        timed = [one.at for one in left if one.after is None]
        assert agenda.seconds_left(now) == (min(timed) - now if timed else None)
        running = sorted({one.id for one in begun} - ended)
        if running and data.draw(st.booleans()):
            name = data.draw(st.sampled_from(running))
            ended.add(name)
            agenda.ended(name)
        elif timed:
            now = min(timed)
    assert len({one.id for one in begun}) == len(steps)


def test_the_files_order_decides_within_a_moment() -> None:
    agenda = Agenda([step("b", 1), step("a", 1), step("0"), step("z", 1)])
    assert [agenda.due(1).id for _ in range(4)] == ["0", "b", "a", "z"]  # pyright: ignore[reportOptionalMemberAccess]


def test_a_clock_that_is_late_waits_no_negative_time() -> None:
    assert Agenda([step("a", 1)]).seconds_left(5) == 0


def test_cleared_it_has_nothing_to_begin() -> None:
    agenda = Agenda([step("a"), step("b", 9), step("c", after="a"), step("d", after="b")])
    assert agenda.due(0) == step("a")
    agenda.ended("a")
    assert agenda.clear() == 3
    assert (len(agenda), agenda.due(10), agenda.seconds_left(10)) == (0, None, None)
    agenda.ended("b")
    assert agenda.due(10) is None
