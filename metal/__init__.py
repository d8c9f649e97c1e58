"""Kernels: each a `.metal` body, a typed launcher and a reference twin; nothing here knows of models."""
