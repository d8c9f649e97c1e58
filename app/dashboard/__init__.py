"""The dashboard: what the engine does, as it tells it."""
