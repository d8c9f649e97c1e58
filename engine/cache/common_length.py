"""How far two sequences of ids are alike. Pure Python."""

from __future__ import annotations

from array import array
from collections.abc import Sequence


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids the two begin with alike.

    Slices are compared, which takes a tenth of a loop's time: a chat's ids are compared before each first
    token. Those of two arrays take a tenth of that: their numbers are no objects to be fetched one by one.
    """
    if not (isinstance(left, array) and isinstance(right, array)):
        left, right = tuple(left), tuple(right)
    same, end = 0, min(len(left), len(right))
    if left[:end] == right[:end]:
        return end
    while end - same > 1:
        middle = (same + end) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            end = middle
    return same
