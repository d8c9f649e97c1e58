"""What the engine is told of this account's settings and folders."""

from __future__ import annotations

from app.paths import Paths
from app.settings import Settings
from engine import EngineSettings, SsdSettings


def engine_settings(paths: Paths, settings: Settings) -> EngineSettings:
    """For the window and for the terminal alike: they share what is measured and what is cached."""
    return EngineSettings(
        cache=paths.kernels,
        ssd=SsdSettings(paths.kv_cache) if settings.ssd_cache == "on" else None,
        kv_bits=None if settings.kv_cache == "full" else int(settings.kv_cache),
    )
