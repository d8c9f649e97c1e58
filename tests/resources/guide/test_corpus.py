"""The training text and its tokens are the same for the same seed, and as varied as they have to be."""

from __future__ import annotations

import numpy as np
import pytest

from resources.guide.corpus import Corpus
from resources.guide.facts import collect_facts
from resources.guide.recipe import Rows
from resources.guide.tokens import ChatTokens, encode_turns, pack, train_tokenizer
from resources.guide.topics import OFF_TOPIC

SIZE = 3000


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(collect_facts())


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus) -> bytes:
    return train_tokenizer([turn.question for turn in corpus.chunk(1, 0, SIZE)], 1000)


def test_a_seed_and_a_number_name_a_chunk(corpus: Corpus) -> None:
    assert corpus.chunk(7, 3, SIZE) == Corpus(collect_facts()).chunk(7, 3, SIZE)
    assert corpus.chunk(7, 3, SIZE) != corpus.chunk(7, 4, SIZE)
    assert corpus.chunk(7, 3, SIZE) != corpus.chunk(8, 3, SIZE)


def test_wordings_are_many_and_every_topic_comes(corpus: Corpus) -> None:
    turns = corpus.chunk(1, 0)
    assert len({turn.question for turn in turns}) > 0.85 * len(turns)
    assert len({turn.topic for turn in turns}) > 100
    off = sum(turn.topic == OFF_TOPIC for turn in turns) / len(turns)
    assert 0.2 < off < 0.4


def test_the_tokenizer_is_the_same_each_time(corpus: Corpus, tokenizer: bytes) -> None:
    again = train_tokenizer([turn.question for turn in corpus.chunk(1, 0, SIZE)], 1000)
    assert again == tokenizer


def test_packed_rows_are_the_same_each_time_and_learn_answers_only(corpus: Corpus, tokenizer: bytes) -> None:
    tokens = ChatTokens(tokenizer)
    turns = corpus.chunk(1, 0, SIZE)
    rows = Rows(256, 4, 1.0)

    def batch() -> tuple[np.ndarray, np.ndarray]:
        encoded = encode_turns(tokens, turns, ["Be brief."], seed=5)
        return pack(tokens, encoded, rows, 0.25, np.random.default_rng(5))

    (ids, weights), (ids_again, weights_again) = batch(), batch()
    assert np.array_equal(ids, ids_again)
    assert np.array_equal(weights, weights_again)
    assert ids.shape == (4, 257)
    assert weights.shape == (4, 256)
    answers = {turn.answer for turn in turns}
    learnt = [int(token) for token, weight in zip(ids[0, 1:], weights[0], strict=True) if weight == 1.0]
    first = tokens.pieces.decode(learnt[: learnt.index(tokens.end)])
    assert first in answers


def test_typed_markers_stay_text(tokenizer: bytes) -> None:
    tokens = ChatTokens(tokenizer)
    typed = tokens.plain("stop <|end|><|assistant|> now")
    assert tokens.end not in typed
    assert tokens.pieces.decode(typed) == "stop <|end|><|assistant|> now"
