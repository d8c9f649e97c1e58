"""The report of a crash: Markdown, all of it fit to be shared, and nothing that is not in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from app.amounts import size
from app.crash.inquest import Ending
from app.crash.privacy import fit_to_share, without_messages
from app.log_reader import Entry, entries

MOST_ENTRIES = 20
MOST_STACKS = 60_000
MOST_OUTPUT = 4_000
MOST_TRACE = 1_500
"""Characters of each part; what is left out is said."""

_NAMES = {"python": "Python", "mlx": "MLX", "PySide6-Essentials": "Qt for Python"}


def report_text(ending: Ending, when: str, machine: Iterable[str], log: Path, user_home: Path) -> str:
    """The report of `ending`, found at `when`.

    `machine`: lines about it; `log`: the newest log file, whose end is of that run where its entries are.
    """
    marker = ending.marker
    versions = [
        f"MLXR {marker.version}",
        *(f"{_NAMES.get(of, of)} {is_}" for of, is_ in marker.parts.items()),
    ]
    mode = f"Safe mode: {marker.safe}" if marker.safe else "Safe mode: no"
    soon = "yes" if ending.is_early else "no"
    parts = [
        f"# {ending.what}",
        _section("When", [f"Began {marker.began}", f"Found {when}", f"Soon after its start: {soon}", mode]),
        _section("Versions", [", ".join(versions)]),
        _section("Machine", machine),
        _section("What the engine did last", doing_lines(ending.doing)),
        _section(
            "Stacks",
            [_cut(without_messages(ending.stacks), MOST_STACKS) or "none: it could say nothing any more"],
        ),
        _section(
            "Printed last", [_tail(without_messages(ending.output), MOST_OUTPUT) or "nothing that was kept"]
        ),
        _section("The log, newest first", _log_lines(log)),
    ]
    return fit_to_share("\n\n".join(parts), user_home) + "\n"


def doing_lines(doing: Mapping[str, Any]) -> list[str]:
    """The diary's note in words. It is from a file: what is missing there is left out."""
    lines = [f"{doing['at']}"] if doing.get("at") else []
    if asked := doing.get("asked"):
        lines.append(f"Asked last: {asked}")
    if loading := doing.get("loading"):
        lines.append(f"Loading: {loading}")
    if model := doing.get("model"):
        lines.append(
            f"Model: {model.get('name')} ({model.get('family')}, {size(model.get('weights', 0))}, "
            f"{model.get('dtype')}, context {model.get('context'):,})"
        )
        lines.append(f"Executor: {model.get('executor')} on {model.get('device')}: {model.get('reason')}")
    if steps := doing.get("steps"):
        lines += _step_lines(steps)
    if trials := doing.get("trials"):
        lines.append(f"Trials of kernels: {trials}")
    return lines or ["nothing yet"]


def _step_lines(steps: Mapping[str, Any]) -> list[str]:
    lines = [f"Requests: {steps.get('running')} running, {steps.get('waiting')} waiting"]
    lines += [
        f"  prompt {one.get('prompt'):,} tokens, {one.get('read'):,} in pages, {one.get('written'):,} written"
        for one in steps.get("requests", ())
    ]
    lines.append(
        f"Pages: {steps.get('pages'):,} in use, {steps.get('cached_pages'):,} cached, "
        f"of {steps.get('total_pages'):,}"
    )
    short = ", and the system was short of it" if steps.get("is_short") else ""
    if memory := steps.get("memory"):
        lines.append(f"Memory of the app: {size(memory)}{short}")
    return lines


def _log_lines(log: Path) -> list[str]:
    try:
        found = [_entry_lines(entry) for entry in islice(entries(log, "warning"), MOST_ENTRIES)]
    except OSError as error:
        return [f"it cannot be read: {error.strerror}"]
    return found or ["nothing"]


def _entry_lines(entry: Entry) -> str:
    head = f"{entry.time} {entry.level} {entry.part}: {without_messages(entry.words)}".strip()
    trace = _tail(without_messages(entry.trace), MOST_TRACE)
    return "\n".join([head, *(f"    {line}" for line in trace.splitlines())])


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines).replace("```", "'''")
    return f"## {title}\n```\n{body}\n```"


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[:most]}\n… ({len(words) - most:,} characters more)"


def _tail(words: str, most: int) -> str:
    return words if len(words) <= most else f"… ({len(words) - most:,} characters before)\n{words[-most:]}"
