"""What both ends of the local socket must agree on."""

from __future__ import annotations

PROTOCOL = 1
"""Changes when a program of another version would misread the lines."""

LIVE = {"ask": "live"}
"""Asks for the live figures: what there is, then what changes, until the asker leaves."""
