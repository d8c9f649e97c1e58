"""The guide's model, a text that repeats, ways to sample, and a draft model that knows nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from engine import EngineSettings, Finished, Generate, SamplingParams, Stats
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"
TEXT = "A page holds sixteen tokens, and a chat holds as many pages as it needs. " * 4
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0),
    "warm": SamplingParams(temperature=0.7, top_p=0.9, seed=5),
    "penalties": SamplingParams(temperature=0, frequency_penalty=0.05, repetition_penalty=1.01),
    "warm penalties": SamplingParams(temperature=0.4, presence_penalty=0.1, seed=7),
}


def answered(settings: EngineSettings, draft: object = "", **asked: object) -> tuple[Finished, Stats]:
    """How the guide's model answers what is asked, with `draft` guessing, and what is told behind it."""
    with running_engine(settings) as listener:
        listener.load(GUIDE, draft=draft)
        listener.submit(Generate("a", **asked))  # type: ignore[arg-type]
        end = listener.finished("a")
        stats = listener.wait(lambda event: isinstance(event, Stats) and not event.active_id)
        assert isinstance(stats, Stats)
        return end, stats


def wrong_draft(folder: Path) -> Path:
    """A model of the guide's vocabulary that knows nothing."""
    config = json.loads((GUIDE / "config.json").read_text())
    fields = ("vocab_size", "bos_token_id", "eos_token_id")
    other = write_random_model(
        folder, max_position_embeddings=4096, **{name: config[name] for name in fields}
    )
    for file in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copy(GUIDE / file, other / file)
    return other
