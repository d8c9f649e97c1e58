"""What a step computes of sequences: tokens of each, or a chunk of a prompt on its way through the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.cpu.aside import AsideChunk
from engine.kv.page_table import PageTable
from engine.layers.attention import Attend
from engine.pacing.ways import Way


@dataclass(frozen=True, slots=True)
class Part:
    """What a step computes of one sequence.

    Attributes:
        table: its pages; room for the tokens is there already (`KVMemory.grow`).
        tokens: how many it gets.
        rows: of how many of the last of them logits are wanted; 0 inside a prompt.
    """

    table: PageTable
    tokens: int = 1
    rows: int = 1


@dataclass(slots=True, eq=False)
class Filling:
    """A chunk of a prompt on its way through the model.

    Attributes:
        part: what it is, with at most one row of logits; its table is longer when it is through.
        tokens: its ids.
        way: how it goes.
        layer: how many layers it is through.
        x: what came out of the last of these, (tokens, width); None before the first.
        attend: its attention; None before the first layer.
        aside: how far it is in a process of its own; None before it began there.
    """

    part: Part
    tokens: tuple[int, ...]
    way: Way = Way.APART
    layer: int = 0
    x: mx.array | None = None
    attend: Attend[mx.array] | None = None
    aside: AsideChunk | None = None

    @property
    def computed(self) -> int:
        """Layers that are computed of it, where it goes in a process of its own perhaps not in pages yet."""
        return self.layer if self.aside is None else self.aside.computed

    def drop(self) -> None:
        """Nobody goes on with it: what is still computed of its pages is not wanted."""
        self.part.table.is_read = False
        if self.aside is not None:
            self.aside.abandon()


def are_mixed(parts: Sequence[Part]) -> bool:
    """Whether a piece of a prompt comes behind answers' tokens."""
    return len(parts) > 1 and parts[-1].tokens > 1 and all(part.tokens == 1 for part in parts[:-1])


def wanted(parts: Sequence[Part]) -> list[slice]:
    """Of rows, one for each token of the parts, those whose logits are wanted: the last of each part."""
    slices, end = list[slice](), 0
    for part in parts:
        end += part.tokens
        if part.rows:
            slices.append(slice(end - part.rows, end))
    return slices


def wanted_rows(parts: Sequence[Part], rows: mx.array) -> mx.array:
    """Those of `rows` that are `wanted`, of at least one."""
    if all(part.rows == part.tokens for part in parts):
        return rows
    kept = [rows[each] for each in wanted(parts)]
    return kept[0] if len(kept) == 1 else mx.concatenate(kept)
