"""Results of benchmarks: a JSON file each in one folder, read with care: any version may have written it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from app.dashboard.bench_plans import KINDS, LENGTHS, Kind, Length
from app.errors import AppError

VERSION = 1
"""Of the files; a newer one is left alone."""
LARGEST = 1 << 22
"""Bytes of a file that is read: a result takes some ten thousand."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One quantity: its median, lowest and highest sample, and how many there were.

    Attributes:
        unit: as in `mlxr bench --json`.
        sense: "at least" or "at most" a target, or "" without one.
    """

    group: str
    what: str
    unit: str
    median: float
    low: float
    high: float
    samples: int
    sense: str


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What one benchmark measured.

    Attributes:
        name: its file's.
        date: when it began, ISO 8601 with the time zone.
        seconds: how long it took.
        is_disturbed: a model was in use in the window meanwhile.
        model: folder or GGUF file.
        machine: what must be the same for two results to be compared.
        versions: by name: mlxr, mlx, python.
        executor: what ran: "metal", "cuda" or "reference".
    """

    name: str
    kind: Kind
    length: Length
    date: str
    seconds: float
    is_disturbed: bool
    model: str
    machine: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    executor: str
    rows: tuple[Measured, ...]

    @property
    def at(self) -> float:
        """When it began, seconds since 1970."""
        return datetime.fromisoformat(self.date).timestamp()

    def is_like(self, other: BenchResult) -> bool:
        """Whether both measured the same: plan, model and machine."""
        return self._subject == other._subject

    @property
    def _subject(self) -> tuple[object, ...]:
        return self.kind, self.length, self.model, self.machine


@dataclass(frozen=True, slots=True)
class Kept:
    """What the folder holds: `results`, the newest first, and names of files that are damaged or newer."""

    results: tuple[BenchResult, ...] = ()
    damaged: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


def keep(
    folder: Path,
    kind: Kind,
    length: Length,
    model: str,
    seconds: float,
    is_disturbed: bool,
    report: dict[str, Any],
) -> BenchResult:
    """Write a result: `report` is what `mlxr bench --json` said. Raises AppError."""
    values = {
        "version": VERSION,
        "kind": kind,
        "length": length,
        "model": model,
        "seconds": seconds,
        "disturbed": is_disturbed,
        "report": report,
    }
    name = f"{''.join(c for c in str(report.get('date')) if c.isalnum())}-{kind}-{length}.json"
    try:
        result = _result(name, values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AppError(f"the benchmark's report makes no sense ({error!r}); see `mlxr bench`") from None
    path, whole = folder / name, folder / f".{name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole.write_text(json.dumps(values, indent=1), "utf-8")
        whole.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            whole.unlink()
        raise AppError(f"{path} cannot be written ({error.strerror}); make room on its disk") from None
    return result


def read_kept(folder: Path) -> Kept:
    """All results in the folder; none where it is not there. Raises AppError where it cannot be read."""
    results: list[BenchResult] = []
    damaged: list[str] = []
    newer: list[str] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        raise AppError(f"{folder} cannot be read ({error.strerror}); check its permissions") from None
    for path in paths:
        try:
            values = _values(path)
            if values["version"] > VERSION:
                newer.append(path.name)
            else:
                results.append(_result(path.name, values))
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            damaged.append(path.name)
    results.sort(key=lambda result: result.at, reverse=True)
    return Kept(tuple(results), tuple(damaged), tuple(newer))


def delete(folder: Path, name: str) -> None:
    """Delete one result; it may be gone already. Raises AppError."""
    path = folder / name
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise AppError(f"{path} cannot be deleted ({error.strerror}); check its permissions") from None


def _values(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"more than {LARGEST} bytes")
    return json.loads(data.decode("utf-8"))


def _result(name: str, values: dict[str, Any]) -> BenchResult:
    report, kind, length = values["report"], values["kind"], values["length"]
    if kind not in KINDS or length not in LENGTHS:
        raise ValueError(f"no plan is called {kind}, {length}")
    datetime.fromisoformat(report["date"])
    machine = report["machine"]
    names = ("device_name", "architecture")
    return BenchResult(
        name=name,
        kind=cast("Kind", kind),
        length=cast("Length", length),
        date=str(report["date"]),
        seconds=float(values["seconds"]),
        is_disturbed=bool(values["disturbed"]),
        model=str(values["model"]),
        machine=(*(str(machine[key] or "") for key in names), f"{machine['memory_bytes'] / 1e9:.0f} GB"),
        versions=tuple((str(of), str(number)) for of, number in report["versions"].items() if number),
        executor=str(report["executor"]),
        rows=tuple(map(_measured, report["rows"])),
    )


def _measured(row: dict[str, Any]) -> Measured:
    median, low, high = (float(row[key]) for key in ("median", "low", "high"))
    if not low <= median <= high or abs(low) == float("inf") or abs(high) == float("inf"):
        raise ValueError(f"{row['what']}: {low}, {median}, {high}")
    sense = str((row["target"] or {}).get("sense", ""))
    return Measured(
        str(row["group"]), str(row["what"]), str(row["unit"]), median, low, high, len(row["samples"]), sense
    )
