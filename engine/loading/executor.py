"""What a model runs on: the executor that settings and machine call for, and its kernels for the model."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

from engine.events.models import ModelInfo
from engine.kernels.choice import KernelChoice
from engine.kernels.kernels import Kernels
from engine.layers.decoder import Decoder
from engine.settings import EngineSettings, ExecutorChoice, choose_executor
from metal.emulator import Mode
from metal.first_runs import REASON, settle
from metal.selection import Selection
from metal.trial_runner import TrialRunner
from metal.trial_scope import EXECUTOR_NAMES, ExecutorName, open_executor, this_scope

log = logging.getLogger(__name__)


def executor_for(settings: EngineSettings) -> ExecutorChoice:
    """The executor to run, for the reason that settings give, where they give one.

    Raises EngineError for one that this machine does not have.
    """
    choice = choose_executor(settings.executor)
    if settings.executor is not None and settings.executor_reason:
        return replace(choice, reason=settings.executor_reason)
    return choice


def open_kernels(choice: ExecutorChoice, decoder: Decoder, settings: EngineSettings) -> Kernels | None:
    """The executor's kernels for this model, or None where MLX's own operations run alone."""
    if choice.name not in EXECUTOR_NAMES:
        return None
    name, compiled = cast("ExecutorName", choice.name), settings.cache / "emulated"
    executor = open_executor(name, compiled, Mode.PLAIN)
    runner = TrialRunner(name, compiled, command=settings.trial_command)
    selection = Selection(settings.cache, this_scope(name), runner)
    if doomed := settle(settings.cache):
        selection.disable(doomed, REASON)
    kernel_choice = KernelChoice(name, executor, selection, is_forced=choice.is_forced)
    return Kernels(kernel_choice, decoder, settings.kv_bits)


def with_kernels(info: ModelInfo, kernels: Kernels) -> ModelInfo:
    """`info` with what runs on kernels, and why. What does not is in the log too, once."""
    for note in kernels.notes:
        if note not in info.kernel_notes:
            log.warning("%s: %s", info.name, note)
    if kernels.is_in_place:
        name, reason = kernels.choice.name, kernels.attention_reason
    else:
        name, reason = "reference", f"MLX built-in operations; {kernels.attention_reason}"
    return replace(info, executor=name, executor_reason=reason, kernel_notes=kernels.notes)
