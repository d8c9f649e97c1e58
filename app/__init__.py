"""MLXR's application: the window, the command line and what they keep on disk."""

VERSION = "0.1.0"
