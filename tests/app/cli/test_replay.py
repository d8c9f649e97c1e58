"""`mlxr replay` from outside: files played on the real engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from app.model_location import GUIDE
from engine import (
    Command,
    Event,
    Generate,
    LoadModel,
    ModelReady,
    Stats,
)
from tests.app.cli.conftest import Run, StartTerminal, assert_ends_quietly, command
from tests.app.cli.instant_engine import InstantEngine, finished, flushing
from tests.app.cli.replay_runs import REPLAYS, played, write
from tests.fakes.scripted_engine import model_info


def test_results_are_those_of_generate(mlxr_here: Run, random_model: Path, tmp_path: Path) -> None:
    options = ("--max-tokens", 12, "--temperature", 1.2, "--top-k", 40, "--seed", 3, "--ignore-eos", "--json")
    one = mlxr_here("generate", "--model", random_model, "--prompt", "a page", "--logprobs", 2, *options)
    line: dict[str, Any] = {"prompt": "a page", "logprobs": 2, "max_tokens": 12, "temperature": 1.2}
    line |= {"id": "one", "top_k": 40, "seed": 3, "ignore_eos": True}
    raw = {**line, "id": "raw", "raw": True}
    results, totals = played(mlxr_here, write(tmp_path, line, raw), "--model", random_model)
    alone, result = json.loads(one.stdout), results["one"]
    assert set(alone) < set(result)
    same = ("prompt_tokens", "tokens", "text", "finish_reason", "executor")
    assert {name: result[name] for name in same} == {name: alone[name] for name in same}
    assert [token["id"] for token in result["logprobs"]] == alone["tokens"]
    assert len(results["raw"]["prompt_tokens"]) < len(result["prompt_tokens"])
    assert totals["length"] == 2


def test_a_mixed_file_ends_as_it_says(mlxr_here: Run, random_model: Path) -> None:
    results, totals = played(mlxr_here, REPLAYS / "mixed.jsonl", "--model", random_model)
    ends = {name: result.get("finish_reason", "failed") for name, result in results.items()}
    assert ends == {
        "long": "length",
        "window": "length",
        "raw": "length",
        "sampled": "length",
        "cut": "cancelled",
        "never": "cancelled",
        "impossible": "failed",
        "on": "length",
        "last": "length",
    }
    assert list(results).index("cut") < list(results).index("last")
    long, on, impossible = results["long"], results["on"], results["impossible"]
    assert on["prompt_tokens"] == [*long["prompt_tokens"], *long["tokens"], 11, 12]
    assert on["sent_s"] >= long["ended_s"]
    assert results["window"]["sent_s"] >= 0.02
    assert (impossible["kind"], impossible["refusal"]) == ("InvalidRequest", None)
    assert "99999" in impossible["error"]
    assert 6 <= len(results["cut"]["tokens"]) < 5000
    assert len(results["never"]["tokens"]) < 5000  # it may begin before the engine hears of its end
    assert (totals["pages_leaked"], totals["failed"], totals["unexpected"]) == (0, 1, [])
    assert totals["pages_in_use"] == totals["pages_cached"]
    assert totals["peak_memory_bytes"] > 0


def test_a_chat_is_continued_edited_and_branched(mlxr_here: Run) -> None:
    results, totals = played(mlxr_here, REPLAYS / "chat_tree.jsonl", "--model", GUIDE)
    first, second, edited = results["first"], results["second"], results["edited"]
    past = [*first["prompt_tokens"], *first["tokens"]]
    for name in ("second", "again", "branch"):
        assert results[name]["prompt_tokens"][: len(past)] == past
    assert second["prompt_tokens"] == results["again"]["prompt_tokens"]
    # The last one is an input only where a step was in flight when it was read.
    assert second["cache"]["cached_tokens"] in (len(past) - 1, len(past))
    same = zip(first["prompt_tokens"], edited["prompt_tokens"], strict=False)
    changed = next(place for place, (one, other) in enumerate(same) if one != other)
    assert edited["cache"]["cached_tokens"] == changed
    assert second["predicted"]["cached_tokens"] == second["cache"]["cached_tokens"]
    computed = sum(result["timing"]["prefill_tokens"] for result in results.values())
    assert totals["cache"]["computed_tokens"] == computed
    assert totals["pages_leaked"] == 0


def test_a_question_beside_a_long_prompt_is_answered_and_both_end(mlxr_here: Run) -> None:
    """Who is first is a matter of this machine's speed here: tests/engine/test_short_first.py knows it."""
    results, totals = played(mlxr_here, REPLAYS / "short_first.jsonl", "--model", GUIDE)
    assert [len(results[name]["tokens"]) for name in ("book", "question")] == [8, 8]
    assert results["book"]["cache"]["cached_tokens"] == 0
    assert totals["pages_leaked"] == 0


