"""What is trained is what the engine runs: the recipe's network and chat format give the engine's answers."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from engine import inspect_model
from resources.guide.asking import Guide
from resources.guide.evaluate import MODEL
from resources.guide.network import first_weights, forward, save_network
from resources.guide.recipe import Shape
from resources.guide.tokens import ChatTokens, save_tokenizer, train_tokenizer
from resources.guide.train import quick_answers

QUESTIONS = ["How do I stop an answer?", "where are my files", "Who wrote Hamlet?"]


def test_the_engine_answers_as_the_recipes_network_does() -> None:
    shape = Shape(**json.loads((MODEL / "guide.json").read_text("utf-8"))["shape"])
    loaded = mx.load(str(MODEL / "model.safetensors"))
    weights = tree_map(lambda value: value.astype(mx.float32), loaded)
    tokens = ChatTokens((MODEL / "tokenizer.model").read_bytes())
    expected = quick_answers(weights, shape, tokens, QUESTIONS)
    with Guide(MODEL) as guide:
        assert [guide.ask(question).text for question in QUESTIONS] == expected


def test_later_tokens_do_not_change_earlier_logits() -> None:
    shape = Shape(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=8)
    weights = first_weights(shape, seed=1)
    ids = np.arange(20)[None] % 64
    other = ids.copy()
    other[0, 12:] = 5
    before, after = (np.array(forward(weights, shape, mx.array(x))) for x in (ids, other))
    np.testing.assert_allclose(before[:, :12], after[:, :12], rtol=1e-5, atol=1e-6)
    assert not np.allclose(before[:, 12:], after[:, 12:])


def test_the_same_seed_starts_from_the_same_weights() -> None:
    shape = Shape(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, head_dim=8)
    one, same, other = (first_weights(shape, seed) for seed in (1, 1, 2))
    assert all(mx.array_equal(one[name], same[name]) for name in one)
    assert not mx.array_equal(one["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_saved_network_is_a_llama_the_engine_knows(tmp_path: Path) -> None:
    shape = Shape(vocab_size=280, hidden_size=32, intermediate_size=48, num_hidden_layers=1, head_dim=8)
    weights = first_weights(shape, seed=1)
    save_tokenizer(tmp_path, train_tokenizer(["a cat sat on a mat"] * 50, shape.vocab_size))
    save_network(tmp_path, weights, shape, bos=1, end=6)
    summary = inspect_model(tmp_path)
    assert summary.family == "llama"
    assert summary.parameters == sum(value.size for value in weights.values())
    assert summary.has_chat_template
