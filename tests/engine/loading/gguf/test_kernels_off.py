"""A model whose kernels for blocks failed on this machine answers all the same, and says what is slow."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import EngineSettings
from engine.loading.model import LoadedModel, load_model
from metal.trial_cache import TrialCache
from metal.trial_record import OpRecord
from metal.trial_scope import this_scope
from tests.engine.loading.gguf.writer import WIDE, q4_k_m, write_gguf_model
from tests.engine.parity import our_greedy, prompt


def _load(file: Path, executor: str, cache: Path) -> LoadedModel:
    return load_model(file, EngineSettings(executor=executor, cache=cache), lambda done, total: None)


def _failed(record: OpRecord) -> OpRecord:
    builtin, *ours = record.candidates
    lost = [replace(one, status="disagrees", reason="its results are wrong here") for one in ours]
    return replace(record, chosen=builtin.name, candidates=(builtin, *lost))


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="needs the emulated executor"
)
def test_blocks_stay_and_products_go_on_without_their_kernels(tmp_path: Path) -> None:
    file, cache = tmp_path / "model.gguf", tmp_path / "cache"
    shape: dict[str, Any] = {**WIDE, "num_hidden_layers": 1}
    write_gguf_model(file, types=q4_k_m, **shape)
    tokens = prompt()[:20]
    first = _load(file, "emulated", cache)
    assert first.kernels is not None
    answer = our_greedy(first, tokens, 16, count=2)
    assert first.kernels.launches["matvec_blocks"]
    table = first.kernels.choice.selection.table()
    lost = {record.key: _failed(record) for record in table if "_K" in record.key}
    TrialCache(cache, this_scope("emulated")).update(lambda records: records.update(lost))
    model = _load(file, "emulated", cache)
    assert model.kernels is not None
    assert {note.partition(" runs on MLX's own")[0] for note in model.info.kernel_notes} == set(lost)
    assert our_greedy(model, tokens, 16, count=2) == answer
    assert not any("blocks" in name for name in model.kernels.launches)
    assert our_greedy(_load(file, "reference", cache), tokens, 16, count=2) == answer
