"""`mlxr bench`: both sides run the same tokens, and the report holds every row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.speed import Plan, Sample, measure
from tests.app.cli.conftest import Run

QUICK = ("--contexts", "20", "--decode", "4", "--pairs", "2")


def sample(seconds: float) -> Sample:
    return Sample(ttft_s=seconds, decode_tps=1 / seconds, tokens=(1, 2))


def test_pairs_are_interleaved_after_a_warm_up() -> None:
    order: list[str] = []

    def ours(prompt: tuple[int, ...], count: int) -> Sample:
        assert (len(prompt), count) == (50, 2)
        order.append("ours")
        return sample(1.0)

    def theirs(prompt: tuple[int, ...], count: int) -> Sample:
        order.append("theirs")
        return sample(2.0)

    rows = {row.what: row for row in measure(Plan((50,), 3, 2), ours, theirs, False, lambda line: None)}
    assert order == ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert rows["decode at 50 tokens, ours to mlx-lm"].samples == (2.0, 2.0, 2.0)
    assert rows["prefill at 50 tokens, ours to mlx-lm"].samples == (2.0, 2.0, 2.0)
    assert rows["prefill at 50 tokens"].samples == (50.0, 50.0, 50.0)


def test_both_sides_write_the_same_tokens(mlxr: Run, random_model: Path) -> None:
    done = mlxr("bench", "--model", random_model, *QUICK, "--vs", "mlx-lm", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = {row["what"]: row for row in report["rows"]}
    assert report["peer"].startswith("mlx-lm ")
    assert rows["same tokens at 20 tokens"]["low"] == 1.0
    assert all(len(row["samples"]) == 2 and row["low"] > 0 for row in report["rows"])
    assert rows["decode at 20 tokens, ours to mlx-lm"]["target"] == {"sense": "at least", "value": 0.95}


def test_without_a_peer_only_our_rows_come(mlxr: Run, random_model: Path) -> None:
    done = mlxr("bench", "--model", random_model, *QUICK, "--vs", "none")
    assert done.returncode == 0
    assert "decode at 20 tokens" in done.stdout
    assert "mlx-lm" not in done.stdout


@pytest.mark.parametrize("vs", [("--vs", "mlx-lm"), ()])
def test_a_peer_that_is_not_installed_is_said(
    mlxr: Run, random_model: Path, tmp_path: Path, vs: tuple[str, ...]
) -> None:
    (tmp_path / "mlx_lm").mkdir()
    (tmp_path / "mlx_lm" / "__init__.py").write_text("raise ImportError('not here')")
    path = f"{tmp_path}:{Path(__file__).parents[3]}"
    done = mlxr("bench", "--model", random_model, *QUICK, *vs, env={"PYTHONPATH": path})
    assert "mlx-lm is not installed" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode == (1 if vs else 0)


def test_a_context_that_does_not_fit_is_one_line(mlxr: Run, random_model: Path) -> None:
    done = mlxr("bench", "--model", random_model, "--contexts", "300000")
    assert done.returncode == 1
    assert "300064 tokens do not fit" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options", [("--contexts", "1,x"), ("--decode", "1"), ("--pairs", "0"), ("--vs", "someone")]
)
def test_wrong_usage_is_one_line(mlxr_here: Run, options: tuple[str, ...]) -> None:
    done = mlxr_here("bench", *options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_window_has_rows_of_its_own(mlxr: Run, random_model: Path) -> None:
    done = mlxr("bench", "--model", random_model, *QUICK, "--vs", "none", "--window", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["first window, cold"]["target"] == {"sense": "at most", "value": 1.5}
    assert rows["GUI thread late, p99 at 200 tok/s"]["target"] == {"sense": "at most", "value": 16.0}
    assert rows["decode, window open to headless"]["target"] == {"sense": "at least", "value": 0.97}
    assert all(row["low"] > 0 for row in rows.values())
