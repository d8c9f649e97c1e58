"""Where the cache on SSD is, and how much it may take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SsdSettings:
    """The cache on SSD.

    Attributes:
        folder: where its files are.
        cap_bytes: most that they may take together.
        floor_bytes: space on the disk that stays free whatever happens.
        check_share: of the prompts that come back, how many are checked by computing a page again, 0 to 1.
    """

    folder: Path
    cap_bytes: int = 16 << 30
    floor_bytes: int = 8 << 30
    check_share: float = 0.02
