"""A profile in words: rows that add up, whose is what, and an estimate that is called one."""

from __future__ import annotations

import json
from dataclasses import replace

from app.profile_words import COLUMNS, ESTIMATE, profile_rows, profile_values, profile_words, runs_words
from engine import StepPart, StepProfile

PROFILE = StepProfile(
    model="/home/somebody/models/tiny",
    tokens=511,
    rounds=25,
    step=2e-3,
    building=3e-4,
    empty=1.25e-5,
    parts=(
        StepPart("project", "64→128", 4, {"matvec": 4}, 1e-4),
        StepPart("gated", "64→96", 4, {"mlx.Matmul": 4, "mlx.Sigmoid": 4}, 3e-4),
    ),
    launches={"matvec": 4, "mlx.Matmul": 4, "mlx.Sigmoid": 4, "mlx.Add": 1},
)


def test_each_part_has_whose_it_is_its_launches_times_and_share() -> None:
    assert profile_rows(PROFILE) == [
        ("project 64→128", "matvec", "4", "100.0 µs", "400.0 µs", "20 %"),
        ("gated 64→96", "MLX: Matmul, Sigmoid", "8", "300.0 µs", "1.20 ms", "60 %"),
        ("between them", "MLX: Add", "1", "–", "–", "–"),
        ("all parts", "", "", "", "1.60 ms", "80 %"),
        ("left over: host, waiting", "", "", "", "400.0 µs", "20 %"),
        ("the step, measured whole", "", "13", "", "2.00 ms", "100 %"),
    ]
    assert len(COLUMNS) == len(profile_rows(PROFILE)[0])


def test_a_part_that_is_over_before_waiting_is_has_no_times() -> None:
    """As a small model's products on a large GPU."""
    quick = replace(PROFILE, parts=(replace(PROFILE.parts[0], alone=0.0), PROFILE.parts[1]))
    assert profile_rows(quick)[0] == ("project 64→128", "matvec", "4", "too short", "–", "–")
    assert "too short to tell" in profile_words(quick)
    assert "too short" not in profile_words(PROFILE)


def test_parts_that_overlap_in_a_step_come_to_more_than_it() -> None:
    rows = profile_rows(replace(PROFILE, step=1e-3))
    assert ("less where they overlap", "", "", "", "-600.0 µs", "-60 %") in rows


def test_it_is_said_to_be_an_estimate_and_of_what() -> None:
    said = profile_words(PROFILE)
    for part in ("511", "2.00 ms", "25 rounds", "builds the step in 300.0 µs", ESTIMATE, "12.5 µs"):
        assert part in said
    assert "builds" not in profile_words(replace(PROFILE, building=None))


def test_plain_values_have_all_of_it_but_the_folder() -> None:
    values = json.loads(json.dumps(profile_values(PROFILE)))
    assert "somebody" not in json.dumps(values)
    assert values["parts"][1]["seconds"] == 4 * 3e-4
    assert values["parts"][1]["share"] == 0.6
    assert round(values["left"], 9) == 4e-4
    assert values["launches"] == PROFILE.launches
    assert values["note"] == ESTIMATE


def test_what_the_host_computes_waits_for_nothing() -> None:
    assert runs_words({"host.gated": 4}) == "the host"
    said = profile_words(replace(PROFILE, empty=0.0))
    assert "Waiting for nothing" not in said
    assert "Waiting for nothing" in profile_words(PROFILE)
