"""The subcommands of `mlxr`, declared once: the parser, the help and the guide's facts read this list."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Subcommand(Protocol):
    """What a subcommand's module offers."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommand's own arguments."""
        ...

    def run(self, args: Namespace) -> int:
        """Do the work and return the exit code. Raises CliError and EngineError for a user's mistake."""
        ...


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A subcommand: its name, a line about it, and how to get its module (imported only when it is used)."""

    name: str
    summary: str
    load: Callable[[], Subcommand]


def _chat() -> Subcommand:
    from app.cli import chat

    return chat


def _generate() -> Subcommand:
    from app.cli import generate

    return generate


def _doctor() -> Subcommand:
    from app.cli import doctor

    return doctor


def _pull() -> Subcommand:
    from app.cli import pull

    return pull


def _kernels() -> Subcommand:
    from app.cli import kernels

    return kernels


def _bench() -> Subcommand:
    from app.cli import bench

    return bench


def _replay() -> Subcommand:
    from app.cli import replay

    return replay


def _top() -> Subcommand:
    from app.cli import top

    return top


def _convert() -> Subcommand:
    from app.cli import convert

    return convert


def _models() -> Subcommand:
    from app.cli import models

    return models


def _rm() -> Subcommand:
    from app.cli import rm

    return rm


def _import() -> Subcommand:
    from app.cli import import_model

    return import_model


COMMANDS: tuple[CommandSpec, ...] = (
    CommandSpec("chat", "chat in the terminal; reads standard input when piped", _chat),
    CommandSpec("generate", "write one completion and end, for scripts", _generate),
    CommandSpec("models", "list the models on this machine, rename them, choose favourites", _models),
    CommandSpec("import", "list models from a folder or file of yours, where they lie", _import),
    CommandSpec("rm", "remove a model, and say what that frees", _rm),
    CommandSpec("pull", "download a model, or go on with unfinished downloads", _pull),
    CommandSpec("convert", "write a Hugging Face model in MLX form, quantised or not", _convert),
    CommandSpec("doctor", "say what this machine has and what is wrong with it", _doctor),
    CommandSpec("bench", "measure speed on this machine, side by side with a peer", _bench),
    CommandSpec("top", "show the live figures of the MLXR that is running", _top),
    CommandSpec("replay", "play a file of requests on one engine, to measure or reproduce", _replay),
    CommandSpec("kernels", "show which kernels run on this machine and why, or check them", _kernels),
)
