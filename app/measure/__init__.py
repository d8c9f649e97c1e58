"""Measurements of the window, each a function with a typed result."""
