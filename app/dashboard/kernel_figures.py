"""What runs of kernels, in rows of words, and the report about it; without Qt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from app import VERSION
from app.dashboard.axis import number_words
from app.profile_words import COLUMNS, profile_rows, profile_values, profile_words
from engine import KernelCheck, KernelTable, ModelInfo, Stats, StepProfile, bare_name, launcher

NONE = "–"
_TROUBLES = frozenset({"disagrees", "does not compile", "hangs", "died"})

Row = tuple[str, ...]


def runs_words(info: ModelInfo | None) -> str:
    """What runs attention, where, and why."""
    if info is None:
        return "No model is in memory"
    return f"{info.executor} on {info.device}: {info.executor_reason}"


def launch_words(stats: Stats | None) -> str:
    """Launches for each decoded token."""
    if stats is None or not stats.launches:
        return "Nothing was decoded yet"
    if stats.host_parts_per_token:
        return f"The host computes each token in {number_words(stats.host_parts_per_token)} parts"
    return (
        f"{number_words(stats.own_launches_per_token)} launches of our kernels and "
        f"{number_words(stats.mlx_launches_per_token)} of MLX’s operations for each token"
    )


def launch_rows(stats: Stats | None) -> list[Row]:
    """By name: whose it is, how often it was launched, and for each token; the most frequent first."""
    if stats is None:
        return []
    total = sum(stats.launches.values())
    per_token = stats.own_launches_per_token + stats.mlx_launches_per_token + stats.host_parts_per_token
    return [
        (
            bare_name(name),
            launcher(name),
            f"{count:,}",
            number_words(per_token * count / total),
        )
        for name, count in sorted(stats.launches.items(), key=lambda item: (-item[1], item[0]))
        if count
    ]


def choice_rows(table: KernelTable) -> list[Row]:
    """Each operation: what runs, what it took, how far from the reference it is, and what of the others."""
    rows: list[Row] = []
    for op in table.ops:
        chosen = next(one for one in op.candidates if one.name == op.chosen)
        others = [
            f"{one.name}: {one.reason or one.status}{_took(one.microseconds)}"
            for one in op.candidates
            if one.name != op.chosen
        ]
        took = NONE if chosen.microseconds is None else f"{chosen.microseconds:.1f} µs"
        error = NONE if chosen.error is None else f"{chosen.error:.1e}"
        rows.append((op.key, op.chosen, took, error, "; ".join(others)))
    return rows


def table_words(table: KernelTable) -> str:
    """Where kernels run here and what is known of them, in a sentence or two."""
    machine = table.machine
    if machine.executor is None:
        return f"There are no kernels to choose from on this machine: {machine.reason}"
    said = f"{machine.machine}; MLX {machine.mlx_version}, {machine.executor} ({machine.reason})"
    if not table.ops:
        said += ". Nothing was measured here yet: that is done while nothing is asked of the app"
    troubles = sum(one.status in _TROUBLES for op in table.ops for one in op.candidates)
    if troubles:
        which = "1 kernel does" if troubles == 1 else f"{troubles} kernels do"
        said += f". {which} not work here; MLX’s own operations run instead"
    return said + (f". {table.problem}" if table.problem else "")


def check_words(checks: Sequence[KernelCheck], is_over: bool) -> str:
    """How a check goes: how many agreed, and which did not."""
    failed = [check for check in checks if not check.passed]
    names = ", ".join(sorted({check.op.split()[0] for check in failed}))
    said = f"{len(checks) - len(failed):,} of {len(checks):,} agree with the reference"
    if failed:
        said += f"; wrong: {names}"
    return said if is_over else f"Checking: {said}"


def report(
    info: ModelInfo | None,
    stats: Stats | None,
    table: KernelTable,
    checks: Sequence[KernelCheck],
    profile: StepProfile | None,
) -> dict[str, Any]:
    """All of it as plain values. A model is named, its folder is not: that may tell who somebody is."""
    model = asdict(info) | {"path": info.name} if info else None
    return {
        "mlxr": VERSION,
        "machine": asdict(table.machine),
        "problem": table.problem,
        "model": model,
        "launches": dict(stats.launches) if stats else {},
        "own_launches_per_token": stats.own_launches_per_token if stats else None,
        "mlx_launches_per_token": stats.mlx_launches_per_token if stats else None,
        "host_parts_per_token": stats.host_parts_per_token if stats else None,
        "profile": profile_values(profile) if profile else None,
        "operations": [asdict(op) for op in table.ops],
        "checks": [asdict(check) for check in checks],
    }


def report_json(values: dict[str, Any]) -> str:
    """The report, to be read by programs."""
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def report_markdown(
    info: ModelInfo | None,
    stats: Stats | None,
    table: KernelTable,
    checks: Sequence[KernelCheck],
    profile: StepProfile | None,
) -> str:
    """The report, to be pasted into a bug report."""
    lines = [f"# MLXR {VERSION}: kernels", "", table_words(table), "", f"Runs: {runs_words(info)}"]
    if info is not None:
        lines += [f"Model: {info.name}, {info.family}, {info.dtype}", *info.kernel_notes]
    lines += ["", "## Launches", "", launch_words(stats)]
    lines += _markdown(("Operation", "Whose", "Launches", "For each token"), launch_rows(stats))
    lines += ["", "## A step, part by part", "", profile_words(profile) if profile else "Not measured"]
    lines += _markdown(COLUMNS, profile_rows(profile) if profile else ())
    lines += ["", "## Choices", *_markdown(CHOICE_COLUMNS, choice_rows(table))]
    lines += ["", "## Check", "", check_words(checks, is_over=True) if checks else "Not run"]
    failed = [(check.op, check.candidate, check.reason) for check in checks if not check.passed]
    lines += _markdown(("Operation", "Candidate", "Why"), failed)
    return "\n".join(lines) + "\n"


CHOICE_COLUMNS = ("Operation", "Runs", "Time", "Error", "Others")


def _markdown(columns: Sequence[str], rows: Iterable[Row]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    if not cells:
        return []
    return ["", _line(columns), _line("---" for _ in columns), *(_line(row) for row in cells)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _took(microseconds: float | None) -> str:
    return "" if microseconds is None else f" ({microseconds:.1f} µs)"
