"""What `mlxr bench` measured, with all that is needed to judge it or do it again: as JSON and for people."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app import VERSION
from app.amounts import counted
from app.cli.cache_speed_scene import CachePlan
from app.cli.rows import Row, table
from app.cli.speed import Plan
from app.cli.targets import Subject
from engine import MachineReport, ModelInfo


@dataclass(frozen=True, slots=True)
class Report:
    """Rows, and what they are of.

    Attributes:
        shape: the shape's name, or None for a model that was there.
        peer_version: mlx-lm's, or None without it.
        began: when, with the time zone.
    """

    model: ModelInfo
    shape: str | None
    subject: Subject
    machine: MachineReport
    peer_version: str | None
    plan: Plan | CachePlan
    began: datetime
    rows: list[Row]

    def as_json(self) -> dict[str, Any]:
        """Plain values; the rows hold every sample."""
        return {
            "model": self.model.path if self.shape is None else None,
            "shape": self.shape,
            "quant": self.subject.quant if self.shape else None,
            "dtype": self.model.dtype,
            "device": self.model.device,
            "executor": self.model.executor,
            "executor_reason": self.model.executor_reason,
            "machine": {
                "device_name": self.machine.device_name,
                "memory_bytes": self.machine.memory_bytes,
                "system": platform.platform(),
                "architecture": platform.machine(),
            },
            "versions": {
                "mlxr": VERSION,
                "mlx": self.machine.mlx_version,
                "mlx-lm": self.peer_version,
                "python": platform.python_version(),
            },
            "peer": self._peer,
            "date": self.began.isoformat(timespec="seconds"),
            "command": shlex.join(["mlxr", *sys.argv[1:]]),
            "pairs": self.plan.pairs,
            "decoded": self.plan.decoded,
            "rows": [row.as_json() for row in self.rows],
        }

    def lines(self) -> Iterator[str]:
        """What was measured in a line, then the table."""
        against = f", beside {self._peer}" if self._peer else ""
        chip = f" ({self.machine.device_name})" if self.machine.device_name else ""
        yield (
            f"{self.model.name} on {self.model.device}{chip} in {self.model.dtype}{against}; "
            f"{counted(self.plan.pairs, 'pair')}, median (lowest–highest)"
        )
        yield from table(self.rows)

    @property
    def _peer(self) -> str | None:
        return f"mlx-lm {self.peer_version}" if self.peer_version else None
