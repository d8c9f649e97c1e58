"""`mlxr bench --cache`: what is counted is exact, every part has its rows, and targets stand beside them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.cache_speed import CACHE_PLAN, PARTS
from app.cli.cache_speed_batches import TRIES, EngineBatches, together_rate
from app.cli.cache_speed_beside import gaps, quantile
from app.cli.cache_speed_prediction import is_near
from app.cli.rows import Row
from app.cli.targets import Subject, cache_targets
from app.errors import AppError
from app.measure.engine_client import Answer, EngineClient, Mark
from engine import EngineSettings, Finished, Generate, Timing
from tests.app.cli.conftest import Run
from tests.fakes.random_model import write_random_model

CPU = Subject("guide-like", "none", "CPU", "")


def test_a_chat_that_goes_on_computes_what_is_new_and_no_more(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("turns", pairs=2)
    new = {"next turn": 29, "regenerate": 1, "edit at 3/4": 28, "branch at 1/2": 28}
    for move, count in new.items():
        beyond = rows[f"computed beyond {count} new token{'' if count == 1 else 's'}, {move}"]
        assert beyond.samples == (0, 0)
        assert beyond.verdict == "pass"
        assert rows[f"first token, {move}"].middle > 0
        assert rows[f"cold to {move}"].target is None  # promised of 8,192 tokens


def test_a_restart_brings_back_every_whole_page(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("restart")
    sources = ("from the page cache", "from the disk")[: 2 if sys.platform == "linux" else 1]
    for source in sources:
        assert rows[f"restored of 225 tokens, {source}"].samples == (224.0,)
        assert rows[f"read and checked alone, {source}"].middle > 0
        # A row of the rate is left out where noise hides what restoring took: of so few pages it can.
        share = rows.get(f"restored to read and checked alone, {source}")
        if share is not None:  # promised of the disk's rate, where that can be had
            assert (share.target is not None) == (source == sources[-1])
    assert rows["in memory of 225 tokens, asked about before"].samples == (224.0,)
    assert rows["first token to one from memory, asked about before"].middle > 0
    choices = [row for what, row in rows.items() if what.startswith("the choice")]
    assert len(choices) == 2
    assert all(row.target is not None and row.middle >= 1 for row in choices)


def test_steps_have_the_cost_of_scheduler_and_pager(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("steps")
    assert 0 < rows["scheduler and pager, 3 answers"].middle < 1e6
    assert rows["scheduler and pager, 3 answers"].target is None  # promised of 32
    assert rows["taking in the tokens, 3 answers"].middle > 0


def test_every_batch_has_a_row(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("batches")
    assert list(rows) == ["batch of 1 at 64 tokens", "batch of 3 at 64 tokens"]
    assert all(row.middle > 0 for row in rows.values())


def test_a_batch_writes_what_each_prompt_gets_alone(random_model: Path) -> None:
    prompts = [tuple(range(10 + 20 * number, 40 + 20 * number)) for number in range(3)]
    with EngineClient(EngineSettings(speculation=False)) as client:
        client.load(random_model)
        batches = EngineBatches(client)
        together = batches.run_batch(prompts, 6)
        alone = [batches.run_batch([prompt], 6).tokens[0] for prompt in prompts]
    assert together.tokens == tuple(alone)
    assert together.decode_tps > 0


def test_of_one_answer_and_one_token_rows_say_that_it_is_one(rows_of: Callable[..., dict[str, Row]]) -> None:
    steps = rows_of("steps", batches=(1,))
    assert {"scheduler and pager, 1 answer", "taking in the tokens, 1 answer"} <= steps.keys()
    beside = rows_of("beside", long_prompt=1)
    assert {"prompt of 1 token, alone", "prompt of 1 token, beside the chat"} <= beside.keys()


def test_a_chat_beside_a_long_prompt_has_gaps_and_rates(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("beside")
    assert {what for what, row in rows.items() if row.target} == {
        "gap p50, beside to alone",
        "gap p99, beside to alone",
        "prompt's speed, beside to alone",
    }
    assert all(row.middle > 0 for row in rows.values())
    assert rows["gap between tokens, p99, alone"].middle >= rows["gap between tokens, p50, alone"].middle


def test_guessing_is_measured_on_and_off(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("speculation")
    assert [row.target.value for row in rows.values() if row.target] == [1.5, 0.97, 0.97]
    assert all(row.middle > 0 for row in rows.values())


def test_predictions_are_counted(rows_of: Callable[..., dict[str, Row]]) -> None:
    rows = rows_of("prediction")
    share, again = rows["within 25%, of 3"], rows["a request like it right behind, within 25%"]
    assert again.target is None
    assert round(3 * again.middle, 6) in (0, 1, 2, 3)
    assert share.target is not None
    assert round(3 * share.middle, 6) in (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("predicted", "measured", "near"),
    [(1.0, 1.0, True), (0.76, 1.0, True), (0.74, 1.0, False), (1.26, 1.0, False), (None, 1.0, False)],
)
def test_near_is_a_quarter_of_what_came(predicted: float | None, measured: float, near: bool) -> None:
    assert is_near(predicted, measured) is near


def test_gaps_are_of_single_tokens() -> None:
    found = gaps([Mark(1.0, 1), Mark(1.5, 2), Mark(2.5, 4)])
    assert found == (0.5, 0.5, 0.5)
    assert gaps([Mark(1.0, 1)]) == ()
    assert gaps([Mark(1.0, 1), Mark(1.5, 2), Mark(1.6, 2)]) == (0.5,)  # what was held back came at the end
    values = tuple(float(number) for number in range(1, 101))
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile((7.0,), 0.99)) == (50.0, 99.0, 7.0)
    assert [quantile(values[:count], 0.99) for count in (99, 3)] == [99.0, 3.0]
    assert quantile(tuple(range(700)), 0.07) == 48  # 0.07 · 700 is a little more than 49


def test_a_batchs_rate_is_of_the_time_when_all_decode() -> None:
    early = ended(0.0, 1.0, [Mark(2.0, 2), Mark(3.0, 6)], 4.0, 9)
    late = ended(1.0, 1.0, [Mark(3.0, 3)], 5.0, 7)
    assert together_rate([early, late]) == ((9 - 2) + (5 - 1)) / (4.0 - 2.0)


@pytest.mark.parametrize("begins", [3.5, 4.0, 5.0])
def test_requests_that_did_not_decode_together_have_no_rate(begins: float) -> None:
    early = ended(0.0, 1.0, [Mark(3.0, 9)], 4.0, 9)
    late = ended(begins - 1.0, 1.0, [Mark(begins + 1, 1)], begins + 8, 9)
    assert together_rate([early, late]) is None


class Straggling(EngineClient):
    """Waits for the first of two requests before it sends the second, `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__(EngineSettings(speculation=False))
        self._sends = 2 * times

    def send(self, command: Generate) -> Answer:
        answer = super().send(command)
        self._sends -= 1
        if self._sends > 0 and self._sends % 2:
            while answer.finished is None:
                self._next()
        return answer


def test_a_batch_that_was_kept_apart_is_sent_again(random_model: Path) -> None:
    prompts = [tuple(range(10, 40)), tuple(range(50, 80))]
    with Straggling(times=2) as client:
        client.load(random_model)
        run = EngineBatches(client).run_batch(prompts, 6)
    assert run.decode_tps > 0
    assert [len(tokens) for tokens in run.tokens] == [6, 6]


def test_a_batch_that_is_always_kept_apart_is_one_line(random_model: Path) -> None:
    prompts = [tuple(range(10, 40)), tuple(range(50, 80))]
    with Straggling(times=TRIES) as client:
        client.load(random_model)
        with pytest.raises(AppError, match=r"2 requests at once were never all decoding in 5 tries; close "):
            EngineBatches(client).run_batch(prompts, 6)


def test_tokens_without_text_count_too() -> None:
    silent = ended(0.0, 1.0, [], 5.0, 9)
    assert [silent.generated_at(moment) for moment in (0.5, 1.0, 3.0, 5.0, 6.0)] == [0, 1, 5, 9, 9]


def ended(sent: float, first: float, marks: list[Mark], at: float, tokens: int) -> Answer:
    """An answer of so many tokens, the first of them `first` seconds after it was sent."""
    timing = Timing(1000 * first, 1, 0, 0.0, 0.0)
    finished = Finished("a", "length", "", (5,) * tokens, (1,), None, timing)
    return Answer("a", sent, marks, finished=finished, ended=at)


def test_plans_fit_the_models_context() -> None:
    plan = CACHE_PLAN.within(4096)
    assert (plan.context, plan.long_prompt, plan.longest) == (3968, 3968, 4096)
    assert CACHE_PLAN.within(32768) == CACHE_PLAN


def test_turns_are_promised_by_device() -> None:
    key: Any = ("turn ratio", 8192)
    assert cache_targets(CPU)[key].value == 20
    assert cache_targets(Subject("", "none", "CUDA", "NVIDIA H200"))[key].value == 10
    assert key not in cache_targets(Subject("", "none", "Metal", "Apple M4"))
    assert cache_targets(Subject("tinyllama-1.1b", "none", "CUDA", "H200"))[("batch ratio", 8)].value == 1.5


def test_the_command_prints_the_parts_that_are_asked_for(mlxr_here: Run, random_model: Path) -> None:
    options = ("--context", "100", "--pairs", "1", "--batches", "2", "--decode", "4", "--json")
    done = mlxr_here("bench", "--cache", "--model", random_model, "--only", "turns,batches", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {row["group"] for row in report["rows"]} == {
        "a chat goes on",
        "decode steps of one sequence and more",
    }
    assert (report["pairs"], report["decoded"], report["peer"]) == (1, 4, None)


def test_the_report_names_a_model_as_people_know_it(mlxr: Run, tmp_path: Path) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hf" / "hub" / "models--someone--tiny"
    write_random_model(repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    home = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_CACHE": None}
    for model, name in (("someone/tiny", "someone/tiny"), ("guide", "the guide")):
        done = mlxr("bench", "--cache", "--model", model, "--only", "steps", "--pairs", "1", env=home)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{name} on ")


def test_batches_stand_beside_mlx_lm(mlxr: Run, random_model: Path) -> None:
    options = ("--only", "batches", "--batches", "2", "--decode", "4", "--pairs", "1", "--vs", "mlx-lm")
    done = mlxr("bench", "--cache", "--model", random_model, *options, "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["batch of 2 at 64 tokens, ours to mlx-lm"]["low"] > 0
    assert rows["same tokens, batch of 2 at 64 tokens"]["low"] == 1.0


def test_a_context_that_is_too_short_is_one_line(mlxr_here: Run, tmp_path: Path) -> None:
    model = write_random_model(tmp_path / "short", max_position_embeddings=150)
    done = mlxr_here("bench", "--cache", "--model", model)
    assert done.returncode == 1
    assert "short has a context of 150 tokens, and 192 are needed" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("option", "most"), [("--context", 72), ("--long", 72)])
def test_more_than_the_context_is_refused_where_it_was_asked_for(
    mlxr_here: Run, tmp_path: Path, option: str, most: int
) -> None:
    model = write_random_model(tmp_path / "short", max_position_embeddings=200)
    done = mlxr_here("bench", "--cache", "--model", model, option, most + 1)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {option} 73 and 128 more do not fit short's context of 200 here; give at most {most}\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--context", "100"),
        ("--only", "turns"),
        ("--long", "100"),
        ("--cache", "--only", "turns,nonsense"),
        ("--cache", "--context", "0"),
        ("--cache", "--contexts", "100"),
        ("--cache", "--window"),
        ("--cache", "--batches", "none"),
        ("--cache", "--batches", "33"),
        ("--cache", "--shape", "tiny", "--model", "guide"),
    ],
)
def test_wrong_usage_is_one_line(mlxr_here: Run, options: tuple[str, ...]) -> None:
    done = mlxr_here("bench", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_part_runs_of_the_shape_that_is_the_default(mlxr_here: Run) -> None:
    options = ("--context", "400", "--pairs", "1", "--batches", "1,2", "--decode", "8", "--json")
    done = mlxr_here("bench", "--cache", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["shape"] == "guide-like"
    assert len({row["group"] for row in report["rows"]}) == len(PARTS)
