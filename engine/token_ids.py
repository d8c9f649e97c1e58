"""Token ids as numbers one beside the other: what is compared and checked at once. Pure Python."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

ID = "I"
"""Of an array: a token's id, 32 bits."""


def packed(ids: Iterable[int]) -> array[int] | None:
    """They as an array of 32 bits; None where one is below 0, or has more."""
    try:
        return array(ID, ids)
    except OverflowError:
        return None
