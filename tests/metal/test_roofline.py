"""The roofline table is what its formula says, and the file in the repository is that table."""

from __future__ import annotations

from pathlib import Path

import pytest

from metal.roofline import BITS, CHIPS, MODELS, markdown, step_bytes, tokens_per_second

FILE = Path(__file__).parents[2] / "metal" / "ROOFLINE.md"
M4, TINYLLAMA = CHIPS[0], MODELS[0]


def test_the_file_is_what_the_program_prints() -> None:
    assert FILE.read_text("utf-8") == markdown(), "run `python -m metal.roofline > metal/ROOFLINE.md`"


@pytest.mark.parametrize(("model", "published"), list(zip(MODELS, (1.100e9, 3.213e9, 8.030e9), strict=True)))
def test_the_weights_read_are_the_published_ones_without_an_untied_embedding(model, published: float) -> None:
    tied = model.name == "Llama-3.2-3B"
    embedding = 0 if tied else model.vocab * model.hidden
    assert model.weights_read + embedding == pytest.approx(published, rel=1e-3)


def test_a_step_reads_weights_and_keys_and_values_once() -> None:
    keys_and_values = step_bytes(TINYLLAMA, 16, 8192) - step_bytes(TINYLLAMA, 16, 0)
    assert keys_and_values == 8192 * 22 * 4 * 64 * 2 * 2
    assert step_bytes(TINYLLAMA, BITS["4-bit"], 0) == TINYLLAMA.weights_read * 4.5 / 8


def test_the_limit_is_bandwidth_over_bytes() -> None:
    assert tokens_per_second(M4, TINYLLAMA, 16, 128) == pytest.approx(57.9, abs=0.1)
