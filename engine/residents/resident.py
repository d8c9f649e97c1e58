"""A model that was loaded: at work in memory, or at rest until it is asked for."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx

from engine.commands import LoadModel
from engine.serving import Serving

log = logging.getLogger(__name__)


def name_of(command: LoadModel) -> str:
    """What people call that model."""
    return command.name or Path(command.path).name


@dataclass(slots=True, eq=False)
class Resident:
    """Times are seconds of a clock that nobody sets: neither a change of the date nor sleep ends a stay.

    Attributes:
        command: how it was loaded, and will be again.
        name: what people call it.
        serving: it at work; None while it rests.
        turn: when it made its last step, as a number that grows.
        used: when somebody needed it last.
        tidied: when its pages were last tidied up, or it was last at work.
        is_leaving: whether it is written to SSD before it rests in another's favour: it begins nothing.
        is_wanted: whether requests may reach it; who is unloaded beside others' answers may be here still.
    """

    command: LoadModel
    serving: Serving | None = None
    turn: int = 0
    used: float = 0.0
    tidied: float = 0.0
    is_leaving: bool = False
    is_wanted: bool = True
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = name_of(self.command)

    @property
    def path(self) -> str:
        """Its folder or file, by which commands name it."""
        return self.command.path

    @property
    def standing(self) -> tuple[str, bool, bool]:
        """Which it is, and whether it is in memory, and has requests."""
        return self.path, self.serving is not None, self.serving is not None and self.serving.busy

    @property
    def at_work(self) -> Serving:
        """`serving` of one that is in memory."""
        if self.serving is None:
            raise AssertionError(f"{self.path} rests")
        return self.serving

    @property
    def needed_by(self) -> tuple[bool, bool, float]:
        """In this order one makes room after another: who has requests, or pages of a pinned chat, later."""
        return self.at_work.busy, self.at_work.chats.holds_pinned, self.used

    def leaves_in(self, after: float | None, now: float) -> float | None:
        """Seconds until it makes room, unused for `after`; None: never, unless something changes."""
        if not self.is_wanted:
            return 0.0
        if after is None or self.serving is None or self.serving.busy or self.serving.chats.holds_pinned:
            return None
        return max(0.0, self.used + after - now)

    def tidies_in(self, now: float) -> float | None:
        """Seconds until there is something to tidy up; None when there is nothing."""
        due = None if self.serving is None else self.serving.next_tidying
        return None if due is None else max(0.0, self.tidied + due - now)

    def put_some_away(self) -> bool:
        """Offer a run of its pages to the SSD. Returns whether it can go: that has all, or gets no more."""
        try:
            return self.at_work.put_some_away()
        except Exception:  # a device that is lost: others' answers go on, and it goes all the same
            log.exception("pages could not be put away")
            return True

    def leave(self) -> frozenset[str]:
        """Have it leave memory, on a device that is lost too. Returns forgotten chats, by their digests.

        Files may still be of those.
        """
        try:
            self.at_work.close()
        except Exception:  # the model goes all the same
            log.exception("pages could not be put away")
        tier, self.serving = self.at_work.model.tier, None
        try:
            mx.synchronize()  # a GPU lets go of arrays only when its last step has ended
        except Exception:  # nobody waits for what it computed
            log.exception("the last step of a model that leaves broke")
        mx.clear_cache()
        return frozenset() if tier is None else tier.forgotten
