"""What guessing may lose: an allowance that grows with the answer, and with what guesses have won."""

from __future__ import annotations

_SHARE = 0.008  # of the answer's time may be lost
_MOST = 6.0  # plain steps that may be lost at once, after as many were won


class Purse:
    """Plain steps of one answer that may be lost now."""

    def __init__(self, first: float) -> None:
        """`first`: what may be lost at its beginning."""
        self.left = first

    def earn(self, tokens: int) -> None:
        """So many tokens have come, guessed or not."""
        self.balance(_SHARE * tokens)

    def balance(self, won: float) -> None:
        """Guessing has won so many plain steps, or lost them where that is less than 0."""
        left = self.left + won
        self.left = left if left < _MOST else _MOST
