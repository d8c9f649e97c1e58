"""How words are drawn when nobody says otherwise: the same in the window and in the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.library.records import NOTHING_SET, ModelSettings
from app.model_location import GUIDE
from engine import SamplingParams

CHAT_SAMPLING = SamplingParams(temperature=0.7, top_p=0.95)
GUIDE_SAMPLING = SamplingParams()
"""The guide states facts: it always says the likeliest word."""


def chat_sampling(model: Path, answers: int = 1, own: ModelSettings = NOTHING_SET) -> SamplingParams:
    """Sampling for a chat with the model at `model`; several answers must be able to differ.

    `own`: what is set for this model, and comes first.
    """
    usual = GUIDE_SAMPLING if answers == 1 and model.resolve() == GUIDE else CHAT_SAMPLING
    return replace(usual, **own.sampling())
