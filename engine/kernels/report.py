"""What there is to say about kernels on this machine: verdicts, and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import mlx.core as mx

from engine.errors import EngineError
from engine.kernels.block_cases import block_end_specs, block_product_specs
from engine.kernels.cases import attention_specs, build_case, end_specs, norm_spec, product_specs
from engine.loading.files import ModelFiles
from engine.loading.gguf.files import GgufFiles
from engine.loading.model import open_model
from engine.machine.machine import compute_dtype
from engine.settings import EngineSettings, choose_executor
from metal import agreement, candidates
from metal.errors import KernelError
from metal.executors import Executor
from metal.selection import Selection
from metal.source import kernel_files
from metal.trial_case import Case, CaseSpec
from metal.trial_record import OpRecord as KernelOp
from metal.trial_runner import TrialRunner
from metal.trial_scope import EXECUTOR_NAMES, ExecutorName, Scope, open_executor, this_scope


@dataclass(frozen=True, slots=True)
class KernelMachine:
    """Where kernels would run.

    Attributes:
        executor: "metal", "cuda" or "emulated"; None where MLX's built-in operations run alone.
        reason: why it is this one, for people.
        machine: device, memory and system or driver; "" without an executor.
        mlx_version: of the imported mlx.
    """

    executor: str | None
    reason: str
    machine: str = ""
    mlx_version: str = ""


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The verdicts known for a machine, by op, and what kept the missing ones from being found ("")."""

    machine: KernelMachine
    ops: tuple[KernelOp, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """What came of one kernel variant at one shape.

    Attributes:
        op, candidate: the op with its shape, and the variant.
        error: largest difference from float64 as a share of the largest value; None where there is none.
        tolerance: the largest that passes.
        passed: whether it ran and agreed.
        reason: why not, or "".
    """

    op: str
    candidate: str
    error: float | None
    tolerance: float
    passed: bool
    reason: str


def kernel_machine() -> KernelMachine:
    """Where kernels run here. Raises EngineError when a forced executor does not exist."""
    choice = choose_executor(None)
    if choice.name not in EXECUTOR_NAMES:
        return KernelMachine(None, choice.reason)
    scope = this_scope(cast("ExecutorName", choice.name))
    return KernelMachine(choice.name, choice.reason, scope.machine, scope.mlx)


def kernel_table(
    folder: Path,
    model: Path | None = None,
    say: Callable[[str], None] = lambda _line: None,
    *,
    measures: bool = True,
) -> KernelTable:
    """The table of this machine's verdicts, kept in `folder`.

    Args:
        model: a model's folder; its ops are in the table too, as they are for the kernels of this version.
        say: told, in a line, what is being measured.
        measures: whether the model's ops are measured now where they have no verdict, unless kernels are
            emulated, which takes long and says nothing about speed.

    Raises:
        EngineError: a forced executor does not exist, or the model cannot be read.
    """
    machine = kernel_machine()
    scope = _scope(machine)
    if scope is None:
        return KernelTable(machine, ())
    selection = Selection(folder, scope)
    problems: list[str] = []
    if model is not None:
        cases, problems = model_cases(model, open_executor(scope.executor, folder / "emulated"))
        for case in cases:
            selection.choose(case)
        if measures and scope.executor != "emulated" and selection.pending:
            say(f"trying kernels for {len(selection.pending)} operations")
            selection.run_pending()
    problems += [selection.problem] if selection.problem else []
    return KernelTable(machine, selection.table(), "; ".join(dict.fromkeys(problems)))


def check_kernels(folder: Path) -> Iterator[KernelCheck]:
    """Runs the agreement suite in processes of its own; yields what came of each kernel, as it comes.

    Args:
        folder: where the emulator keeps what it compiles.

    Raises:
        EngineError: there is nothing to run kernels on, or the processes cannot be started.
    """
    scope = _scope(kernel_machine())
    if scope is None:
        raise EngineError(
            "no GPU here that kernels run on, so there is nothing to check; "
            "MLXR_EXECUTOR=emulated checks them on the processor (Linux, needs g++)"
        )
    try:
        executor = open_executor(scope.executor, folder / "emulated")
        runner = TrialRunner(scope.executor, folder / "emulated")
        processes = agreement.processes_at_once(scope.executor)
        for check in agreement.run_suite(runner, executor, processes=processes):
            yield KernelCheck(
                check.key, check.candidate, check.error, check.tolerance, check.has_passed, check.reason
            )
    except KernelError as error:
        raise EngineError(str(error)) from error


def model_cases(model: Path, executor: Executor) -> tuple[list[Case], list[str]]:
    """A case for every op of the model, and why others cannot be built.

    Raises EngineError when the model cannot be read.
    """
    files = open_model(model)
    dtype = compute_dtype(files.stored_dtype)
    cases: list[Case] = []
    problems: list[str] = []
    for specs in (
        lambda: attention_specs(files.config, dtype, EngineSettings().page_size),
        lambda: (norm_spec(files.config, dtype),),
        lambda: _product_specs(files, dtype),
        lambda: _end_specs(files, dtype),
    ):
        try:
            cases.extend(build_case(spec, executor) for spec in specs())  # those before a failure stay
        except KernelError as error:
            problems.append(str(error))
    return cases, problems


def known_kernels() -> tuple[str, ...]:
    """The ops that there are kernels for."""
    return tuple(candidates.CASES)


def kernel_texts() -> dict[str, str]:
    """Each kernel's file, such as "pick.metal", and the digest of its text. Raises EngineError."""
    try:
        return kernel_files()
    except KernelError as error:
        raise EngineError(str(error)) from None


def _scope(machine: KernelMachine) -> Scope | None:
    if machine.executor is None:
        return None
    return Scope(machine.machine, machine.mlx_version, cast("ExecutorName", machine.executor))


def _product_specs(files: ModelFiles, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    if isinstance(files.weights, GgufFiles):
        return block_product_specs(files.weights, dtype)
    return product_specs(files.config, dtype)


def _end_specs(files: ModelFiles, dtype: mx.Dtype) -> tuple[CaseSpec, ...]:
    if isinstance(files.weights, GgufFiles):
        return block_end_specs(files.weights, dtype)
    return end_specs(files.config, dtype)
