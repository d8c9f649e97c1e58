"""Words about the trials of kernels; without Qt."""

from __future__ import annotations

from engine import KernelTrials

TRYING = "Finding out what runs fastest on this Mac"
TRYING_ELSEWHERE = "Finding out what runs fastest on this machine"
LATER = "Later"
GO_ON = "Try kernels"
PUT_OFF = "Put off trials"
LATER_TOOLTIP = "Not before the next start of MLXR, or when you ask for it on the dashboard, under Kernels"
TOOLTIP = (
    "Kernels of MLXR’s own are compared with MLX’s, in a process of their own, while nothing is asked.\n"
    "You can chat meanwhile; what is faster is used from the next answer on.\n"
    "This is done once for each kind of model."
)


def is_on_show(trials: KernelTrials | None) -> bool:
    """Whether there is something to wait for that nobody has put off."""
    return trials is not None and trials.done < trials.total and not trials.are_put_off and not trials.problem


def strip_words(trials: KernelTrials, is_mac: bool) -> str:
    """One line while they go on, or wait for an answer."""
    said = f"{TRYING if is_mac else TRYING_ELSEWHERE}: {trials.done:,} of {trials.total:,}"
    if not trials.is_running:
        return f"{said} · paused"
    if trials.seconds_left is not None:
        said += f" · about {left_words(trials.seconds_left)}"
    return said


def left_words(seconds: float) -> str:
    """How long it takes still, as people say it."""
    if seconds < 50:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = max(1, round(seconds / 60))
    return "1 minute" if minutes == 1 else f"{minutes:,} minutes"


def pane_words(trials: KernelTrials | None) -> str:
    """For the dashboard; "" where there is nothing left to try."""
    if trials is None or trials.done >= trials.total:
        return ""
    said = f"{trials.done:,} of {trials.total:,} operations of this model were tried"
    if trials.problem:
        return f"{said}; the others cannot be ({trials.problem})"
    if trials.are_put_off:
        return f"{said}; the others are put off"
    if not trials.is_running:
        return f"{said}; it goes on when nothing is asked"
    left = f", about {left_words(trials.seconds_left)} to go" if trials.seconds_left is not None else ""
    return f"{said}{left}"
