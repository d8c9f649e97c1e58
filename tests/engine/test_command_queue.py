"""Commands in order, some of them before their turn, against a plain list."""

from __future__ import annotations

import threading
from queue import Empty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.command_queue import CommandQueue

ACTS = st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["get", "early", "all"])))


@given(ACTS)
def test_what_stays_keeps_its_order(acts: list[int | str]) -> None:
    queue, waiting, looked_at = CommandQueue[int](), list[int](), 0
    for act in acts:
        if isinstance(act, int):
            queue.put(act)
            waiting.append(act)
        elif act == "get":
            if waiting:
                assert queue.get(block=False) == waiting.pop(0)
                looked_at = max(0, looked_at - 1)
            else:
                with pytest.raises(Empty):
                    queue.get(block=False)
        elif act == "all":
            assert queue.take_all() == waiting
            waiting.clear()
            looked_at = 0
        else:
            stay, early = waiting[:looked_at], list[int]()
            for item in waiting[looked_at:]:
                (early if item % 2 and item not in stay else stay).append(item)
            assert queue.take_early(lambda item, before: item % 2 == 1 and item not in before) == early
            waiting[:] = stay
            looked_at = len(stay)
    assert queue.take_all() == waiting


def test_a_command_from_another_thread_is_waited_for() -> None:
    queue = CommandQueue[int]()
    threading.Timer(0.05, queue.put, [7]).start()
    assert queue.get(block=True, timeout=30) == 7
    with pytest.raises(Empty):
        queue.get(block=True, timeout=0.01)
