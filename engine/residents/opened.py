"""What a LoadModel names, as far as it is known before weights are read, and what it takes of the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.commands import AS_SET, LoadModel
from engine.errors import ModelError
from engine.fitting.fit import MOST_WEIGHTS, Tenant, check_weights, pages_alone, tenant
from engine.fitting.inspection import summary_of
from engine.loading.files import ModelFiles
from engine.loading.model import open_model
from engine.loading.thread import Apart
from engine.machine.machine import memory_bytes
from engine.settings import EngineSettings
from engine.speculation.model_drafter import check_vocabulary


@dataclass(frozen=True, slots=True)
class Opened:
    """A model and the one that drafts for it, where there is one, each with the settings that it gets."""

    files: ModelFiles
    settings: EngineSettings
    draft: ModelFiles | None

    @property
    def draft_settings(self) -> EngineSettings:
        """Its pages are not kept, and as exact as it computes them; its chats are as long as it allows."""
        return replace(self.settings, ssd=None, kv_bits=None, context=None)

    @property
    def total_bytes(self) -> int:
        """Of their tensors on disk."""
        return sum(files.weights.total_bytes() for files in (self.files, self.draft) if files is not None)

    def tenant(self) -> Tenant:
        """What they are going to take of the memory.

        Raises EngineError where they cannot be loaded, as far as headers tell, even with no other beside.
        """
        memory, own = memory_bytes(), _tenant(self.files, self.settings)
        check_weights(self.files.name, own.weight_bytes, memory)
        if self.draft is None:
            return own
        both = own.with_draft(_tenant(self.draft, self.draft_settings))
        if both.weight_bytes > MOST_WEIGHTS * memory or not pages_alone(both, memory, self.settings):
            raise ModelError(
                f"{self.files.name} and {self.draft.name}, which is to guess for it, do not fit in memory "
                "together; leave the draft model out, or choose a smaller one"
            )
        return both


def open_both(command: LoadModel, settings: EngineSettings, apart: Apart) -> Opened:
    """Open the model that `command` names, and the one that drafts for it if anything is to be guessed.

    `settings`: the engine's. `apart` has files read. Raises EngineError for what makes no sense or cannot be
    read, one line; ModelError also for a draft model that cannot guess for this one.
    """
    own = own_settings(command, settings)
    files = apart(partial(_open, command.path, command.name))
    if not command.draft_model or not own.speculation:
        return Opened(files, own, None)
    draft = apart(partial(_open, command.draft_model, command.draft_name))
    apart(partial(check_vocabulary, draft, files))
    return Opened(files, own, draft)


def own_settings(command: LoadModel, settings: EngineSettings) -> EngineSettings:
    """The engine's settings with those of one model. Raises EngineError for what makes no sense."""
    if command.context is not None:
        settings = replace(settings, context=command.context)
    if command.kv_bits != AS_SET:
        settings = replace(settings, kv_bits=command.kv_bits)
    return settings


def _open(path: str, name: str) -> ModelFiles:
    files = open_model(Path(path))
    return replace(files, name=name or files.name)


def _tenant(files: ModelFiles, settings: EngineSettings) -> Tenant:
    return tenant(summary_of(files, settings.kv_bits), settings, settings.context)
