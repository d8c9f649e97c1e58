"""What the terminal asks is recorded as the terminal itself tells it; measurements are not."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app import VERSION
from app.history.requests import RequestStore
from app.history.schema import HISTORY
from app.history.spans import Span
from app.paths import default_paths
from app.store.database import open_database
from tests.app.cli.conftest import Run

GUIDE = Path(__file__).parents[3] / "resources" / "guide" / "model"


def recorded() -> list[dict[str, Any]]:
    """Every request of the history, the last one first."""
    with closing(open_database(default_paths().history, HISTORY).connection) as connection:
        found = RequestStore(connection).latest(Span((0.0, 1e12)))
    return [{name: getattr(one, name) for name in one.__slots__} for one in found]


def test_a_completion_is_recorded_as_its_json_says(mlxr_here: Run) -> None:
    done = mlxr_here(
        *("generate", "--model", GUIDE, "--prompt", "What is a page?", "--max-tokens", 12),
        *("--temperature", 0.5, "--top-k", 7, "--seed", 1, "--json"),
    )
    told = json.loads(done.stdout)
    (one,) = recorded()
    timing = told["timing"]
    assert one["client"] == "generate"
    assert (one["model"], one["version"], one["executor"]) == (str(GUIDE), VERSION, told["executor"])
    assert (one["temperature"], one["top_k"], one["top_p"], one["answers"]) == (0.5, 7, 1.0, 1)
    assert (one["prompt_tokens"], one["answer_tokens"]) == (len(told["prompt_tokens"]), len(told["tokens"]))
    assert one["cached_tokens"] + one["restored_tokens"] == timing["cached_tokens"]
    rates = {name: one[name] for name in ("ttft_ms", "prefill_tps", "decode_tps")}
    assert rates == pytest.approx({name: timing[name] for name in rates})
    assert 0 <= one["queued_ms"] <= one["ttft_ms"] <= one["total_ms"]
    assert (one["outcome"], one["reason"]) == ("finished", told["finish_reason"])


def test_a_model_has_one_name_whatever_the_folder(mlxr_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GUIDE.parent)
    mlxr_here("generate", "--model", GUIDE.name, "--prompt", "hello", "--max-tokens", 1)
    mlxr_here("generate", "--model", GUIDE, "--prompt", "hello", "--max-tokens", 1)
    assert [one["model"] for one in recorded()] == [str(GUIDE)] * 2


def test_a_refused_request_is_recorded_with_its_reason(mlxr_here: Run) -> None:
    done = mlxr_here("generate", "--model", GUIDE, "--tokens", "1,99999999")
    assert done.returncode == 1
    (one,) = recorded()
    assert (one["outcome"], one["reason"]) == ("failed", "InvalidRequest")
    assert one["error"] in done.stderr
    assert (one["ttft_ms"], one["decode_tps"], one["answer_tokens"]) == (None, None, 0)


@pytest.mark.long  # a whole measurement: 5 s
def test_measurements_are_not_recorded(mlxr_here: Run) -> None:
    mlxr_here("bench", "--model", GUIDE, "--contexts", 16, "--json")
    assert not default_paths().history.exists()


def test_a_newer_history_hinders_nobody(mlxr_here: Run) -> None:
    path = default_paths().history
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(HISTORY.migrations) + 1}")
    before = path.read_bytes()
    done = mlxr_here("generate", "--model", GUIDE, "--prompt", "hello", "--max-tokens", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_bytes() == before
