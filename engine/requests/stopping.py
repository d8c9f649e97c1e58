"""Stop strings: cut from a stream of text as soon as one is whole, holding back only what may become one."""

from __future__ import annotations

from engine.errors import InvalidRequest


class StopStrings:
    """Watches the text of one answer for the earliest occurrence of any of `stop`.

    "Earliest" is by where an occurrence begins; text is cut there, and what follows is dropped.
    """

    def __init__(self, stop: tuple[str, ...]) -> None:
        """Raises InvalidRequest when one of `stop` is empty: it would end every answer at once."""
        if "" in stop:
            raise InvalidRequest("a stop string is empty; give text that ends the answer, or leave it out")
        self._stop = stop
        self._held = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the answer."""
        return self._stopped

    def add(self, text: str) -> tuple[str, bool]:
        """More of the answer. Returns the text that is safe to show now, and whether the answer is stopped.

        Once stopped, everything further is dropped.
        """
        if self._stopped:
            return "", True
        text = self._held + text
        found = self._earliest(text)
        pending = self._pending(text)
        if found is not None and found <= pending:
            self._stopped, self._held = True, ""
            return text[:found], True
        self._held = text[pending:]
        return text[:pending], False

    def finish(self) -> str:
        """The answer ended otherwise: what was held back, cut at a stop string already whole in it."""
        held, self._held = self._held, ""
        found = self._earliest(held)
        if found is None:
            return held
        self._stopped = True
        return held[:found]

    def _earliest(self, text: str) -> int | None:
        """Where the first whole stop string in `text` begins."""
        places = [place for stop in self._stop if (place := text.find(stop)) >= 0]
        return min(places, default=None)

    def _pending(self, text: str) -> int:
        """Where the part at the end of `text` begins that more text may turn into a stop string."""
        longest = max(map(len, self._stop), default=0)
        for start in range(max(0, len(text) - longest + 1), len(text)):
            tail = text[start:]
            if any(stop.startswith(tail) for stop in self._stop):
                return start
        return len(text)
