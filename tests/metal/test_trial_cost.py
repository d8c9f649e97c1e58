"""What trials cost: two passes in one process, of which the second compiles nothing; what fails is named."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest

from metal.trial_runner import TrialRunner
from tests.metal.trial_cost import TrialCost, table, trial_costs
from tests.metal.trial_provider import COMPILED, spec, twice


@pytest.fixture
def runner(tmp_path: Path) -> TrialRunner:
    return TrialRunner("emulated", tmp_path, limit_s=15.0)


def test_what_is_compiled_counts_in_the_first_pass_alone(
    runner: TrialRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_so_far = tmp_path / "compiled"
    compiled_so_far.touch()
    monkeypatch.setenv(COMPILED, str(compiled_so_far))

    def clock() -> float:
        """Compiling takes longer than anything else on any machine."""
        return perf_counter() + 1e4 * len(compiled_so_far.read_text().splitlines())

    monkeypatch.setattr("tests.metal.trial_cost.perf_counter", clock)
    names = {"a": ["compiles once"], "b": ["fast", "as fast"]}
    compiled, other = trial_costs(runner, [twice(spec(*of, key=key).params) for key, of in names.items()])
    assert compiled.first > 1e4 > compiled.second
    assert compiled.second > 0.012  # MLX's own takes 3 ms, and four or more of it are timed
    assert other.second > 0
    assert (other.key, other.candidates, other.problems) == ("b", 3, ())


def test_each_failure_is_told_once(runner: TrialRunner) -> None:
    (cost,) = trial_costs(runner, [twice(spec("aborts", "wrong", "fast").params)])
    assert cost.problems == ("aborts: ended by signal 6 (abort)", "wrong: disagrees: error 0.15 > 1e-05")


def test_a_table_ends_in_sums_and_what_went_wrong() -> None:
    assert list(
        table([TrialCost("pick", 2, 3.5, 0.25, ()), TrialCost("embed", 3, 1.25, 0.05, ("x: died",))])
    ) == [
        "| case | candidates | first pass, s | second pass, s |",
        "|---|---|---|---|",
        "| pick | 2 | 3.50 | 0.250 |",
        "| embed | 3 | 1.25 | 0.050 |",
        "| all 2 | 5 | 4.75 | 0.30 |",
        "embed: x: died",
    ]
