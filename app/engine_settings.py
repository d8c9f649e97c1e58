"""What the engine is told of this account's settings and folders."""

from __future__ import annotations

import shutil

from app.paths import Paths
from app.settings import Settings
from engine import EngineSettings, SsdSettings


def engine_settings(paths: Paths, settings: Settings) -> EngineSettings:
    """For the window and for the terminal alike: they share what is measured and what is cached.

    With the disk cache off, what an earlier run left is deleted: no deleted chat would be forgotten there.
    """
    if settings.ssd_cache == "off":
        shutil.rmtree(paths.kv_cache, ignore_errors=True)
    return EngineSettings(
        cache=paths.kernels,
        ssd=SsdSettings(paths.kv_cache) if settings.ssd_cache == "on" else None,
        kv_bits=None if settings.kv_cache == "full" else int(settings.kv_cache),
    )
