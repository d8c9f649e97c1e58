"""Checks of the engine and of one model, in the engine's own words."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from app.amounts import counted, size
from app.cli.findings import Finding, amount
from app.paths import Paths
from engine import (
    EngineError,
    EngineSettings,
    MachineReport,
    ModelError,
    ModelSummary,
    StoredKind,
    inspect_model,
    kernel_table,
    machine_report,
    model_fit,
)

_INSTALL_OPENBLAS = (
    "install it (Debian, Ubuntu: apt install libopenblas0-pthread): prompts are read many times faster"
)
_INSTALL_COMPILER = "install one (Debian, Ubuntu: apt install g++): MLX compiles fused operations with it"
_KERNEL_TROUBLES = frozenset({"disagrees", "does not compile", "hangs", "died"})
_MEASURE = "MLXR does it when nothing is asked of it; `mlxr kernels --model M` does it now"


def check_engine() -> tuple[list[Finding], MachineReport | None]:
    """MLX, its device, the executor and what makes a CPU fast; the report is None when the engine refuses."""
    area = "Engine"
    try:
        report = machine_report()
    except EngineError as error:
        return [Finding(area, "executor", str(error), "broken", "unset MLXR_EXECUTOR")], None
    device = f"{report.device} ({report.device_name})" if report.device_name else report.device
    findings = [
        Finding(area, "MLX", report.mlx_version),
        Finding(area, "device", f"{device}, {size(report.memory_bytes)} for models"),
        Finding(area, "executor", f"{report.executor}: {report.executor_reason}"),
    ]
    if report.device == "CPU" and sys.platform.startswith("linux"):
        findings += [_openblas(report, area), _compiler(area)]
    return findings, report


def check_model(
    path: Path,
    report: MachineReport | None,
    kv_bits: int | None = None,
    settings: EngineSettings | None = None,
) -> tuple[list[Finding], ModelSummary | None]:
    """What the model at `path` is and needs, with a KV cache in `kv_bits` bits or as computed.

    `settings`: what is set for KV memory; the usual without it. The summary is None when it cannot be used.
    """
    area = "Model"
    try:
        model = inspect_model(path, kv_bits)
    except EngineError as error:
        if kv_bits is not None and not isinstance(error, ModelError):
            return check_model(path, report, settings=settings)  # such bits are not for it; the rest is
        return [Finding(area, "files", str(error), "broken")], None
    page = model.kv_bytes_per_token * EngineSettings().page_size
    findings = [
        Finding(area, "file" if path.is_file() else "folder", model.path),
        Finding(area, "family", f"{model.family}, {amount(model.parameters)} parameters"),
        Finding(
            area, "weights", f"{size(model.weight_bytes)} in memory, {model.quantization or 'not quantised'}"
        ),
        *(_stored(kind, area) for kind in model.kinds),
        Finding(area, "computes in", model.dtype),
        Finding(area, "context", counted(model.context_length, "token")),
        Finding(
            area,
            "KV cache",
            f"{size(model.kv_bytes_per_token)} a token, {size(page)} a page"
            + (f", in {kv_bits} bits" if kv_bits else ""),
        ),
        _template(model, area),
    ]
    if report is not None:
        findings.append(_fit(model, report, area, settings))
    return findings, model


def check_kernels(paths: Paths, model: Path | None) -> list[Finding]:
    """What runs of our kernels, and each that does not work here; nothing where only MLX's own can run.

    `model` is one whose operations are looked at; None for those that were measured before.
    """
    table = kernel_table(paths.kernels, model, measures=False)
    if table.machine.executor is None or not table.ops:
        return []
    area, what = "Engine", "kernels"
    measured = [op for op in table.ops if op.is_settled]
    ours = sum(op.chosen != op.candidates[0].name for op in measured)
    waiting = 0 if table.machine.executor == "emulated" else len(table.ops) - len(measured)
    advice = "MLX's own operations run in their place; `mlxr kernels` shows the others"
    return [
        *(
            [Finding(area, what, f"ours run {ours} of {len(measured)} measured operations")]
            if measured
            else []
        ),
        *(
            [Finding(area, what, f"{waiting} operations wait to be measured", "note", _MEASURE)]
            if waiting
            else []
        ),
        *(Finding(area, what, problem, "note", advice) for problem in filter(None, [table.problem])),
        *(
            Finding(area, what, f"{one.name} at {op.key} is off: {one.reason}", "note", advice)
            for op in table.ops
            for one in op.candidates
            if one.status in _KERNEL_TROUBLES
        ),
    ]


def _openblas(report: MachineReport, area: str) -> Finding:
    if report.openblas:
        return Finding(area, "OpenBLAS", f"{report.openblas} is used")
    return Finding(area, "OpenBLAS", "not found", "note", _INSTALL_OPENBLAS)


def _compiler(area: str) -> Finding:
    # MLX's CPU build calls g++ by this name.
    found = shutil.which("g++")
    if found:
        return Finding(area, "compiler", found)
    return Finding(area, "compiler", "no g++", "note", _INSTALL_COMPILER)


def _template(model: ModelSummary, area: str) -> Finding:
    if model.has_chat_template:
        return Finding(area, "chat template", "present")
    return Finding(
        area, "chat template", "none", "note", "it completes text, but cannot chat: use an instruct model"
    )


def _stored(kind: StoredKind, area: str) -> Finding:
    tensors = counted(kind.tensors, "tensor")
    memory = "" if kind.memory_bytes == kind.file_bytes else f", {size(kind.memory_bytes)} in memory"
    runs = f"; {kind.runs}" if kind.runs else ""
    return Finding(area, "stored", f"{kind.name}: {tensors}, {size(kind.file_bytes)}{memory}{runs}")


def _fit(model: ModelSummary, report: MachineReport, area: str, settings: EngineSettings | None) -> Finding:
    fit = model_fit(model, report.memory_bytes, settings=settings)
    weights, memory = size(fit.weight_bytes), size(fit.memory_bytes)
    if fit.verdict == "does not fit":
        is_ = f"does not fit: {weights} of weights in {memory} of memory"
        return Finding(area, "fit", is_, "broken", "choose a smaller model or a 4-bit version")
    pages = f"{size(fit.kv_bytes)} of pages for {counted(fit.context, 'token')}"
    if fit.verdict == "tight":
        is_ = (
            f"tight: {weights} of weights, and {pages} where there is room for {size(fit.kv_budget)}, "
            f"which is {counted(fit.most_context, 'token')} of context; of {memory}"
        )
        return Finding(area, "fit", is_, "note", "for longer chats choose a smaller model or a 4-bit version")
    return Finding(area, "fit", f"fits: {weights} of weights and {pages}, of {memory}")