def test_more_than_fits_waits_and_loses_nothing(mlxr_here: Run, random_model: Path) -> None:
    options = (REPLAYS / "pressure.jsonl", "--model", random_model)
    tight, totals = played(mlxr_here, *options, "--pages", 8)
    too_long = tight.pop("too long")
    assert (too_long["refusal"]["needed_pages"], too_long["refusal"]["available_pages"]) == (13, 8)
    assert totals["pages_total"] == 8
    assert 0 < totals["most_pages_held"] <= 8
    assert totals["cache"]["evicted_pages"] > 0
    assert totals["pages_leaked"] == 0
    roomy = mlxr_here("replay", *options, "--pages", 200, "--no-speculation", "--json")
    alone = {result["id"]: result for result in map(json.loads, roomy.stdout.splitlines()[:-1])}
    assert {name: result["tokens"] for name, result in tight.items()} == {
        name: alone[name]["tokens"] for name in tight
    }
    assert roomy.stderr.startswith("error: 1 of the requests did not end as it should: too long (length, ")


def test_what_spilled_comes_back_in_the_next_run(mlxr_here: Run, random_model: Path, tmp_path: Path) -> None:
    line = {"id": "a", "tokens": [1, *range(10, 90)], "chat": "c", "max_tokens": 20, "ignore_eos": True}
    file, folder = write(tmp_path, line), tmp_path / "pages"
    options = (file, "--model", random_model, "--ssd", folder, "--ssd-cap", "64M", "--ssd-floor", 0)
    cold, _ = played(mlxr_here, *options)
    warm, totals = played(mlxr_here, *options)
    assert cold["a"]["cache"]["restored_tokens"] == 0
    assert warm["a"]["cache"]["restored_tokens"] == 80
    assert warm["a"]["tokens"] == cold["a"]["tokens"]
    assert totals["cache"]["restored_tokens"] == 80
    assert 0 < totals["cache"]["ssd_bytes"] <= 64 << 20


def test_pages_are_spilled_that_are_in_files(mlxr_here: Run, random_model: Path, tmp_path: Path) -> None:
    options = (REPLAYS / "pressure.jsonl", "--model", random_model, "--pages", 8, "--ssd-floor", 0)
    _, totals = played(mlxr_here, *options, "--ssd", tmp_path / "pages")
    # Chats that are released at the end, and what is cached then, are written after the totals.
    assert totals["cache"]["evicted_pages"] >= totals["cache"]["spilled_pages"] > 0
    assert totals["cache"]["waiting_pages"] == 0
    written = totals["cache"]["spilled_pages"] * totals["page_bytes"]
    assert written <= totals["cache"]["ssd_bytes"] == totals["cache"]["spilled_bytes_today"]


