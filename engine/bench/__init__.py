"""Measurements: shapes with random weights, mlx-lm beside the engine, a step part by part."""
