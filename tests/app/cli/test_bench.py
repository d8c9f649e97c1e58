"""`mlxr bench`: both sides run the same tokens, and the report holds every row."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.cli.batch_speed import loads, measure_batches
from app.cli.rows import Row, Target
from app.cli.session import Session
from app.cli.speed import Plan, Sample, engine_runner, measure
from app.engine_like import OnEvent
from engine import BatchRun, Cancel, Event, Generate
from tests.app.cli.conftest import Run
from tests.app.cli.instant_engine import finished, scripted

QUICK = ("--contexts", "20", "--decode", "4", "--pairs", "2")
SIZES = ("--prompts", "5,20", "--batches", "1,3", "--cached", "40,12")
PLAN = Plan((50,), (50,), (), None, 3, 2)


def rows_of(report: str) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in json.loads(report)["rows"]}


def measured(plan: Plan, targets: dict[Any, Target]) -> tuple[list[Row], list[tuple[str, int, int]]]:
    """The rows where mlx-lm takes twice our time, and the completions asked for: side, prompt, tokens."""
    asked: list[tuple[str, int, int]] = []

    def ours(prompt: tuple[int, ...], count: int) -> Sample:
        asked.append(("ours", len(prompt), count))
        return Sample(ttft_s=1.0, decode_tps=4.0, tokens=(1, 2, 3, 4))

    def theirs(prompt: tuple[int, ...], count: int) -> Sample:
        asked.append(("theirs", len(prompt), count))
        return Sample(ttft_s=2.0, decode_tps=2.0, tokens=(1, 2, 9, 4))

    return measure(plan, ours, theirs, targets, lambda line: None), asked


def test_pairs_are_interleaved_after_a_warm_up() -> None:
    found, asked = measured(PLAN, {})
    rows = {row.what: row for row in found}
    order = ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert asked == [(side, 50, 2) for side in order]
    assert rows["decode at 50 tokens, ours to mlx-lm"].samples == (2.0, 2.0, 2.0)
    assert rows["prefill at 50 tokens, ours to mlx-lm"].samples == (2.0, 2.0, 2.0)
    assert rows["prefill at 50 tokens"].samples == (50.0, 50.0, 50.0)
    assert rows["same tokens at 50 tokens"].samples == (0.5, 0.5, 0.5)


def test_a_ctrl_c_that_finds_an_answer_at_its_end_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Session._follow

    def interrupted(session: Session, request: str, on_event: OnEvent) -> Event:
        signal.raise_signal(signal.SIGINT)  # the answer's end is there, and nobody has read it
        return follow(session, request, on_event)

    monkeypatch.setattr(Session, "_follow", interrupted)
    session, commands = scripted(lambda c: [finished(c.id, "x")] if isinstance(c, Generate) else [])
    with session, pytest.raises(KeyboardInterrupt):
        engine_runner(session)((1, 2), 3)
    assert [type(command) for command in commands[:2]] == [Generate, Cancel]


def test_each_length_runs_once_and_writes_only_what_is_timed() -> None:
    found, asked = measured(Plan((20,), (5, 20), (), None, 1, 64), {})
    assert {(length, count) for _, length, count in asked} == {(5, 2), (20, 64)}
    assert len(asked) == 2 * 2 * 2
    whats = [row.what for row in found if "mlx-lm" not in row.what]
    assert whats == [
        "decode at 20 tokens",
        "same tokens at 20 tokens",
        "first token at 5 tokens",
        "prefill at 5 tokens",
        "first token at 20 tokens",
        "prefill at 20 tokens",
    ]


def test_of_one_token_rows_say_that_it_is_one() -> None:
    found, _ = measured(Plan((1,), (1,), (), None, 1, 2), {})
    ours: Any = Scripted(1.0, (1, 2, 3, 4))
    said: list[str] = []
    found += measure_batches(Plan((1,), (), (2,), (64, 1), 1, 2), ours, None, {}, said.append)
    assert [row.what for row in found if "mlx-lm" not in row.what] == [
        "decode at 1 token",
        "same tokens at 1 token",
        "first token at 1 token",
        "prefill at 1 token",
        "first token, 1 new token on 64 cached",
        "batch of 2 at 1 token",
    ]
    assert "1 new token on 64 cached: pair 1 of 1" in said


def test_targets_stand_at_their_size_only() -> None:
    target = Target("at least", 3.0)
    found, _ = measured(Plan((20, 30), (20, 30), (), None, 1, 4), {("decode ratio", 30): target})
    assert {row.what: row.verdict for row in found if row.target} == {
        "decode at 30 tokens, ours to mlx-lm": "short"
    }


def test_pages_are_there_for_the_largest_load() -> None:
    assert loads(PLAN) == ()
    assert loads(Plan((128, 2048), (), (1, 32), (8192, 2048), 7, 100)) == ((1, 228), (32, 228), (1, 10241))


class Scripted:
    """A RunnerBench or a Peer that needs `seconds` for everything and writes `tokens`."""

    def __init__(self, seconds: float, tokens: tuple[int, ...], launches: float | None = None) -> None:
        self.asked: list[tuple[int, ...]] = []
        self._seconds, self._tokens, self._launches = seconds, tokens, launches

    def run_batch(self, prompts: Sequence[tuple[int, ...]], count: int) -> BatchRun:
        assert len(set(prompts)) == len(prompts)
        self.asked.append((len(prompts), len(prompts[0]), count))
        known = self._launches is not None
        return BatchRun(
            tokens=(self._tokens,) * len(prompts),
            decode_tps=len(prompts) / self._seconds,
            launches=self._launches,
            own_share=0.75 if known else None,
        )

    def host_seconds(self, prompt: tuple[int, ...], steps: int) -> float | None:
        return None if self._launches is None else 0.0005

    def first_token_after(self, cached: tuple[int, ...], new: tuple[int, ...]) -> float:
        self.asked.append((len(cached), len(new)))
        return self._seconds


def test_batches_and_cached_prompts_have_rows_with_targets() -> None:
    plan = Plan((20, 30), (), (2, 4), (64, 16), 2, 8)
    targets: dict[Any, Target] = {
        ("batch ratio", 4): Target("at least", 1.5),
        ("cached ratio", 16): Target("at least", 5.0),
        ("launches", 2): Target("at most", 136),
        ("own share", 4): Target("at least", 0.9),
    }
    ours: Any = Scripted(1.0, (1, 2, 3, 4), launches=130.0)
    theirs: Any = Scripted(2.0, (1, 2, 3, 9))
    rows = {row.what: row for row in measure_batches(plan, ours, theirs, targets, lambda line: None)}
    assert ours.asked == theirs.asked == [(64, 16)] * 3 + [(2, 20, 8)] * 3 + [(4, 20, 8)] * 3
    assert {what: (row.middle, row.verdict) for what, row in rows.items() if row.target} == {
        "prefill of 16 new tokens on 64 cached, ours to mlx-lm": (2.0, "short"),
        "launches of a step, batch of 2 at 20 tokens": (130.0, "pass"),
        "batch of 4 at 20 tokens, ours to mlx-lm": (2.0, "pass"),
        "of them our kernels, batch of 4 at 20 tokens": (0.75, "short"),
    }
    assert rows["batch of 4 at 20 tokens"].samples == (4.0, 4.0)
    host = rows["host time of a step at 20 tokens"]
    assert (host.middle, host.unit) == (0.5, "ms")
    assert rows["same tokens, batch of 2 at 20 tokens"].middle == 0.75


def test_what_is_not_counted_has_no_row() -> None:
    ours: Any = Scripted(1.0, (1,))
    found = measure_batches(Plan((20,), (), (1,), None, 1, 8), ours, None, {}, lambda line: None)
    assert [row.what for row in found] == ["batch of 1 at 20 tokens"]


def test_both_sides_write_the_same_tokens(mlxr_here: Run, random_model: Path) -> None:
    done = mlxr_here("bench", "--model", random_model, *QUICK, "--vs", "mlx-lm", "--json")
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.stdout)
    assert json.loads(done.stdout)["peer"].startswith("mlx-lm ")
    assert rows["same tokens at 20 tokens"]["low"] == 1.0
    assert all(len(row["samples"]) == 2 and row["low"] > 0 for row in rows.values())
    assert all(row["target"] is None for row in rows.values())
    assert {row["group"] for row in rows.values()} == {"decode", "prefill and first token"}


@pytest.mark.parametrize("quant", ["none", pytest.param("q4", marks=pytest.mark.long)])
def test_a_shape_has_all_rows(mlxr: Run, tmp_path: Path, quant: str) -> None:
    options = ("--shape", "tiny", "--quant", quant, *QUICK, *SIZES, "--vs", "mlx-lm", "--json")
    done = mlxr("bench", *options, env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.stdout)
    assert rows["same tokens at 20 tokens"]["low"] == 1.0
    assert rows["same tokens, batch of 3 at 20 tokens"]["low"] == 1.0
    for what in (
        "decode at 20 tokens",
        "prefill at 5 tokens",
        "prefill at 20 tokens",
        "prefill of 12 new tokens on 40 cached",
        "batch of 1 at 20 tokens",
        "batch of 3 at 20 tokens",
    ):
        ratio = rows[f"{what}, ours to mlx-lm"]
        assert len(ratio["samples"]) == 2
        assert ratio["low"] <= ratio["median"] <= ratio["high"]
        assert ratio["of_medians"] > 0
    assert not list(tmp_path.glob("mlxr-bench-*")), "the written model is still there"


@pytest.mark.long
def test_a_shape_in_blocks_is_measured_beside_mlx_s_packing(mlxr: Run, tmp_path: Path) -> None:
    options = ("--shape", "guide-like", "--quant", "q6_k", *QUICK, *SIZES)
    done = mlxr("bench", *options, "--vs", "mlx-lm", "--json", env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.stdout)
    assert rows["decode at 20 tokens, ours to mlx-lm"]["of_medians"] > 0
    assert not [what for what in rows if what.startswith("same tokens")], "mlx-lm has other weights"
    assert not list(tmp_path.glob("mlxr-bench-*"))


def test_the_report_says_what_is_needed_to_do_it_again(mlxr: Run) -> None:
    sizes = ("--prompts", "none", "--batches", "none", "--cached", "none")
    done = mlxr("bench", "--shape", "tiny", *QUICK, *sizes, "--vs", "none", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["shape"], report["quant"], report["model"]) == ("tiny", "none", None)
    assert (report["device"], report["peer"], report["pairs"]) == ("CPU", None, 2)
    assert set(report["versions"]) == {"mlxr", "mlx", "mlx-lm", "python"}
    assert report["machine"]["memory_bytes"] > 0
    assert datetime.fromisoformat(report["date"]).tzinfo is not None
    assert report["command"].startswith("mlxr bench --shape tiny --contexts 20")
    assert [row["what"] for row in report["rows"]] == ["decode at 20 tokens"]


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


def test_a_context_that_does_not_fit_is_one_line(mlxr_here: Run, random_model: Path) -> None:
    done = mlxr_here("bench", "--model", random_model, "--contexts", "300000")
    assert done.returncode == 1
    assert "300,064 tokens do not fit" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_batches_that_the_memory_does_not_hold_are_one_line(mlxr_here: Run, random_model: Path) -> None:
    sizes = ("--contexts", "5", "--prompts", "none", "--batches", "99999999", "--cached", "none")
    done = mlxr_here("bench", "--model", random_model, *sizes, "--pairs", "1", "--vs", "none")
    assert done.returncode == 1
    assert "99999999 x 69 tokens need" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_chat_that_is_too_short_for_the_cache_is_said_to_be(mlxr_here: Run) -> None:
    done = mlxr_here("bench", "--cache", "--context", "10")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --context 10 is too short for what is measured; give 64 or more\n",
    )


@pytest.mark.parametrize(
    "options", [("--cache", "--only", "turns", "--context"), ("--vs", "none", "--contexts")]
)
def test_a_context_longer_than_any_models_is_refused_by_its_option(
    mlxr_here: Run, options: Sequence[str]
) -> None:
    done = mlxr_here("bench", "--shape", "tiny", *options, "99999999999")
    assert done.returncode == 1
    assert "config.json" not in done.stderr, "nobody wrote one"
    assert options[-1] in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_disk_without_room_is_one_line(mlxr_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10_000_000})())
    done = mlxr_here("bench", "--shape", "tinyllama-1.1b", "--quant", "q4")
    assert done.returncode == 1
    assert "tinyllama-1.1b takes 636 MB and" in done.stderr
    assert "has 10.0 MB free; make room" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--contexts", "1,x"),
        ("--contexts", "0"),
        ("--contexts", "none"),
        ("--contexts", "none", "--prompts", "20", "--batches", "2"),
        ("--prompts", "-3"),
        ("--batches", "x"),
        ("--batches", "8,0"),
        ("--cached", "8192"),
        ("--decode", "1"),
        ("--pairs", "0"),
        ("--vs", "someone"),
        ("--shape", "nonsense"),
        ("--shape", "tiny", "--quant", "q3"),
        ("--shape", "tiny", "--model", "guide"),
        ("--quant", "q4"),
    ],
)
def test_wrong_usage_is_one_line(mlxr_here: Run, options: tuple[str, ...]) -> None:
    done = mlxr_here("bench", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_window_has_rows_of_its_own(mlxr_here: Run, random_model: Path) -> None:
    done = mlxr_here("bench", "--model", random_model, *QUICK, "--vs", "none", "--window", "--json")
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.stdout)
    assert rows["first window, cold"]["target"] == {"sense": "at most", "value": 1.5}
    assert rows["GUI thread late, p99 at 200 tok/s"]["target"] == {"sense": "at most", "value": 16.0}
    assert rows["decode, window open to headless"]["target"] == {"sense": "at least", "value": 0.97}
    assert rows["decode, Live open to closed"]["target"] == {"sense": "at least", "value": 0.99}
    busy = {what for what in rows if what.startswith("window's thread, ")}
    assert len(busy) == 6
    assert rows["whole app at rest, open"]["target"] == {"sense": "at most", "value": 0.03}
    assert all(row["low"] > 0 for what, row in rows.items() if what not in busy)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_guide_has_its_targets(mlxr_here: Run) -> None:
    options = ("--contexts", "200", "--pairs", "2", "--vs", "mlx-lm", "--no-window", "--json")
    rows = rows_of(mlxr_here("bench", *options).stdout)
    assert {what for what, row in rows.items() if row["target"]} == {
        "decode at 200 tokens",
        "decode at 200 tokens, ours to mlx-lm",
        "first token at 200 tokens",
        "prefill at 200 tokens, ours to mlx-lm",
    }


def test_prompts_alone_are_measured_and_told_of_in_a_pipe(mlxr_here: Run, random_model: Path) -> None:
    options = ("--contexts", "none", "--prompts", "20", "--pairs", "2", "--vs", "none", "--json")
    done = mlxr_here("bench", "--model", random_model, *options, "--progress")
    assert done.returncode == 0, done.stderr
    assert {row["group"] for row in json.loads(done.stdout)["rows"]} == {"prefill and first token"}
    assert "20 tokens of prompt: pair 2 of 2" in done.stderr.splitlines()
