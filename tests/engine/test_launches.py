"""What decode steps launch is counted, and a model runs on kernels or says why it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine import Cancel, EngineSettings, Finished, Generate, ModelInfo
from engine.kv.page_table import PageTable
from engine.loading.model import load_model
from engine.runner import Runner
from engine.steps.graph import operations
from engine.steps.parts import Part
from tests.fakes.listener import running_engine
from tests.fakes.random_model import write_random_model
from tests.metal.conftest import BUILD

LAYERS = 3
QUALIFIES = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def answered(folder: Path, executor: str, tokens: int = 5) -> tuple[ModelInfo, Finished]:
    settings = EngineSettings(executor=executor, cache=BUILD.parent)
    with running_engine(settings) as listener:
        info = listener.load(folder).model
        listener.submit(Generate("request", tokens=(1, 40, 50), max_tokens=tokens, ignore_eos=True))
        return info, listener.finished("request")


def ours(launches: dict[str, int]) -> int:
    return sum(count for name, count in launches.items() if not name.startswith("mlx."))


@pytest.mark.parametrize(
    ("changes", "why_not"),
    [
        (QUALIFIES, ""),
        ({**QUALIFIES, "num_attention_heads": 8, "num_key_value_heads": 1}, ""),
        ({"head_dim": 8}, "a head size of 8; kernels take"),
        ({**QUALIFIES, "num_attention_heads": 9, "num_key_value_heads": 1}, "kernels take groups of 1 to 8"),
        ({**QUALIFIES, "intermediate_size": 100}, "(rows, width), by 8 in width, is"),
    ],
    ids=["plain", "gqa8", "head-size", "gqa9", "width"],
)
def test_a_step_runs_on_kernels_or_it_is_said_why_not(
    changes: dict[str, Any], why_not: str, executor_name: str, tmp_path: Path
) -> None:
    folder = write_random_model(tmp_path / "model", **changes)
    info, finished = answered(folder, executor_name)
    launches = dict(finished.launches)
    if why_not:
        assert any(why_not in line for line in (info.executor_reason, *info.kernel_notes))
    else:
        assert (info.executor, info.kernel_notes) == (executor_name, ())
        assert launches["decode_attention"] == 5 * LAYERS
        assert ours(launches) >= 0.9 * sum(launches.values())
        assert sum(launches.values()) <= 5 * (6 * LAYERS + 4)
    assert answered(folder, "reference")[1].tokens == finished.tokens


@pytest.mark.parametrize("tokens", [1, 40])
def test_attention_gathers_nothing(tokens: int, executor_name: str, tmp_path: Path) -> None:
    # MLX takes a[0] for a gather, which copies; it took a twentieth of a prompt's time on a GPU.
    shape: dict[str, Any] = QUALIFIES
    folder = write_random_model(tmp_path / "model", **shape)
    for executor in ("reference", executor_name):
        model = load_model(
            folder, EngineSettings(executor=executor, cache=BUILD.parent), lambda done, total: None
        )
        runner, table = Runner(model), PageTable()
        runner.prefill(table, range(24))
        model.memory.grow(table, table.length + tokens)
        x, attend = mx.zeros((tokens, model.config.hidden_size)), runner.attend(Part(table, tokens, 0))
        behind = model.decoder.through(x, runner.ops, attend, range(LAYERS))
        assert "mlx.Gather" not in operations([behind]), executor


def test_a_request_that_never_began_launched_nothing(tmp_path: Path) -> None:
    folder = write_random_model(tmp_path / "model")
    with running_engine(EngineSettings(executor="reference")) as listener:
        listener.load(folder)
        with listener.held():
            listener.submit(Generate("first", tokens=(1, 40), max_tokens=300, ignore_eos=True))
            listener.submit(Generate("second", tokens=(1, 40), max_tokens=300, ignore_eos=True))
            listener.submit(Cancel("second"))
        assert listener.finished("second").launches == {}
        assert listener.finished("first").launches
