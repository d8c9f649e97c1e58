"""The models in memory: loading, making room, taking turns."""
