"""A server of releases for the windows too."""

from __future__ import annotations

from tests.app.updates.conftest import channel, key, memory, site, trusted

__all__ = ["channel", "key", "memory", "site", "trusted"]
