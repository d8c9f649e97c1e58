"""A model that cannot be loaded leaves all that are loaded as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import LoadModel
from tests.engine.residents.two_models import CONTEXT_PAGES, ask, pages_of, unloaded
from tests.fakes.listener import Listener
from tests.fakes.random_model import write_random_model


def test_a_load_that_fails_changes_nothing_for_the_others(
    listener: Listener, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first = models[0]
    listener.load(first, "first")
    broken = write_random_model(tmp_path / "broken", seed=4)
    tensors = broken / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    listener.submit(LoadModel("broken", str(broken)))
    assert "broken" in listener.failed("broken").error
    tensors.unlink()
    listener.submit(LoadModel("gone", str(broken)))
    listener.failed("gone")
    assert not unloaded(listener.events)
    listener.submit(ask("a", None))
    assert listener.finished("a").tokens
    assert pages_of(listener, first) == 2 * CONTEXT_PAGES


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"context": 0}, "context is 0"),
        ({"kv_bits": 3}, "kv_bits is 3"),
        ({"kv_bits": 8}, "its heads have 8 elements"),
    ],
)
def test_settings_that_make_no_sense_unload_nothing(
    wrong: dict[str, int], error: str, listener: Listener, models: tuple[Path, Path, Path]
) -> None:
    listener.load(models[0], "first")
    listener.submit(LoadModel("again", str(models[0]), **wrong))
    assert error in listener.failed("again").error
    assert not unloaded(listener.events)
    listener.submit(ask("a", models[0]))
    assert listener.finished("a").tokens


def test_one_whose_files_are_damaged_by_now_stays_as_it_is(listener: Listener, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "m", max_position_embeddings=512)
    listener.load(model, "first")
    (model / "tokenizer.model").unlink()
    listener.submit(LoadModel("again", str(model)))
    assert "tokenizer" in listener.failed("again").error
    assert not unloaded(listener.events)
    listener.submit(ask("a", model))
    assert listener.finished("a").tokens