def test_chats_have_the_pages_that_are_cached_at_the_end(
    mlxr_here: Run, random_model: Path, tmp_path: Path
) -> None:
    """Three answers hold more pages while they run than are kept of them."""
    ask = {"max_tokens": 5, "ignore_eos": True, "temperature": 0}
    one = {"id": "one", "chat": "a", "tokens": [1, *range(10, 90)], **ask}
    two = {"id": "two", "chat": "b", "tokens": [1, *range(40, 95)], **ask, "n": 3, "after": "one"}
    _, totals = played(mlxr_here, write(tmp_path, one, two), "--model", random_model)
    pages = {chat: memory["memory_bytes"] // totals["page_bytes"] for chat, memory in totals["chats"].items()}
    assert pages == {"a": 6, "b": 4}
    assert totals["pages_cached"] == 10


def test_none_is_where_the_disk_takes_none_and_why_is_said(
    mlxr_here: Run, random_model: Path, tmp_path: Path
) -> None:
    options = (REPLAYS / "pressure.jsonl", "--model", random_model, "--pages", 8, "--ssd", tmp_path / "pages")
    disk = shutil.disk_usage(tmp_path)
    floor = (disk.free + disk.total) // 2
    done = mlxr_here("replay", *options, "--ssd-floor", floor)
    assert (done.returncode, done.stderr) == (0, "")
    assert " 0 spilled to SSD, 0 restored" in done.stdout
    assert "\nnothing is written to SSD at present: the disk has " in done.stdout
    assert f"{floor / 1e9:.1f} GB must stay free; saving goes on when there is more\n" in done.stdout


def test_people_get_a_table_and_the_totals(mlxr_here: Run, random_model: Path, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "\ufeff# with a byte-order mark",
        {"id": "fine", "tokens": [1, 5, 9], "max_tokens": 3, "ignore_eos": True},
        {"id": "bad", "tokens": [99999]},
    )
    done = mlxr_here("replay", file, "--model", random_model)
    assert done.returncode == 1
    assert done.stderr == "error: 1 of the requests did not end as it should: bad (failed); see above\n"
    heading, *rows = done.stdout.splitlines()[:3]
    assert heading.split()[:2] == ["id", "state"]
    fine, bad = sorted(rows, reverse=True)
    assert fine.split()[:6] == ["fine", "length", "3", "0", "0", "3"]
    assert bad.startswith("bad   failed     token id 99999 is outside")
    assert done.stdout.splitlines()[3] == ""
    assert "0 leaked" in done.stdout


def test_what_ends_otherwise_than_expected_is_named(
    mlxr_here: Run, random_model: Path, tmp_path: Path
) -> None:
    end = {"tokens": [1], "max_tokens": 1, "logit_bias": {"2": 100}}
    lines = [{**end, "id": f"r{number}", "expect": "failed"} for number in range(7)]
    done = mlxr_here("replay", write(tmp_path, *lines), "--model", random_model, "--json")
    assert done.returncode == 1
    named = ", ".join(f"r{number} (stop, expected failed)" for number in range(5))
    says = f"7 of the requests did not end as they should: {named} and 2 more; see above"
    assert done.stderr == f"error: {says}\n"
    assert len(done.stdout.splitlines()) == 8


def test_standard_input_is_a_file_too(mlxr: Run, random_model: Path) -> None:
    done = mlxr(
        "replay", "-", "--model", random_model, "--json", stdin='{"tokens": [1, 5], "max_tokens": 2}\n'
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["prompt_tokens"] == [1, 5]
    bad = mlxr("replay", "-", "--model", random_model, stdin="{}")
    assert bad.stderr.startswith("error: standard input:1: there is no prompt")


@pytest.mark.parametrize(("leaked", "says"), [(1, "1 page is"), (3, "3 pages are")])
def test_pages_that_leak_are_an_error(
    mlxr_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaked: int, says: str
) -> None:
    def script(command: Command) -> Iterable[Event]:
        if isinstance(command, LoadModel):
            yield ModelReady(command.id, model_info(command.path))
        elif isinstance(command, Generate):
            yield finished(command.id)
            yield Stats("", 0, 0, 0, 0, leaked, 9, 0, 0)

    monkeypatch.setattr("app.cli.replay.Engine", lambda emit, settings: InstantEngine(emit, flushing(script)))
    done = mlxr_here("replay", write(tmp_path, {"tokens": [1]}), "--model", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {says} still held although every request has ended; ")
    assert f"0 cached, {leaked} leaked, of 9" in done.stdout


def test_ctrl_c_shows_what_had_ended(terminal: StartTerminal, random_model: Path, tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {"id": "short", "tokens": [1, 5], "max_tokens": 2, "ignore_eos": True},
        {"id": "endless", "tokens": [1, 5], "ignore_eos": True},
        {"id": "later", "tokens": [1, 5], "after": "endless"},
    )
    screen = terminal("replay", file, "--model", random_model, env={"TERM": "dumb"})
    screen.wait_for("short ")
    screen.type("\x03")
    assert screen.end() == 130
    assert "endless  cancelled" in screen.screen
    assert "1 at its length, 1 cancelled; 1 never began" in screen.screen
    assert "error" not in screen.screen


def test_a_reader_that_goes_away_ends_it_quietly(random_model: Path, tmp_path: Path) -> None:
    lines = [{"tokens": [1, 5], "max_tokens": 8, "ignore_eos": True} for _ in range(500)]
    arguments = command("replay", write(tmp_path, *lines), "--model", random_model, "--json")
    assert_ends_quietly(arguments)
