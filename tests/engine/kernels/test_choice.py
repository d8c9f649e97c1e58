"""What runs on kernels: proven ones, or all that were asked for but those that failed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import EngineSettings
from engine.kernels.cases import attention_specs, build_case, end_specs, norm_spec, product_specs
from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.loading.model import load_model, open_model
from metal.product import Product
from metal.selection import Selection
from metal.trial_cache import TrialCache
from metal.trial_record import CandidateRecord, OpRecord, Status
from metal.trial_scope import Scope, open_executor
from tests.engine.parity import quantised
from tests.fakes.random_model import write_random_model

SCOPE = Scope("a machine", "0.32.4", "emulated")
PRODUCT = Product(64, 96, 1, "float32", norm=True)
EXECUTOR = open_executor("emulated", Path())
CASE = build_case(PRODUCT.spec, EXECUTOR)
NAMES = [one.name for one in CASE.contenders]


def choice(folder: Path, *, is_forced: bool) -> KernelChoice:
    return KernelChoice("emulated", EXECUTOR, Selection(folder, SCOPE), is_forced=is_forced)


def remember(folder: Path, chosen: str, **found: tuple[Status, float | None]) -> None:
    """Write down what became of every candidate; `found` by position, "c0" is MLX's own."""
    candidates = tuple(
        CandidateRecord(
            one.name,
            one.digest,
            *(found.get(f"c{index}", ("slower", 9.0))[:1]),
            microseconds=found.get(f"c{index}", ("slower", 9.0))[1],
            reason=f"reason {index}",
        )
        for index, one in enumerate(CASE.contenders)
    )
    record = OpRecord(CASE.key, chosen, candidates)
    TrialCache(folder, SCOPE).update(lambda records: records.update({record.key: record}))


@pytest.mark.parametrize(("is_forced", "expected"), [(False, None), (True, NAMES[1])])
def test_an_untried_kernel_runs_only_where_it_was_asked_for(
    is_forced: bool, expected: str | None, tmp_path: Path
) -> None:
    asked = choice(tmp_path, is_forced=is_forced)
    assert asked.kernel(PRODUCT.spec) == expected
    assert asked.selection.pending == (CASE.key,)
    assert asked.why(PRODUCT.spec).startswith("asked for" if is_forced else "kernels are tried here when")
    assert not asked.notes


@pytest.mark.parametrize("is_forced", [False, True])
def test_the_cut_that_won_here_runs(is_forced: bool, tmp_path: Path) -> None:
    remember(tmp_path, NAMES[3], c0=("slower", 10.0), c3=("chosen", 5.0))
    asked = choice(tmp_path, is_forced=is_forced)
    assert asked.kernel(PRODUCT.spec) == NAMES[3]
    assert asked.why(PRODUCT.spec) == ("asked for" if is_forced else "reason 3")
    assert asked.selection.pending == ()


@pytest.mark.parametrize(("is_forced", "expected"), [(False, None), (True, NAMES[2])])
def test_where_mlx_is_faster_the_best_kernel_runs_only_if_asked_for(
    is_forced: bool, expected: str | None, tmp_path: Path
) -> None:
    remember(tmp_path, "mlx", c0=("chosen", 1.0), c2=("slower", 5.0))
    asked = choice(tmp_path, is_forced=is_forced)
    assert asked.kernel(PRODUCT.spec) == expected
    assert not asked.notes


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("status", ["disagrees", "does not compile", "hangs", "died", "unsupported"])
def test_what_failed_here_never_runs_and_is_named(status: Status, is_forced: bool, tmp_path: Path) -> None:
    failed: Mapping[str, tuple[Status, float | None]] = {
        f"c{index}": (status, None) for index in range(1, len(NAMES))
    }
    remember(tmp_path, "mlx", c0=("chosen", None), **failed)
    asked = choice(tmp_path, is_forced=is_forced)
    assert asked.kernel(PRODUCT.spec) is None
    assert list(asked.notes) == [f"{CASE.key} runs on MLX's own: {NAMES[1]} is off (reason 1)"]


def test_an_answer_stands_until_it_is_asked_for_again(tmp_path: Path) -> None:
    asked = choice(tmp_path, is_forced=False)
    assert asked.kernel(PRODUCT.spec) is None
    remember(tmp_path, NAMES[1], c1=("chosen", 1.0))
    other = choice(tmp_path, is_forced=False)
    assert (asked.kernel(PRODUCT.spec), other.kernel(PRODUCT.spec)) == (None, NAMES[1])
    assert other.again().kernel(PRODUCT.spec) == NAMES[1]


@pytest.mark.parametrize(
    ("family", "changes", "bits"),
    [
        ("llama", {"tie_word_embeddings": True}, 0),
        ("qwen2", {"hidden_size": 256}, 4),
        ("qwen3", {}, 8),
        ("mistral", {"sliding_window": 24, "layer_types": ["sliding_attention", "full_attention"] * 2}, 0),
    ],
)
def test_the_table_of_a_model_holds_what_the_engine_asks_for(
    family: str, changes: dict[str, Any], bits: int, tmp_path: Path
) -> None:
    heads = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 4}
    folder = write_random_model(tmp_path / "model", family, **{**heads, **changes})
    if bits:
        folder = quantised(folder, tmp_path / "quantised", bits)
    settings = EngineSettings(executor="emulated", cache=tmp_path)
    model = load_model(folder, settings, lambda done, total: None)
    config = open_model(folder).config
    specs = (
        *attention_specs(config, mx.float32, settings.page_size),
        norm_spec(config, mx.float32),
        *product_specs(config, mx.float32),
        *end_specs(config, mx.float32),
    )
    assert model.kernels is not None
    asked = model.kernels.choice.answers()
    assert {build_case(spec, EXECUTOR).key for spec in specs} == set(asked)
    assert None not in asked.values()
    assert model.info.kernel_notes == ()
    unproven = Kernels(choice(tmp_path / "new", is_forced=False), model.decoder)
    assert set(unproven.choice.selection.pending) == set(asked)
    assert not unproven.is_in_place
    assert set(unproven.choice.answers().values()) == {None}
