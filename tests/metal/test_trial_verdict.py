"""Who wins, by which margin, and what is said of the others."""

from __future__ import annotations

import json

import pytest

from metal.trial_record import CandidateRecord, OpRecord, from_json
from metal.trial_verdict import decided, interrupted

OP = OpRecord(
    "op",
    "mlx",
    (
        CandidateRecord("mlx", ""),
        CandidateRecord("a", "1", "trying", error=1e-6),
        CandidateRecord("b", "2", "trying", error=2e-6),
        CandidateRecord("c", "3", "disagrees", reason="disagrees: error 1 > 0.002"),
    ),
)


@pytest.mark.parametrize(
    ("times", "chosen", "reasons"),
    [
        (
            {"mlx": 10.0, "a": 5.0, "b": 8.0},
            "a",
            ["slower than a", "2.00 times as fast as MLX's", "slower than a"],
        ),
        (
            {"mlx": 10.0, "a": 9.9, "b": 12.0},
            "mlx",
            [
                "no kernel is faster",
                "1.0% faster than MLX's; at least 2% is asked",
                "takes 1.20 times as long as MLX's",
            ],
        ),
        ({"mlx": 10.0, "a": 9.79, "b": 9.81}, "a", ["slower than a", "1.02 times as fast as MLX's"]),
        ({"mlx": 10.0, "a": 9.81, "b": 9.82}, "mlx", ["no kernel is faster"]),
    ],
)
def test_a_kernel_wins_by_two_percent_or_not_at_all(
    times: dict[str, float], chosen: str, reasons: list[str]
) -> None:
    record = decided(OP, times)
    assert record.chosen == chosen
    assert record.is_settled
    assert [one.reason for one in record.candidates][: len(reasons)] == reasons
    assert [one.name for one in record.candidates if one.status == "chosen"] == [chosen]
    assert record.candidates[3] == OP.candidates[3]


def test_without_a_builtin_to_compare_with_no_kernel_is_chosen() -> None:
    broken = CandidateRecord("mlx", "", "died", reason="ended by signal 6 (abort)")
    record = decided(OpRecord("op", "mlx", (broken, *OP.candidates[1:])), {})
    assert (record.chosen, record.is_settled) == ("mlx", True)
    assert record.candidates[1].reason == "nothing to compare with: MLX's own ended by signal 6 (abort)"


def test_what_was_half_tried_is_disabled_and_what_had_a_verdict_keeps_it() -> None:
    record = interrupted(OP)
    assert [one.status for one in record.candidates] == ["untried", "died", "died", "disagrees"]


def test_a_record_survives_json() -> None:
    assert from_json(json.loads(json.dumps(OP.as_json()))) == OP
