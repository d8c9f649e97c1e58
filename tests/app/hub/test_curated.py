"""The list that works offline: complete, consistent, and of models that run here."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import get_type_hints

import pytest

from app.hub.choice import RepoFacts, RepoFile
from app.hub.choices import repo_choices
from app.hub.curated import LIST, Curated, curated_models
from app.hub.fit import fit_by_size
from app.hub.quantizations import quantization_in
from app.hub.repo_id import parse_repo
from engine import FAMILIES, GGUF_FAMILIES

MODELS = curated_models()


def test_every_entry_has_every_field_and_nothing_else() -> None:
    raw = json.loads(LIST.read_text(encoding="utf-8"))
    assert set(raw) == {"checked", "models"}
    assert date.fromisoformat(raw["checked"])
    kinds = get_type_hints(Curated)
    for entry in raw["models"]:
        assert {name: type(value) for name, value in entry.items()} == kinds


def test_the_list_is_short_sorted_and_without_twins() -> None:
    assert 10 <= len(MODELS) <= 16
    assert [one.bytes for one in MODELS] == sorted(one.bytes for one in MODELS)
    assert len({one.repo for one in MODELS}) == len({one.name for one in MODELS}) == len(MODELS)
    assert {one.family for one in MODELS} == set(FAMILIES)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_listed_model_runs_here_and_its_numbers_agree(model: Curated) -> None:
    assert parse_repo(model.repo) == (model.repo, None)
    assert model.family in (GGUF_FAMILIES if model.format == "gguf" else FAMILIES)
    assert re.fullmatch(r"[a-z][a-z0-9.-]+", model.licence)
    assert model.good_for.endswith(".")
    assert len(model.good_for) <= 110
    bits = 8 * model.bytes / model.parameters
    if model.format == "gguf":
        named = quantization_in(f"m-{model.choice}.gguf")
        assert named is not None
        assert bits == pytest.approx(named[1].bits, rel=0.15)
        files = [RepoFile(f"m-{model.choice}.gguf", model.bytes)]
    else:
        assert model.choice == "4bit"
        assert bits == pytest.approx(4.5, rel=0.1)
        files = [
            RepoFile(name, model.bytes) for name in ("model.safetensors", "config.json", "tokenizer.json")
        ]
    (choice,) = repo_choices(files, RepoFacts(model.repo)).choices
    assert choice.key == model.choice
    assert not choice.unsupported
    assert fit_by_size(choice, 64 * 10**9).verdict == "fits"
