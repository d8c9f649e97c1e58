"""When a request's first token will come, and whether reading pages back beats computing them again."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.pacing.ways import Way
from engine.prediction.prediction import Rates
from engine.requests.request import Sequence
from engine.steps.batch import Sent, Slice

log = logging.getLogger(__name__)

_Lesson = Callable[[Rates], None]
_ALL = 0.999
"""Of the model's layers, added up in fractions."""
_MOST_NEWS = 1000
"""Lessons that wait to be saved, where the file cannot be written."""


class Foresight:
    """What a model's work takes on this machine: learned while it serves, and kept for the next time."""

    def __init__(self, file: Path, about: str, page_bytes: int, page_size: int, few: int = 0) -> None:
        """
        Args:
            file: where the rates are kept; a missing or damaged one means that nothing is known.
            about: the machine, executor, model and bits of KV memory that they hold for.
            page_bytes: of one page; `page_size`: its tokens.
            few: of Rates.
        """
        self._file, self._about = file, about
        self._page_bytes, self._page_size, self._few = page_bytes, page_size, few
        self._news = deque[_Lesson](maxlen=_MOST_NEWS)
        self._rates = self._stored() or Rates(few)
        self._chunk = _Chunk()

    def save(self) -> None:
        """Keep what was learned since the last time, beside what others have kept; or try again later."""
        if not self._news:
            return
        rates = self._stored()
        if rates is None:
            rates = self._rates
        else:
            for lesson in self._news:
                lesson(rates)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}.part")
            part.write_text(rates.to_json(self._about), encoding="utf-8")
            part.replace(self._file)
        except OSError as error:
            log.warning("%s cannot be written (%s)", self._file, error)
        else:
            self._news.clear()

    def took(self, sent: Sent, seconds: float) -> None:
        """A step is done; of those that compute nothing but a prompt is learned.

        A request that came alone is learned from as a whole, and before there are enough by its chunks.
        """
        piece = sent.slice
        if piece is None or piece.way is Way.ASIDE or sent.answers:
            return
        tokens, begin = piece.tokens, piece.begin
        if not piece.sequence.request.came_alone:
            if piece.share == 1:
                self._learn(lambda rates: rates.prefilled(tokens, begin, seconds))
        elif self._rates.has_few and (taken := self._chunk.took(piece, seconds)) is not None:
            self._learn(lambda rates: rates.began(tokens, begin, taken))

    def knows_computing(self, new: int) -> bool:
        """Whether it is known what so many tokens of a prompt take."""
        return self._rates.prefill_seconds(new, 0) is not None

    def answered(self, new: int, cached: int, steps: int, seconds: float) -> None:
        """The first token of a request that was alone came after `seconds`: see Rates.answered."""
        self._learn(lambda rates: rates.answered(new, cached, steps, seconds))

    def returned(self, restored: int, new: int, cached: int, steps: int, seconds: float) -> None:
        """The same of a request for which pages of `restored` of its cached tokens were read back."""
        read = self._bytes(restored)
        self._learn(lambda rates: rates.returned(read, new, cached, steps, seconds))

    def refused(self) -> None:
        """Pages were not read back, as `should_restore` said: see Rates.refused."""
        self._learn(Rates.refused)

    def restored(self, tokens: int, seconds: float) -> None:
        """Pages of so many tokens were read back from SSD."""
        read = self._bytes(tokens)
        self._learn(lambda rates: rates.restored(read, seconds))

    def fetched(self, tokens: int, seconds: float) -> None:
        """A device took so long to fetch pages of so many tokens that the host had written."""
        fetched = self._bytes(tokens)
        self._learn(lambda rates: rates.fetched(fetched, seconds))

    def met(self, nbytes: int, seconds: float) -> None:
        """See Rates."""
        self._learn(lambda rates: rates.met(nbytes, seconds))

    @property
    def knows_fetching(self) -> bool:
        """See Rates."""
        return self._rates.knows_fetching

    def grew(self, nbytes: int, seconds: float) -> None:
        """See Rates."""
        self._learn(lambda rates: rates.grew(nbytes, seconds))

    def should_restore(self, tokens: int, context: int, read: int, met_bytes: int) -> bool:
        """Whether reading `read` tokens' pages is no slower than computing `tokens` behind `context`.

        `met_bytes`: of Rates.restore_seconds. What was never measured is tried.
        """
        restore = self._rates.restore_seconds(self._bytes(read), met_bytes)
        compute = self._rates.prefill_seconds(tokens, context)
        return restore is None or compute is None or restore <= compute

    def first_token(
        self,
        prompt: int,
        reused: int,
        read: int,
        ahead: Iterable[Sequence],
        steps: int,
        grown_bytes: int,
        met_bytes: int,
    ) -> float | None:
        """Seconds until the first token of a prompt sent now; None until this machine was measured.

        Args:
            prompt: its tokens, of which the first `reused` need no computing if `read` of them are read back
                from SSD.
            ahead: whose prompts are computed before it.
            steps: that compute what is not reused.
            grown_bytes: of KV memory, where it has to grow first; `met_bytes`: of Rates.restore_seconds.
        """
        waits = [self._rates.reading_seconds(other.pending, other.table.length) for other in ahead]
        known = [seconds for seconds in waits if seconds is not None]
        if len(known) < len(waits):
            return None
        return self._rates.first_token_seconds(
            prompt - reused,
            reused,
            steps,
            sum(known),
            restored_bytes=self._bytes(read),
            met_bytes=met_bytes,
            grown_bytes=grown_bytes,
        )

    def _learn(self, lesson: _Lesson) -> None:
        lesson(self._rates)
        self._news.append(lesson)

    def _stored(self) -> Rates | None:
        """What the file has; None where there is nothing to be had of it."""
        try:
            return Rates.from_json(self._file.read_text(encoding="utf-8"), self._about, self._few)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            log.warning("%s cannot be read (%s); rates are measured anew", self._file, error)
            return None

    def _bytes(self, tokens: int) -> int:
        return tokens // self._page_size * self._page_bytes


@dataclass(slots=True)
class _Chunk:
    """What was measured of one, step by step: `share` of the model's layers, which took `seconds`."""

    at: tuple[Sequence, int] | None = None
    share: float = 0.0
    seconds: float = 0.0

    def took(self, piece: Slice, seconds: float) -> float | None:
        """A step of it, or of another. Returns the seconds of one that is through, if all were measured."""
        at = piece.sequence, piece.begin
        if at != self.at:
            self.at, self.share, self.seconds = at, 0.0, 0.0
        self.share, self.seconds = self.share + piece.share, self.seconds + seconds
        if piece.ends:
            self.at = None
        return self.seconds if self.share > _ALL else None
