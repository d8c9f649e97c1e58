"""The licences of all that this MLXR is made of: gathered when the app was built, or now, in a checkout."""

from __future__ import annotations

from pathlib import Path

from app.about.parts import LIST, Part, read_parts

BUNDLED = Path(__file__).resolve().parents[2] / "licences"
"""In the app, beside its modules."""


def licences(bundled: Path = BUNDLED) -> list[Part]:
    """Every part, MLXR first. Takes longer than a frame. Raises AppError where there is none to show."""
    if (bundled / LIST).is_file():
        return read_parts(bundled)
    from app.about.distributions import installed_parts  # the app has neither the metadata nor need of it

    return installed_parts()
