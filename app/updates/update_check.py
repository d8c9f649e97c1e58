"""Updates as the window sees them: what is known, the question when it is wanted, and what changed since."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app import VERSION
from app.models.background import Background
from app.text import sentence
from app.updates import words
from app.updates.channel import Channel
from app.updates.choice import artefact_for, this_machine
from app.updates.manifest import Artefact, Manifest, version_numbers
from app.updates.memory import MemoryFile

LOOK_AGAIN_MS = 60 * 60 * 1000
"""How often it is seen whether a day went by: the window may stay open for weeks."""

Phase = Literal["unknown", "asking", "current", "newer", "failed"]


@dataclass(frozen=True, slots=True)
class UpdateState:
    """What is known, in a line for people; `manifest` is the list of releases once it was read."""

    phase: Phase
    words: str
    manifest: Manifest | None = None


class UpdateCheck(QObject):
    """Signals: `changed`, `found(Manifest)` for a newer version that nobody asked for, and `updated`, once
    after an update."""

    changed = Signal()
    found = Signal(object)
    updated = Signal()

    def __init__(
        self,
        channel: Channel,
        memory: MemoryFile,
        background: Background,
        is_wanted: Callable[[], bool],
        certificates: ssl.SSLContext | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`is_wanted`: whether the user wants it to be asked by itself. `certificates`: as in `fetch`."""
        super().__init__(parent)
        self._channel = channel
        self._memory = memory
        self._background = background
        self._is_wanted = is_wanted
        self._certificates = certificates
        self._state = UpdateState("unknown", "" if channel.can_check else words.CANNOT)
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_AGAIN_MS)
        self._timer.timeout.connect(self.look_if_due)

    @property
    def state(self) -> UpdateState:
        """What is known now."""
        return self._state

    @property
    def can_check(self) -> bool:
        """Whether this build can ask at all."""
        return self._channel.can_check

    @property
    def page(self) -> str:
        """The address of the download page, or ""."""
        return self._channel.page

    def start(self) -> None:
        """Read what is remembered, tell of an update that happened, and ask if that is wanted and due."""
        self._timer.start()
        self._background.ask(self._note_run, self._tell_update, lambda _: None)
        self.look_if_due()

    def stop(self) -> None:
        """Ask no more."""
        self._timer.stop()

    @Slot()
    def look_if_due(self) -> None:
        """Ask, where the user wants that and a day went by; without a network nothing is said."""
        if not self.can_check or not self._is_wanted() or self._state.phase == "asking":
            return

        def work() -> tuple[Manifest, Artefact | None] | None:
            return self._ask() if self._memory.read().is_due(datetime.now(UTC)) else None

        def know(answer: tuple[Manifest, Artefact | None] | None) -> None:
            if answer is not None:
                self._know(*answer)
                if self._state.phase == "newer":
                    self.found.emit(answer[0])

        self._background.ask(work, know, lambda _: None)

    @Slot()
    def look(self) -> None:
        """Ask now, because the user wants to know now."""
        if not self.can_check or self._state.phase == "asking":
            return
        self._set(UpdateState("asking", words.ASKING))
        self._background.ask(self._ask, lambda answer: self._know(*answer), self._fail)

    def _ask(self) -> tuple[Manifest, Artefact | None]:
        from app.updates.asking import ask  # here, off the GUI thread: libsodium and HTTP take their time

        manifest = ask(self._channel, self._memory, self._certificates)
        return manifest, artefact_for(this_machine(), manifest.artefacts)

    def _note_run(self) -> tuple[str, str]:
        """What is known from before, in words, and the version that ran last."""
        memory = self._memory.read()
        if memory.ran != VERSION:
            with suppress(OSError):  # on a full disk it is told at the next start too
                self._memory.note(ran=VERSION)
        return words.remembered_words(memory), memory.ran

    def _tell_update(self, known: tuple[str, str]) -> None:
        remembered, ran = known
        if self.can_check and self._state.phase == "unknown":
            self._set(UpdateState("unknown", remembered))
        if ran and version_numbers(ran) < version_numbers(VERSION):
            self.updated.emit()

    def _know(self, manifest: Manifest, artefact: Artefact | None) -> None:
        phase: Phase = "newer" if manifest.is_newer_than(VERSION) else "current"
        self._set(UpdateState(phase, words.found_words(manifest, artefact), manifest))

    def _fail(self, line: str) -> None:
        self._set(UpdateState("failed", f"{sentence(line)}."))

    def _set(self, state: UpdateState) -> None:
        self._state = state
        self.changed.emit()
