"""What the engine is told of this account's settings and folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.library.records import ModelSettings
from app.model_location import model_title
from app.paths import Paths
from app.settings import KvCache, KvMemory, Settings, SettingsFile, SsdCap, UnloadAfter
from engine import AS_SET, EngineSettings, LoadModel, SsdSettings, clear_cache

GB = 10**9


def engine_settings(paths: Paths, settings: Settings) -> EngineSettings:
    """For the window and for the terminal alike: they share what is measured and what is cached.

    With the disk cache off, what an earlier run left is deleted: no deleted chat would be forgotten there.
    """
    if settings.ssd_cache == "off":
        clear_cache(paths.kv_cache)
    return told_at_start(paths, settings)


def told_at_start(paths: Paths, settings: Settings) -> EngineSettings:
    """What an engine is told once: settings that differ in it hold with the next start."""
    return EngineSettings(
        cache=paths.kernels,
        ssd=_ssd(paths.kv_cache, settings.ssd_cap) if settings.ssd_cache == "on" else None,
        kv_bits=kv_bits(settings.kv_cache),
        kv_bytes=_bytes(settings.kv_memory),
        speculation=settings.speculation == "on",
    )


def fit_settings(paths: Paths) -> EngineSettings:
    """What of the settings that are kept says whether a model fits, for the engine's `model_fit`."""
    settings = SettingsFile(paths.settings).load().settings
    return EngineSettings(kv_bits=kv_bits(settings.kv_cache), kv_bytes=_bytes(settings.kv_memory))


def window_settings(paths: Paths, settings: Settings) -> EngineSettings:
    """For the window: it stays open for days, so that a model nobody uses leaves memory."""
    return replace(engine_settings(paths, settings), unload_after=unload_seconds(settings.unload_after))


def unload_seconds(choice: UnloadAfter) -> float | None:
    """Seconds without a request until a model leaves memory; None: it stays."""
    return None if choice == "off" else 60.0 * int(choice)


def kv_bits(choice: KvCache) -> int | None:
    """Bits of an element of the KV cache; None: as computed."""
    return None if choice == "full" else int(choice)


def _ssd(folder: Path, cap: SsdCap) -> SsdSettings:
    cap_bytes = _bytes(cap)
    return SsdSettings(folder) if cap_bytes is None else SsdSettings(folder, cap_bytes)


def _bytes(choice: SsdCap | KvMemory) -> int | None:
    """Bytes of a choice in GB; None: automatic."""
    return None if choice == "automatic" else int(choice) * GB


def load_command(request: str, path: Path, own: ModelSettings, draft: Path | None = None) -> LoadModel:
    """How to load the model at `path`, with what is set for it alone; the one at `draft` guesses for it."""
    bits = AS_SET
    if own.kv_cache is not None:
        bits = kv_bits(own.kv_cache)
    guesses, called = ("", "") if draft is None else (str(draft), model_title(draft))
    return LoadModel(request, str(path), own.context, bits, guesses, model_title(path), called)
