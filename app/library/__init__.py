"""The models on this machine: found where they lie, named, kept in a registry; knows neither Qt nor mlx."""
