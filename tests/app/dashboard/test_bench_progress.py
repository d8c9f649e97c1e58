"""How far a benchmark is: what its lines come to, and that `mlxr bench` tells as many as a plan counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.dashboard.bench_child import BenchChild
from app.dashboard.bench_plans import KINDS, BenchPlan, Kind, Sizes
from app.dashboard.bench_progress import BenchProgress
from app.model_location import GUIDE

SMALL = Sizes((16, 24), (1, 2), 64, 3, 4)


def test_each_pair_is_a_share_of_its_quantity() -> None:
    progress = BenchProgress(2)
    shares: list[float | None] = []
    for line in (
        "loading the model: 40%",
        "16 tokens of prompt: pair 0 of 3",
        "16 tokens of prompt: pair 1 of 3",
        "16 tokens of prompt: pair 3 of 3",
        "a note: pair of shoes",
        "32 tokens of prompt: pair 0 of 3",
        "32 tokens of prompt: pair 2 of 3",
        "one more than was planned: pair 3 of 3",
    ):
        progress.hear(line)
        shares.append(progress.share)
    assert shares == [None, 0, 1 / 8, 3 / 8, 3 / 8, 4 / 8, 6 / 8, 1]


@pytest.mark.parametrize(
    "kind", [kind if kind == "batches" else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
)
def test_a_plan_counts_what_the_benchmark_tells(tmp_path: Path, kind: Kind) -> None:
    plan, lines = BenchPlan(kind, "short", str(GUIDE)), list[str]()
    BenchChild(tmp_path).run(plan.arguments(SMALL), lines.append)
    progress, shares = BenchProgress(plan.quantities(SMALL)), list[float]()
    for line in lines:
        progress.hear(line)
        if progress.share is not None and progress.share not in shares:
            shares.append(progress.share)
    steps = plan.quantities(SMALL) * (SMALL.pairs + 1)
    assert shares == pytest.approx([step / steps for step in range(steps)])
