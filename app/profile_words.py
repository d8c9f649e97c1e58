"""A profile of a decode step in rows of words, for the dashboard, the terminal and reports; without Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine import StepProfile, bare_name, launcher, launches_of

COLUMNS = ("Part", "Runs", "Launches", "Alone", "In a step", "Share")
ESTIMATE = "estimate: each alone, synchronised; together they overlap"
NONE = "–"
UNSEEN = ("too short", NONE, NONE)
"""The times of a part that is over sooner than waiting for nothing is."""

Row = tuple[str, ...]


def profile_rows(profile: StepProfile) -> list[Row]:
    """Its parts, their sum, what is left, and the step itself, under COLUMNS."""
    rows: list[Row] = [
        (
            f"{part.name} {part.form}",
            runs_words(part.launches),
            f"{sum(part.launches.values())}",
            *((_time(part.alone), *_of_step(profile, part.seconds)) if part.alone else UNSEEN),
        )
        for part in profile.parts
    ]
    if between := profile.between:
        rows.append(("between them", runs_words(between), f"{sum(between.values())}", NONE, NONE, NONE))
    launches = f"{sum(profile.launches.values())}"
    rows.append(("all parts", "", "", "", *_of_step(profile, profile.step - profile.left)))
    left = "left over: host, waiting" if profile.left >= 0 else "less where they overlap"
    rows.append((left, "", "", "", *_of_step(profile, profile.left)))
    rows.append(("the step, measured whole", "", launches, "", *_of_step(profile, profile.step)))
    return rows


def profile_words(profile: StepProfile) -> str:
    """What was measured, and how, in a few sentences."""
    said = (
        f"One token behind {profile.tokens} in pages takes {_time(profile.step)}, the median of "
        f"{profile.rounds} rounds with nothing else in flight"
    )
    if profile.building is not None:
        said += f"; the host builds the step in {_time(profile.building)} of that"
    said += f". The parts are an {ESTIMATE}."
    if profile.empty:
        said += f" Waiting for nothing takes {_time(profile.empty)}, which is taken off each."
    said += " Between two calls of a part the rest of the step runs: caches are as in a step."
    if all(part.alone for part in profile.parts):
        return said
    return f"{said} A part that is over in less than that is too short to tell; it is in what is left over."


def runs_words(launches: Mapping[str, int]) -> str:
    """What is launched: our kernels by name, then MLX's own operations; of what the host computes, that."""
    ours = [name for name in launches if launcher(name) == "ours"]
    theirs = [bare_name(name) for name in launches if launcher(name) == "MLX"]
    words = [", ".join(ours)] if ours else []
    words += ["the host"] if launches_of("host", launches) else []
    return "; ".join([*words, f"MLX: {', '.join(theirs)}"] if theirs else words)


def profile_values(profile: StepProfile) -> dict[str, Any]:
    """All of it as plain values, times in seconds. The model's folder is left out: it may tell who one is."""
    values = asdict(profile)
    del values["model"]
    for part, known in zip(values["parts"], profile.parts, strict=True):
        part["seconds"], part["share"] = known.seconds, known.seconds / profile.step
    return values | {"left": profile.left, "note": ESTIMATE}


def _of_step(profile: StepProfile, seconds: float) -> tuple[str, str]:
    """A time, and its share of the step."""
    percent = 100 * seconds / profile.step
    return _time(seconds), f"{percent:.0f} %" if abs(percent) >= 10 else f"{percent:.1f} %"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if abs(seconds) < 1e-3 else f"{1e3 * seconds:.2f} ms"
