"""Beside each other no answers wait for a compiler: what they need is compiled, and measured, at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.pacing.chunking import ChunkSizer
from engine.pacing.mixed_costs import MixedCosts
from engine.pacing.ways import Way, Ways
from engine.steps.parts import Part, are_mixed
from tests.engine.counting_device import Device
from tests.engine.pacing.test_mixed_costs import break_steps


@pytest.mark.usefixtures("slow_compiler")
def test_no_answer_waits_for_a_compiler_because_others_come_or_end(tmp_path: Path) -> None:
    """Of 3, 5, 6 and 7 answers products are kernels of their own: 2.6 s of a running answer on an H100."""
    device = Device(tmp_path)
    device.ask()
    device.rest()
    compiled = list(device.gpu.compiled)
    device.ask_at_once([20 + 5 * number for number in range(12)])
    assert list(device.gpu.compiled) == compiled


@pytest.mark.usefixtures("slow_compiler")
def test_prompts_go_with_answers_only_where_that_was_measured_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles what nothing else needs, which took 6.1 s of a running answer on an H100."""
    mixed, filled = list[int](), ChunkSizer.filled

    def note(self: ChunkSizer, tokens: int, *rest: Any) -> None:
        mixed.extend([tokens] * (rest[-1] is Way.MIXED))
        filled(self, tokens, *rest)

    monkeypatch.setattr(ChunkSizer, "filled", note)
    monkeypatch.setattr("engine.pacing.chunking.Ways", lambda: Ways(rest=1))
    monkeypatch.setattr(MixedCosts, "_ratio", lambda *_: 0.001)  # promises the most there is
    device = Device(tmp_path)
    device.ask_beside(tuple(range(3, 250)) * 4)
    assert not mixed
    device.rest()
    device.ask_beside(tuple(range(250, 3, -1)) * 4)
    assert mixed


@pytest.mark.usefixtures("slow_compiler")
@pytest.mark.parametrize(
    ("fails", "stay", "said"),
    [
        pytest.param(are_mixed, True, "prompts do not go with answers' tokens", id="an answer and a prompt"),
        pytest.param(lambda parts: len(parts) == 3, False, "a first step broke", id="three answers"),
    ],
)
def test_kernels_stay_where_only_prompts_among_answers_break_at_rest(
    fails: Callable[[Sequence[Part]], bool],
    stay: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No request meets such a step, as none is sent then. Pages are not trusted after either."""
    break_steps(monkeypatch, fails)
    monkeypatch.setattr("engine.pacing.chunking.Ways", lambda: Ways(rest=1))
    device = Device(tmp_path)
    assert device.model.kernels is not None
    device.model.kernels.choice.is_forced = False  # or they stay whatever breaks
    device.ask()
    assert device.model.memory.cached_pages > 0
    device.rest()
    assert device.model.memory.cached_pages == 0
    device.ask_beside(tuple(range(3, 250)) * 4)
    device.rest()
    assert (device.model.kernels is not None) is stay
    assert caplog.text.count(said) == 1
