"""How far two sequences are alike, whatever holds their ids."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from engine.cache.common_length import common_length

Ids = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 2), max_size=40)
Held = st.sampled_from([tuple, list, lambda ids: array("I", ids)])


@given(Ids, Ids, Ids, Held, Held)
def test_it_is_where_a_plain_loop_stops(
    both: list[int],
    left: list[int],
    right: list[int],
    holds_left: Callable[[list[int]], Sequence[int]],
    holds_right: Callable[[list[int]], Sequence[int]],
) -> None:
    one, other = both + left, both + right
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    assert common_length(holds_left(one), holds_right(other)) == alike
