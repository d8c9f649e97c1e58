"""Token ids packed by who asks: the same numbers, or none where they do not fit."""

import pytest

from engine import Generate, History
from engine.token_ids import packed


@pytest.mark.parametrize("ids", [(), (0, 7, 2**32 - 1), tuple(range(300, 9000))], ids=len)
def test_they_are_the_same_numbers(ids: tuple[int, ...]) -> None:
    made = [packed(ids), Generate("a", tokens=ids).packed, History(ids, 2, "m").packed]
    assert [None if each is None else each.tolist() for each in made] == [list(ids)] * 3


@pytest.mark.parametrize("ids", [(5, -1), (2**32, 5)])
def test_what_has_no_32_bits_is_not_packed(ids: tuple[int, ...]) -> None:
    assert packed(ids) is Generate("a", tokens=ids).packed is History(ids, 2, "m").packed is None
