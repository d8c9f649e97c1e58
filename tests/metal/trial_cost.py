"""What the trials of a model's kernels take, with and without compiling.

    .venv/bin/python -m tests.metal.trial_cost MODEL [--quant q4] [--only WORD] [--json]

All cases of the model, as `mlxr kernels --model` has them, are checked and timed in a trial process, and then
once more in the same process, which has by then compiled all there is. Starting that process, and writing
down verdicts, do not count. Emulated kernels take long, attention most of all: `--only` picks cases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from app.cli.bench_model import shape_model
from app.errors import AppError
from app.model_location import locate
from engine import QUANTS, SHAPES, EngineError, Quant
from engine.kernels.report import model_cases
from metal.trial_case import Case
from metal.trial_messages import Task
from metal.trial_runner import Checked, Dropped, Postponed, TrialRunner
from metal.trial_scope import open_executor
from tests.metal.attention_speed import BUILD, executor_here


@dataclass(frozen=True, slots=True)
class TrialCost:
    """One case.

    Attributes:
        key, candidates: see `Case`; how many were tried, MLX's own among them.
        first, second: seconds of both passes.
        problems: what could not be tried to its end, or failed; it may have ended the process, so that the
            rest of its pass compiled again.
    """

    key: str
    candidates: int
    first: float
    second: float
    problems: tuple[str, ...]


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal.trial_cost")
    parser.add_argument("model", help="as `mlxr --model` takes it, or a shape of `mlxr bench --shape`")
    parser.add_argument("--quant", choices=QUANTS, default="none", help="of a shape")
    parser.add_argument("--only", default="", help="cases with this in their keys")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    name = executor_here()
    try:
        with _model(options.model, options.quant) as model:
            found, problems = model_cases(model, open_executor(name, BUILD))
    except (AppError, EngineError) as error:
        raise SystemExit(f"error: {error}") from None
    cases = {case.key: case for case in found if options.only in case.key}
    costs = trial_costs(TrialRunner(name, BUILD), list(cases.values()))
    if options.json:
        rows = [asdict(cost) for cost in costs]
        print(json.dumps({"executor": name, "problems": problems, "cases": rows}, indent=2))
    else:
        print("\n".join([*problems, *table(costs)]))


@contextmanager
def _model(name: str, quant: Quant) -> Generator[Path]:
    if name in SHAPES:
        with shape_model(name, quant, SHAPES[name].context) as written:
            yield written.model
    else:
        yield locate(name)


def trial_costs(runner: TrialRunner, cases: Sequence[Case]) -> list[TrialCost]:
    """Tries all cases twice. Raises TrialError when the process cannot be started."""
    tasks = [Task(case.spec, tuple(one.name for one in case.contenders)) for case in cases]
    seconds = [0.0] * (2 * len(tasks))
    problems: list[dict[str, None]] = [{} for _ in tasks]  # each once, in order
    last: float | None = None

    def begin(_index: int, _name: str) -> None:
        nonlocal last
        last = perf_counter() if last is None else last

    for outcome in runner.run([*tasks, *tasks], before=begin):
        now = perf_counter()
        seconds[outcome.index] += now - (now if last is None else last)
        last = now
        if isinstance(outcome, Checked) and outcome.status:
            problems[outcome.index % len(tasks)][f"{outcome.candidate}: {outcome.reason}"] = None
        elif isinstance(outcome, Dropped | Postponed):
            problems[outcome.index % len(tasks)][outcome.reason] = None
    return [
        TrialCost(case.key, len(case.contenders), seconds[at], seconds[at + len(cases)], tuple(problems[at]))
        for at, case in enumerate(cases)
    ]


def table(costs: Sequence[TrialCost]) -> Iterable[str]:
    """The costs in Markdown, their sum last, and what went wrong below."""
    yield "| case | candidates | first pass, s | second pass, s |"
    yield "|---|---|---|---|"
    for cost in costs:
        yield f"| {cost.key} | {cost.candidates} | {cost.first:.2f} | {cost.second:.3f} |"
    first, second = sum(cost.first for cost in costs), sum(cost.second for cost in costs)
    candidates = sum(cost.candidates for cost in costs)
    yield f"| all {len(costs)} | {candidates} | {first:.2f} | {second:.2f} |"
    for cost in costs:
        yield from (f"{cost.key}: {problem}" for problem in cost.problems)


if __name__ == "__main__":
    main()
