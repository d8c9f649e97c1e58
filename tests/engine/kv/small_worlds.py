"""Worlds with pages of four tokens, and prompts for them."""

from __future__ import annotations

from tests.engine.kv.memory_world import Shape, World

SIZE = 4


def world_of(pages: int, window: int | None = None, *, has_tier: bool = False) -> World:
    return World(Shape(pages, SIZE, window, has_tier))


def prompt(length: int, seed: int = 0) -> list[int]:
    """Ids that no other seed's prompt begins with."""
    return [1000 * seed + 7 + index for index in range(length)]
