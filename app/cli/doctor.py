"""`mlxr doctor`: what this machine has and what is wrong with it, in words or JSON."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from app.amounts import counted
from app.cli.findings import Finding
from app.cli.machine_checks import check_files, check_system, check_window
from app.cli.model_option import add_model_option
from app.cli.terminal import Terminal, one_line
from app.crash.check import check_crashes
from app.diagnostics import diagnostics
from app.errors import ModelNotFound
from app.model_location import locate
from app.paths import Paths, default_paths
from app.settings import SettingsFile

_WIDTH = 14


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings, and the engine's own reports as plain values.

    A report is None where it could not be made, `kv_loss` also where nobody asked for it.
    """

    findings: tuple[Finding, ...]
    machine: dict[str, Any] | None
    model: dict[str, Any] | None
    kv_loss: dict[str, Any] | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing is broken."""
        return all(finding.state != "broken" for finding in self.findings)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    add_model_option(parser)
    parser.add_argument(
        "--kv-bits",
        metavar="BITS",
        type=int,
        choices=(8, 4),
        help="look at the model with a KV cache in 8 or 4 bits, and measure what that costs",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--report",
        action="store_true",
        help="print the findings and the end of the log, to paste into a bug report",
    )
    form.add_argument("--json", action="store_true", help="print the findings as one JSON object")


def run(args: Namespace) -> int:
    """Examine and report; 1 when something is broken."""
    found = examine(getattr(args, "model", None), default_paths(), args.kv_bits)
    terminal = Terminal(sys.stdout, sys.stderr)
    if args.json:
        terminal.answer(json.dumps(_as_json(found), indent=2) + "\n")
    elif args.report:
        terminal.answer(diagnostics(report_lines(found), default_paths().log, Path.home()))
    else:
        terminal.answer("".join(f"{line}\n" for line in report_lines(found)))
    return 0 if found.healthy else 1


def examine(spec: str | None, paths: Paths, kv_bits: int | None = None) -> Examination:
    """Look at everything; a part that is broken does not keep the others from being looked at.

    `kv_bits`: of a KV cache whose cost is measured.
    """
    findings = check_system()
    try:
        # Imported here: where MLX does not load, the rest of the report is what helps.
        from app.cli.engine_checks import check_engine, check_kernels, check_model
        from app.cli.kv_checks import check_kv_loss
        from app.engine_settings import fit_settings
    except (ImportError, OSError) as error:
        advice = "run `make setup`"
        findings.append(Finding("Engine", "MLX", f"cannot be loaded ({error})", "broken", advice))
        window = [*check_window(), *check_crashes(paths.crashes)]
        return Examination((*findings, *window, *check_files(paths)), None, None)
    engine_findings, machine = check_engine()
    file_findings = check_files(paths)  # before the settings are loaded, which puts broken ones aside
    model, gone, path, loss = None, list[str](), None, None
    try:
        path = locate(spec, SettingsFile(paths.settings).load().settings.last_model, gone.append)
        model_findings, model = check_model(path, machine, kv_bits, fit_settings(paths))
        if kv_bits is not None and all(finding.state != "broken" for finding in model_findings):
            loss_findings, loss = check_kv_loss(path, kv_bits)
            model_findings += loss_findings
    except ModelNotFound as error:
        model_findings = [Finding("Model", "folder", str(error), "broken")]
    kernel_findings = check_kernels(paths, path if model else None) if machine else []
    window = [*check_window(), *check_crashes(paths.crashes)]
    findings += [*engine_findings, *kernel_findings, *window, *file_findings]
    findings += [*(Finding("Model", "last used", line, "note") for line in gone), *model_findings]
    reports = (asdict(report) if report else None for report in (machine, model, loss))
    return Examination(tuple(findings), *reports)


def report_lines(found: Examination) -> Iterable[str]:
    """The report for people, one section per area, and a verdict."""
    for area, findings in groupby(found.findings, key=lambda finding: finding.area):
        yield area
        for finding in findings:
            mark = {"ok": " ", "note": "·", "broken": "✗"}[finding.state]
            yield f"{mark} {finding.what:<{_WIDTH}}{one_line(finding.is_)}"
            if finding.advice:
                yield f"  {'':<{_WIDTH}}→ {finding.advice}"
        yield ""
    yield _verdict(found)


def _verdict(found: Examination) -> str:
    broken = sum(finding.state == "broken" for finding in found.findings)
    notes = sum(finding.state == "note" for finding in found.findings)
    if broken:
        return (
            f"{broken} {'thing is' if broken == 1 else 'things are'} broken (✗): what to do is beside each."
        )
    if notes:
        return f"Everything works; {counted(notes, 'thing')} could be better (·)."
    return "Everything works."


def _as_json(found: Examination) -> dict[str, Any]:
    checks = [
        {key.rstrip("_"): value for key, value in asdict(finding).items()} for finding in found.findings
    ]
    return {
        "healthy": found.healthy,
        "checks": checks,
        "machine": found.machine,
        "model": found.model,
        "kv_loss": found.kv_loss,
    }
