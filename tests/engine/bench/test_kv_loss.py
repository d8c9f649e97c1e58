"""The loss of a quantised KV cache against mlx-lm with and without one, and numpy."""

from __future__ import annotations

import random
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine import EngineError, InvalidRequest, Message, NonFiniteLogits, measure_kv_loss
from engine.bench.kv_loss import CHUNK, loss_of
from engine.kv.page_table import PageTable
from engine.loading.model import LoadedModel, load_model
from engine.machine.machine import compute_dtype
from engine.runner import Runner
from engine.settings import EngineSettings
from tests.engine.kv.quantised_peer import QuantisedPeer
from tests.fakes.random_model import write_random_model

QUESTIONS = ("What is MLXR?", "How do I delete a chat?", "What is a token?", "Where are my chats kept?")
GUIDE = Path(__file__).resolve().parents[3] / "resources" / "guide" / "model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with heads of 32 and a context of 400 tokens."""
    return write_random_model(
        tmp_path_factory.mktemp("models") / "wide",
        hidden_size=128,
        num_attention_heads=4,
        max_position_embeddings=400,
    )


def loaded(folder: Path) -> LoadedModel:
    return load_model(folder, EngineSettings(executor="reference"), lambda done, total: None)


def answer_to(model: LoadedModel, question: str) -> str:
    """What the model says, greedily."""
    runner, table, answer = Runner(model), PageTable(), list[int]()
    step = list(model.tokenizer.encode_chat([Message("user", question)]))
    while len(answer) < 60 and (not answer or answer[-1] not in model.tokenizer.eos_ids):
        step = [int(mx.argmax(runner.next_logits(table, step)).item())]
        answer += step
    model.memory.free(table)
    return model.tokenizer.decode(answer).strip()


def log_probabilities(peer: QuantisedPeer, texts: list[list[int]]) -> np.ndarray:
    logits = np.concatenate([np.array(peer.logits(text)) for text in texts]).astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("bits", [8, 4])
def test_the_figures_are_those_of_mlx_lm(folder: Path, bits: int) -> None:
    rng = random.Random(2)
    texts = [[rng.randrange(3, 300) for _ in range(length)] for length in (2 * CHUNK + 3, 1, 60)]
    compare(folder, bits, 32, texts)


@pytest.mark.skipif(
    compute_dtype("float16") != mx.float32, reason="the oracle has float32, and this device does not"
)
def test_the_guide_s_figures_are_those_of_mlx_lm() -> None:
    tokenizer = loaded(GUIDE).tokenizer
    chat = tokenizer.encode_chat([Message("user", "What is MLXR?"), Message("assistant", "A chat app.")])
    compare(GUIDE, 4, 64, [chat, tokenizer.encode("Where are my chats kept? " * 30)])


def compare(folder: Path, bits: int, group: int, texts: list[list[int]]) -> None:
    before = log_probabilities(QuantisedPeer(folder, None, group), texts)
    after = log_probabilities(QuantisedPeer(folder, bits, group), texts)
    best = before.argmax(axis=-1)
    changes = np.abs(after - before)[np.arange(len(best)), best]
    loss = loss_of(loaded(folder), bits, texts)
    assert (loss.bits, loss.positions) == (bits, sum(map(len, texts)))
    assert loss.agreement == pytest.approx((after.argmax(axis=-1) == best).mean(), abs=0.01)
    assert loss.mean_change == pytest.approx(changes.mean(), rel=0.01)
    assert loss.largest_change == pytest.approx(changes.max(), rel=0.1)
    # To within less than the divergence the other way round would be off.
    assert loss.divergence == pytest.approx((np.exp(before) * (before - after)).sum(-1).mean(), rel=0.01)


def test_the_guide_loses_next_to_nothing_at_8_bits_and_something_at_4() -> None:
    """On what it says itself: of other words it is sure of none, and a near tie turns."""
    model = loaded(GUIDE)
    chats = [[Message("user", asked), Message("assistant", answer_to(model, asked))] for asked in QUESTIONS]
    eight, four = (measure_kv_loss(GUIDE, bits, chats) for bits in (8, 4))
    assert eight.positions == four.positions > 100
    assert eight.agreement >= 0.97
    assert eight.mean_change < 0.002 < 0.2 < 100 * four.mean_change
    assert 0 < eight.divergence < four.divergence / 10


def test_all_pages_are_given_back_and_the_model_stays_as_it_is(folder: Path) -> None:
    model = loaded(folder)
    first = loss_of(model, 8, [[7] * 50])
    assert model.pager.pages_used == 0
    assert model.arena.page_bytes == model.info.page_bytes
    assert loss_of(model, 8, [[7] * 50]) == first


def test_a_text_longer_than_the_context_is_cut(folder: Path) -> None:
    assert measure_kv_loss(folder, 8, ["page " * 1000]).positions == 400


@pytest.mark.parametrize("sequences", [[], [[], []]])
def test_nothing_to_measure_on_is_a_mistake(folder: Path, sequences: list[list[int]]) -> None:
    with pytest.raises(InvalidRequest, match="no token to measure on"):
        loss_of(loaded(folder), 8, sequences)


def test_heads_that_cannot_be_quantised_are_refused(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    with pytest.raises(EngineError, match="heads have 8 elements"):
        measure_kv_loss(folder, 8, ["a page"])


def test_a_model_that_gives_nan_is_named(folder: Path) -> None:
    model = loaded(folder)
    logits = model.decoder.logits
    model.decoder.logits = lambda *args: logits(*args) * mx.nan  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(NonFiniteLogits, match="wide"):
        loss_of(model, 8, [[5, 6]])
