"""`mlxr kernels`: each operation's candidates on this machine, which runs and why; a check, or a profile."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from app import VERSION
from app.cli import kernels_profile
from app.cli.columns import terminal_width
from app.cli.model_option import add_model_option
from app.cli.terminal import Terminal, one_line
from app.errors import AppError
from app.model_location import locate
from app.paths import default_paths
from engine import (
    EngineError,
    KernelCheck,
    KernelMachine,
    KernelOp,
    KernelTable,
    check_kernels,
    kernel_machine,
    kernel_table,
    kernel_texts,
    known_kernels,
)

_GOOD = frozenset({"chosen", "slower", "untried", "trying"})


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser, otherwise="all that was measured before is shown")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--check",
        action="store_true",
        help="run every kernel on many shapes and compare with float64; 1 is returned when one is wrong",
    )
    kinds.add_argument(
        "--profile",
        action="store_true",
        help="measure a decode step of the model (otherwise the last used) part by part",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Namespace) -> int:
    """Print the table, check, or profile; 1 when a kernel failed the check."""
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        if args.profile:
            return kernels_profile.run(args, terminal, terminal_width(sys.stdout))
        return _check(args, terminal) if args.check else _table(args, terminal)
    except EngineError as error:
        raise AppError(str(error)) from None


def _table(args: Namespace, terminal: Terminal) -> int:
    spec = getattr(args, "model", None)
    model = locate(spec) if spec is not None else None
    table = kernel_table(default_paths().kernels, model, terminal.progress)
    if args.json:
        found = {"problem": table.problem, "ops": _ops(table), "texts": kernel_texts()}
        _answer_json(terminal, {**asdict(table.machine), **found})
    else:
        terminal.answer("".join(f"{line}\n" for line in table_lines(table)))
    return 0


def _check(args: Namespace, terminal: Terminal) -> int:
    began, machine = time.monotonic(), kernel_machine()
    checks: list[KernelCheck] = []
    for check in check_kernels(default_paths().kernels):
        checks.append(check)
        if not args.json:
            terminal.answer(f"{check_line(check)}\n")
    passed = all(check.passed for check in checks)
    summary = check_summary(machine, checks, time.monotonic() - began)
    if args.json:
        entries = [asdict(check) for check in checks]
        result = {**asdict(machine), "passed": passed, "summary": summary, "checks": entries}
        _answer_json(terminal, result)
    else:
        terminal.answer(f"\n{summary}\n")
    return 0 if passed else 1


def _answer_json(terminal: Terminal, value: dict[str, Any]) -> None:
    terminal.answer(json.dumps(value, indent=2) + "\n")


def _ops(table: KernelTable) -> list[dict[str, Any]]:
    return [asdict(op) for op in table.ops]


def table_lines(table: KernelTable) -> Iterable[str]:
    """The table for people."""
    machine = table.machine
    if machine.executor is None:
        yield f"no kernels to choose from on this machine: {machine.reason}"
        yield f"kernels for a GPU that this version has: {', '.join(known_kernels())}"
        return
    yield f"{machine.machine}; MLX {machine.mlx_version}, {machine.executor} ({machine.reason})"
    for op in table.ops:
        yield ""
        yield from _op_lines(op)
    if machine.executor == "emulated":
        yield "emulated kernels are not measured; `mlxr kernels --check` checks them"
    elif not table.ops:
        yield "nothing was measured here yet: `mlxr kernels --model M` measures the operations of a model"
    if table.problem:
        yield f"nothing new was measured: {one_line(table.problem)}"


def _op_lines(op: KernelOp) -> Iterable[str]:
    yield op.key
    width = max(len(candidate.name) for candidate in op.candidates)
    for one in op.candidates:
        mark = "→" if one.name == op.chosen else " " if one.status in _GOOD else "✗"
        took = "" if one.microseconds is None else f"{one.microseconds:.1f} µs"
        words = one.status if not one.reason else one_line(one.reason)
        yield f"{mark} {one.name:<{width}}  {took:>10}  {_error(one.error):<13}  {words}".rstrip()


def check_line(check: KernelCheck) -> str:
    """One kernel variant at one shape, for people."""
    verdict = "PASS" if check.passed else "FAIL"
    words = _error(check.error) if check.passed else one_line(check.reason)
    return f"{verdict}  {check.op}: {check.candidate}  {words}"


def check_summary(machine: KernelMachine, checks: Sequence[KernelCheck], seconds: float) -> str:
    """All of a check in one line, to be pasted into a report."""
    failed = [check for check in checks if not check.passed]
    names = f" ({', '.join(sorted({check.op.split()[0] for check in failed}))})" if failed else ""
    worst: dict[float, float] = {}
    for check in checks:
        if check.error is not None:
            worst[check.tolerance] = max(check.error, worst.get(check.tolerance, 0.0))
    errors = ", ".join(f"{error:.1e} of {limit:.0e}" for limit, error in sorted(worst.items()))
    return (
        f"mlxr kernels --check: {len(checks) - len(failed)} passed, {len(failed)} failed{names}; "
        f"worst errors {errors or 'none'}; {machine.machine}; MLX {machine.mlx_version}, {machine.executor}; "
        f"MLXR {VERSION}; {seconds:.0f} s"
    )


def _error(error: float | None) -> str:
    return "" if error is None else f"error {error:.1e}"
