"""Models that cannot be used: each is one clear line and exit code 1 in the terminal."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.app.cli.conftest import PATIENCE, Run, command, environment
from tests.fakes.random_model import write_random_model

Damage = Callable[[Path], object]


def edit(model: Path, name: str, **changes: object) -> None:
    """Change fields of a JSON file of the model; None removes one."""
    merged = {**json.loads((model / name).read_text()), **changes}
    (model / name).write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))


def spoil(model: Path) -> None:
    """Weights that are not numbers."""
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"][:] = np.nan
    save_file(tensors, model / "model.safetensors")


ESCAPE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"

DAMAGES: dict[str, tuple[Damage, str]] = {
    "no config": (lambda m: (m / "config.json").unlink(), "config.json"),
    "config is no JSON": (lambda m: (m / "config.json").write_text("{"), "config.json"),
    "config lacks a field": (
        lambda m: edit(m, "config.json", num_attention_heads=None),
        "num_attention_heads",
    ),
    "absurd field": (lambda m: edit(m, "config.json", num_hidden_layers=-3), "num_hidden_layers"),
    "field of a wrong type": (lambda m: edit(m, "config.json", hidden_size="big"), "hidden_size"),
    "sizes do not match": (lambda m: edit(m, "config.json", intermediate_size=100), "gate_proj"),
    "unknown architecture": (lambda m: edit(m, "config.json", model_type="abacus"), "abacus"),
    "no weights": (lambda m: (m / "model.safetensors").unlink(), "safetensors"),
    "truncated weights": (lambda m: os.truncate(m / "model.safetensors", 5000), "model.safetensors"),
    "empty weights": (lambda m: os.truncate(m / "model.safetensors", 0), "model.safetensors"),
    "no tokenizer": (lambda m: (m / "tokenizer.model").unlink(), "tokenizer"),
    "broken tokenizer": (lambda m: (m / "tokenizer.model").write_bytes(b"\x00\xff"), "tokenizer.model"),
    "tokenizer of another model": (lambda m: edit(m, "config.json", vocab_size=40), "embedding rows"),
    "not finite": (spoil, "not finite"),
    "template leaves the sandbox": (
        lambda m: edit(m, "tokenizer_config.json", chat_template=ESCAPE),
        "template",
    ),
    "template is broken": (lambda m: edit(m, "tokenizer_config.json", chat_template="{% for %}"), "template"),
}


@pytest.mark.parametrize(("damage", "says"), DAMAGES.values(), ids=DAMAGES)
def test_a_bad_model_is_one_line(mlxr_here: Run, tmp_path: Path, damage: Damage, says: str) -> None:
    model = write_random_model(tmp_path / "model")
    damage(model)
    done = mlxr_here("generate", "--model", model, "--prompt", "a page", "--max-tokens", 4)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_shard_is_named(mlxr_here: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "model", shards=3)
    (model / "model-00002-of-00003.safetensors").unlink()
    done = mlxr_here("generate", "--model", model, "--prompt", "a page")
    assert done.returncode == 1
    assert "model-00002-of-00003.safetensors" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_prompt_longer_than_the_context_is_one_line(mlxr: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "model", max_position_embeddings=64)
    done = mlxr("generate", "--model", model, "--prompt-file", "-", stdin="a page holds " * 100)
    assert done.returncode == 1
    assert "64" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_data_folder_that_cannot_be_written_does_not_stop_an_answer(
    mlxr: Run, random_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    home = {"MLXR_HOME": str(tmp_path / "file" / "home")}
    done = mlxr("chat", "--model", random_model, "--max-tokens", 5, "a page", env=home)
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line(random_model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("generate", "--model", random_model, "--prompt", "a page", "--max-tokens", 5),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=PATIENCE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"
