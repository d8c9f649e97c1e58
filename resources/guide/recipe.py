"""The guide's shape: the numbers that fix its size, stated once."""

from __future__ import annotations

CONTEXT_LENGTH = 4096
