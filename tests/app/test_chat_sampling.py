"""How words are drawn by default."""

from __future__ import annotations

from pathlib import Path

from app.chat_sampling import chat_sampling
from app.model_location import GUIDE


def test_the_guide_is_greedy_and_others_are_not(tmp_path: Path) -> None:
    assert chat_sampling(GUIDE).temperature == 0
    assert chat_sampling(tmp_path).temperature > 0
