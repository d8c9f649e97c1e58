"""The file that remembers verdicts on kernels, shared by processes and surviving crashes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from metal.trial_record import OpRecord, from_json
from metal.trial_scope import Scope

FORMAT = 1
_MOST_SCOPES = 8  # a machine has one or two; those of MLX versions long gone go


class TrialCache:
    """Verdicts of one scope in `folder`/kernels.json.

    A file that is damaged or of another format is ignored, and replaced by the next write.
    """

    def __init__(self, folder: Path, scope: Scope) -> None:
        self.path = folder / "kernels.json"
        self._scope = asdict(scope)

    def read(self) -> dict[str, OpRecord]:
        """The records by key; empty where there are none."""
        for scope, records in self._read_all():
            if scope == self._scope:
                return {record.key: record for record in records}
        return {}

    def update(self, change: Callable[[dict[str, OpRecord]], None]) -> dict[str, OpRecord]:
        """Applies `change` to the records as they are now in the file; on the disk when this returns.

        Raises:
            OSError: the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.with_suffix(".lock"), wait=True):
            others = [(scope, records) for scope, records in self._read_all() if scope != self._scope]
            records = self.read()
            change(records)
            self._write([*others[-_MOST_SCOPES + 1 :], (self._scope, list(records.values()))])
        return records

    @contextmanager
    def trial(self) -> Generator[bool]:
        """Held while kernels are tried, by one process at a time; yields whether this is the one.

        The system frees it when a process ends in whatever way: who holds it and finds "trying" in the file
        knows that the process which wrote that is gone.

        Raises:
            OSError: the folder cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.with_suffix(".trial"), wait=False) as is_held:
            yield is_held

    def _read_all(self) -> list[tuple[Mapping[str, Any], list[OpRecord]]]:
        try:
            content = json.loads(self.path.read_text("utf-8"))
            if content["format"] != FORMAT:
                return []
            return [
                (cast("Mapping[str, Any]", dict(entry["scope"])), [from_json(op) for op in entry["ops"]])
                for entry in content["scopes"]
            ]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return []

    def _write(self, scopes: list[tuple[Mapping[str, Any], list[OpRecord]]]) -> None:
        entries = [{"scope": scope, "ops": [record.as_json() for record in ops]} for scope, ops in scopes]
        temporary = self.path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "scopes": entries}, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)


@contextmanager
def _locked(path: Path, *, wait: bool) -> Generator[bool]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
