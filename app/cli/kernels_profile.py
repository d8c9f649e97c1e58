"""`mlxr kernels --profile`: a decode step of a model, part by part."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable

from app.cli.columns import Column, table
from app.cli.opening import open_session
from app.cli.terminal import Terminal
from app.profile_words import COLUMNS, profile_rows, profile_values, profile_words
from engine import ModelInfo, StepProfile

_WORDS = 2
"""Columns that are no numbers; the last two say what matters most."""


def run(args: Namespace, terminal: Terminal, width: int | None) -> int:
    """Load the model, profile a step of it and print that, in at most `width` places. Raises AppError."""
    with open_session(args, terminal, is_measured=True) as (session, model):
        terminal.progress("measuring a step")
        profile = session.profile()
    if args.json:
        runs = {"model": model.name, "executor": model.executor, "executor_reason": model.executor_reason}
        values = {**runs, "device": model.device, **profile_values(profile)}
        terminal.answer(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    else:
        terminal.answer("".join(f"{line}\n" for line in profile_lines(model, profile, width)))
    return 0


def profile_lines(model: ModelInfo, profile: StepProfile, width: int | None) -> Iterable[str]:
    """The profile for people."""
    yield f"{model.name}: {model.executor} on {model.device} ({model.executor_reason})"
    yield profile_words(profile)
    yield ""
    cells = zip(*profile_rows(profile), strict=True)
    yield from table(
        [
            Column(head, texts, is_number=place >= _WORDS, weight=place)
            for place, (head, texts) in enumerate(zip(COLUMNS, cells, strict=True))
        ],
        width,
    )
