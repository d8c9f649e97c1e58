"""Small models of every kind of attention, each with a twin that mlx-lm computes alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine import Generate, Sample
from engine.machine.machine import compute_dtype
from tests.engine.cold import MARGIN
from tests.engine.oracle_process import say
from tests.engine.parity import with_idle_layer
from tests.fakes.random_model import write_random_model

MARGINS: Mapping[int | None, tuple[float, float]] = {None: (MARGIN, 5e-3), 8: (1e-2, 0.3), 4: (0.2, 2.5)}
"""By bits of keys and values: how far logits that change places may be apart, relative to the largest, and
by how much a log-probability may differ. Sums are formed in another order, and a key on the edge between two
codes then takes the other. Weights changed by a ten-millionth alone moved log-probabilities of mlx-lm's own
by up to 0.10 with 8 bits (2,653 prompts, a model with sliding windows) and by 1.8 with 4 (18 of 4,200 by
more than 0.43). Four wrong tokens in a prompt change one of the next ten by 0.9 and more: with 4 bits that
cannot be told from chance, with 8 it can, and pages go the same ways. Logits of mlx-lm's own changed places
with 4 bits that were apart by up to 0.12, 10 of 209,800 by more than 0.03 (the same model, weights changed by
two ten-millionths)."""

HALF = (1e-2, 0.1)
"""The same where a device computes in half precision, as GPUs do: the oracle has float32."""

GUIDE = Path(__file__).parents[2] / "resources/guide/model"

WINDOW = 21
"""Tokens that a layer with a sliding window sees; no multiple of a page."""

_SMALL: Mapping[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 160,
}
_SLIDING, _FULL = "sliding_attention", "full_attention"

KINDS: Mapping[str, tuple[str, Mapping[str, object], Mapping[str, object] | None]] = {
    "llama": ("llama", {}, None),
    "qwen3": ("qwen3", {"head_dim": 8}, None),
    # mlx-lm ignores Mistral's window, so that its Llama with windowed layers is the twin
    "window": (
        "mistral",
        {"sliding_window": WINDOW},
        {"model_type": "llama", "num_hidden_layers": 4, "layer_types": [*[_SLIDING] * 3, _FULL]},
    ),
    "mixed windows": (
        "mistral",
        {"sliding_window": WINDOW, "layer_types": [_SLIDING, _FULL, _SLIDING]},
        {"model_type": "llama"},
    ),
}
"""By name: the family, what its config has, and what the twin's has instead where mlx-lm needs a twin."""


class Oracle:
    """Checks every answer of a model from nothing, with mlx-lm."""

    def __init__(self, folder: Path, bits: int | None = None) -> None:
        """`bits` of keys and values, which mlx-lm quantises too; None as computed."""
        self._folder, self._bits = folder, bits
        config = json.loads((folder / "config.json").read_text())
        is_half = compute_dtype(config.get("torch_dtype")) != mx.float32
        margins = [MARGINS[bits], *([HALF] if is_half else [])]
        self._margin, self._logprob_margin = (max(of) for of in zip(*margins, strict=True))

    def complaint(self, request: Generate, prompt: Sequence[int], sample: Sample) -> str:
        """What is wrong with an answer; "" when nothing is.

        A greedy answer's tokens must each be the likeliest, up to ties. Where log-probabilities were asked
        for, those of any answer must be right: they depend on every key and value that it saw.
        """
        answer = list(sample.tokens)
        if not answer:
            return ""
        said = say(self._folder, self._bits, prompt, answer)
        if request.sampling.temperature == 0:
            gaps = (said.largest - said.given) / said.magnitude
            if gaps.max() > self._margin:
                return f"token {gaps.argmax()} of {len(answer)} is not the likeliest"
        if sample.logprobs is None:
            return ""
        if [entry.id for entry in sample.logprobs] != answer:
            return "log-probabilities are of other tokens"
        errors = abs(said.given - said.mass - np.array([entry.logprob for entry in sample.logprobs]))
        if errors.max() > self._logprob_margin:
            return f"the log-probability of token {errors.argmax()} of {len(answer)} is wrong"
        return ""


@dataclass(frozen=True)
class Checked:
    """A model folder and the oracle of its answers; `window` where every layer has a sliding one."""

    folder: Path
    oracle: Oracle
    window: int | None


def checked_model(root: Path, kind: str, bits: int | None = None, **changes: object) -> Checked:
    """Write a random model of one of KINDS below `root`, with `changes`; "guide" is the built-in model.

    `bits`: of the keys and values that its answers are checked against.
    """
    if kind == "guide":
        return Checked(GUIDE, Oracle(GUIDE), None)
    family, config, twin_config = KINDS[kind]
    folder = write_random_model(root / kind, family, **{**_SMALL, **config, **changes})
    window = WINDOW if kind == "window" else None
    if twin_config is None:
        return Checked(folder, Oracle(folder, bits), window)
    twin = root / f"{kind} twin"
    if "num_hidden_layers" in twin_config:
        with_idle_layer(folder, twin)
    else:
        shutil.copytree(folder, twin)
    written = json.loads((twin / "config.json").read_text())
    (twin / "config.json").write_text(json.dumps({**written, **twin_config}))
    return Checked(folder, Oracle(twin, bits), window)
