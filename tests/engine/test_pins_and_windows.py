"""Where all layers have a window, too, who is accepted beside pinned chats gets its pages."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.errors import Refused
from engine.events.cache import CacheReport
from tests.engine.oracle import Checked, checked_model
from tests.engine.queued import Queue

WINDOW, PAGE = 4, 2
CHATS = ("a", "b", "c", "")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    shape = {"sliding_window": WINDOW, "max_position_embeddings": 256}
    return checked_model(tmp_path_factory.mktemp("models"), "window", **shape)


def words(count: int, seed: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(3, 300), k=count))


def queue_of(folder: Path, checked: Checked, pages: int) -> Queue:
    return Queue(folder, pages, model=checked, page_size=PAGE, prefill_chunk=2)


def is_held(queue: Queue, name: str, prompt: tuple[int, ...], chat: str, n: int = 1) -> bool:
    """Whether it is accepted; then it is answered, or the queue's work fails."""
    try:
        request = queue.request(name, prompt, 3, chat=chat, n=n)
    except Refused:
        return False
    queue.add(request)
    queue.work()
    return True


def test_pinned_pages_that_the_window_leaves_are_none_of_a_prompt_that_begins_with_them(
    checked: Checked, tmp_path: Path
) -> None:
    """Of 12 pinned pages it begins with two, and needs four behind these: they are there from 16 on."""
    begun = words(4, 0)
    for pages in range(12, 18):
        queue = queue_of(tmp_path / str(pages), checked, pages)
        assert is_held(queue, "a", (*begun, *words(17, 1)), "a")
        queue.serving.chats.pin("a", True)
        capacity = queue.serving.chats.capacity("b", (*begun, *words(28, 2)))
        assert capacity.available == pages - 12
        assert is_held(queue, "b", (*begun, *words(28, 2)), "b") is (pages >= 16)
        assert len([event for event in queue.events if isinstance(event, CacheReport)]) == 1 + (pages >= 16)
        queue.serving.chats.pin("a", False)
        queue.close()


def test_pages_that_come_back_for_a_pinned_chat_are_none_of_who_computes_them(
    checked: Checked, tmp_path: Path
) -> None:
    """What "a" began with has left memory for "b" when "a" is pinned; "c" computes it again."""
    whole = words(22, 1)
    queue = queue_of(tmp_path, checked, pages=11)
    assert is_held(queue, "a", whole, "a")
    assert is_held(queue, "b", words(8, 3), "b")
    queue.serving.chats.pin("a", True)
    held = queue.serving.model.memory.tree.chats["a"].pages
    assert held < 11
    with pytest.raises(Refused) as caught:
        queue.request("c", (*whole[:12], *words(20, 2)), 3, chat="c")
    refusal = caught.value.refusal
    assert [way.kind for way in refusal.ways_out] == ["evict"]
    assert refusal.pinned_pages > held
    assert is_held(queue, "other", words(4, 4), "c")
    queue.serving.chats.pin("a", False)
    assert is_held(queue, "c", (*whole[:12], *words(20, 2)), "c")
    queue.close()


def test_who_shares_pages_that_the_window_leaves_does_not_begin_on_them_to_give_way_then(
    checked: Checked, tmp_path: Path
) -> None:
    """Of 17 pages "a" keeps 12, and "c" writes on: the four that "b" needs are there once it has ended."""
    begun = words(4, 0)
    queue = queue_of(tmp_path, checked, pages=17)
    assert is_held(queue, "a", (*begun, *words(17, 1)), "a")
    queue.serving.chats.pin("a", True)
    queue.add(queue.request("c", words(6, 5), 80, chat="c"))
    queue.work_until_all_write()
    assert is_held(queue, "b", (*begun, *words(28, 2)), "b")
    assert [end.id for end in queue.ends] == ["a", "c", "b"]
    assert queue.preemptions == 0
    queue.serving.chats.pin("a", False)
    queue.close()


@pytest.mark.parametrize("seed", range(10))
def test_whoever_is_accepted_is_answered(checked: Checked, tmp_path: Path, seed: int) -> None:
    """Chats that begin alike, in pages for one or two of them, some of them pinned."""
    draw = random.Random(seed)
    queue = queue_of(tmp_path, checked, draw.randint(7, 18))
    known, held = [words(20, 7)], 0
    for number in range(30):
        if draw.random() < 0.25:
            queue.serving.chats.pin(draw.choice(CHATS[:-1]), draw.random() < 0.7)
        before = draw.choice(known)
        prompt = (*before[: draw.randint(1, len(before))], *words(draw.randrange(30), number))[:120]
        if is_held(queue, str(number), prompt, draw.choice(CHATS), draw.choice([1, 1, 2, 3])):
            held += 1
            known.append(prompt)
    assert held > 3
    for chat in CHATS[:-1]:
        queue.serving.chats.pin(chat, False)
    queue.close()
