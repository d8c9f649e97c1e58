"""Drafts are cut to what a step is given."""

import mlx.core as mx
import pytest

from engine.speculation.draft import Draft
from engine.speculation.verify import SampledDraft


@pytest.mark.parametrize("most", range(5))
def test_a_draft_is_cut_to_its_first_tokens(most: int) -> None:
    assert Draft((5, 6, 7), 4).cut(most) == Draft((5, 6, 7)[:most], 4)


@pytest.mark.parametrize("most", range(5))
def test_a_drawn_draft_is_cut_with_its_probabilities(most: int) -> None:
    probabilities = mx.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    cut = SampledDraft((1, 0, 0), 0, probabilities).cut(most)
    assert cut.tokens == (1, 0, 0)[:most]
    assert cut.probabilities.tolist() == [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]][:most]
