"""How a subcommand gets a loaded model: find it, start the engine, load, and show the progress."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from app.amounts import counted
from app.cli.recording import Recorded, recording
from app.cli.session import Session
from app.cli.terminal import Terminal
from app.engine_like import MakeEngine
from app.engine_settings import engine_settings
from app.errors import ModelNotFound
from app.library.lookup import note_use, own_at
from app.library.records import Own
from app.model_location import locate, model_title
from app.paths import Paths, default_paths
from app.settings import SettingsFile
from engine import Engine, EngineSettings, Event, LoadProgress, ModelInfo, PrefillProgress


@contextmanager
def open_session(
    args: Namespace, terminal: Terminal, *, is_measured: bool = False
) -> Generator[tuple[Session, ModelInfo]]:
    """A session with the model that `args.model` or the settings name, under its name for people.

    `is_measured`: every token is computed, one by one: nothing is guessed, nothing comes from an earlier run,
    and nothing goes into the history. Raises AppError.
    """
    paths = default_paths()
    loaded = SettingsFile(paths.settings).load()
    if loaded.problem:
        terminal.say(loaded.problem)
    path = locate(getattr(args, "model", None), loaded.settings.last_model, terminal.say).absolute()
    settings = engine_settings(paths, loaded.settings)
    named = getattr(args, "draft_model", None)
    draft = None if named is None else locate(named)
    own = Own() if is_measured else own_at(path, paths)
    if draft is None and own.problem:
        raise ModelNotFound(f"{model_title(path)}: {own.problem}")
    if is_measured:
        settings = replace(settings, speculation=False, ssd=None)
    cache = None if settings.ssd is None else settings.ssd.folder
    with _engine(args, paths, settings, terminal, is_measured) as make, Session(make, cache) as session:
        model = session.load(
            path, lambda event: show_progress(event, terminal), own.settings, draft or own.draft
        )
        if not is_measured and (problem := note_use(path, paths)):
            terminal.note(problem)
        yield session, model


@contextmanager
def _engine(
    args: Namespace, paths: Paths, settings: EngineSettings, terminal: Terminal, is_measured: bool
) -> Generator[MakeEngine]:
    """What makes the engine, with its requests recorded where they are not measurements."""
    if is_measured:
        yield lambda emit: Engine(emit, settings)
        return
    with recording(paths, args.command or "chat", settings.kv_bits, terminal.note) as recorder:
        yield lambda emit: Recorded(lambda seen: Engine(seen, settings), emit, recorder)


def show_progress(event: Event, terminal: Terminal) -> None:
    """Show load and prefill progress as a passing line."""
    if isinstance(event, LoadProgress) and event.is_trying:
        terminal.progress("trying kernels on this machine, once for this kind of model")
    elif isinstance(event, LoadProgress) and event.total_bytes:
        terminal.progress(f"loading the model: {100 * event.loaded_bytes // event.total_bytes}%")
    elif isinstance(event, PrefillProgress) and event.done_tokens < event.prompt_tokens:
        terminal.progress(
            f"reading the prompt: {event.done_tokens:,} of {counted(event.prompt_tokens, 'token')}"
        )
