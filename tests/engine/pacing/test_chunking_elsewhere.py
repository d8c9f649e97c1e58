"""Steps of prompts beside answers of another model."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from engine.pacing.chunking import ChunkSizer
from engine.pacing.slices import BESIDE
from engine.residents.elsewhere import NOBODY, Elsewhere
from engine.runner import Runner
from tests.engine.served_model import Model, long_prompt
from tests.engine.simulated_machine import LAYERS, Machine, fill, known
from tests.engine.watched import restore_always

MACHINE = Machine(alone=0.0, token=0.0002, layer=0.00002)
LONG = 20_000


def told(sizer: ChunkSizer, seconds: float, length: int = LONG) -> list[float]:
    """What steps of a prompt take while another model's answers need `seconds` between two of them."""
    sizer.elsewhere = Elsewhere(is_busy=True, answers=1, seconds=seconds)
    noise = random.Random(0)

    def cost(tokens: int, layers: int, is_mixed: bool) -> float:
        return MACHINE.seconds(tokens, layers, is_mixed=is_mixed) * noise.uniform(0.9, 1.1)

    return [step.seconds for step in fill(sizer, length, cost, answers=0)]


@pytest.mark.parametrize("seconds", [0.01, 0.05])
def test_they_are_as_short_as_among_answers_of_their_own(seconds: float) -> None:
    steps = told(known(MACHINE), seconds)[20:]
    assert median(steps) <= 1.1 * (BESIDE - 1) * seconds
    assert sorted(steps)[int(0.95 * len(steps))] <= 1.5 * (BESIDE - 1) * seconds
    assert median(steps) >= 0.4 * (BESIDE - 1) * seconds  # the prompt is to be read, too


def test_a_chunk_that_is_on_its_way_goes_on_in_short_steps() -> None:
    sizer = known(MACHINE)
    assert sizer.layers(1024, LAYERS) == LAYERS
    sizer.elsewhere = Elsewhere(is_busy=True, answers=1, seconds=0.02)
    assert MACHINE.seconds(1024, sizer.layers(1024, LAYERS), is_mixed=False) <= BESIDE * 0.02


def test_where_nobody_knows_what_answers_take_steps_are_as_short_as_can_be() -> None:
    sizer = known(MACHINE)
    assert max(told(sizer, 0.0, 500)) <= 1.5 * MACHINE.seconds(16, 1, is_mixed=False)


def test_what_is_known_of_prompts_alone_and_among_answers_stays() -> None:
    machine = replace(MACHINE, alone=0.02)
    sizer, other = known(machine), known(machine)
    told(sizer, 0.003)
    sizer.elsewhere = NOBODY
    assert sizer.rate == other.rate
    for answers in (0, 1):
        size = sizer.next(0, LONG, answers)
        assert size == other.next(0, LONG, answers)
        assert sizer.layers(size, LAYERS, answers) == other.layers(size, LAYERS, answers)


@pytest.mark.parametrize("has_process", [False, True])
def test_a_served_prompt_goes_by_them_until_they_have_ended(
    has_process: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.pacing.prompt_chunks.WORTH_ASIDE_S", 0.0)
    model = Model(tmp_path, None)
    has_process = has_process and model.serving._live.runner.has_aside
    monkeypatch.setattr(Runner, "has_aside", has_process)
    for number in range(2):
        model.ask(f"warm {number}", long_prompt(number, 40))

    def steps(name: str, number: int, elsewhere: Elsewhere) -> int:
        """That its prompt takes; the answer of one token comes with the last."""
        model.serving.add(model.request(name, long_prompt(number, 40), answer=1))
        count = 0
        while model.serving.busy:
            model.serving.work(elsewhere)
            count += 1
        return count

    alone = steps("alone", 2, NOBODY)
    assert steps("beside", 3, Elsewhere(is_busy=True, answers=1, seconds=1e-6)) >= 3 * alone
    assert steps("beside another's prompt", 4, Elsewhere(is_busy=True)) <= alone + 1
    assert steps("alone again", 5, NOBODY) <= alone + 1


def test_the_rest_of_a_long_prompt_is_not_cut_anew_each_time_it_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts, cut = 0, ChunkSizer.next

    def counted(self: ChunkSizer, begin: int, remaining: int, answers: int = 0) -> int:
        nonlocal cuts
        cuts += 1
        return cut(self, begin, remaining, answers)

    model, steps = Model(tmp_path, None), 0
    for number in range(2):
        model.ask(f"warm {number}", long_prompt(number, 40))
    monkeypatch.setattr(Runner, "has_aside", False)
    monkeypatch.setattr(ChunkSizer, "next", counted)
    model.serving.add(model.request("long", long_prompt(2, 40), answer=1))
    while model.serving.busy:
        model.serving.work(Elsewhere(is_busy=True, answers=1, seconds=1e-6))
        steps += 1
    assert steps > 12
    assert cuts <= steps + 12


@pytest.mark.parametrize(("elsewhere", "turns"), [(NOBODY, 1), (Elsewhere(is_busy=True, answers=1), 2)])
def test_pages_come_back_from_ssd_a_few_in_each_turn(
    elsewhere: Elsewhere, turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore_always(monkeypatch)
    monkeypatch.setattr("engine.kv.restoring.BYTES_AT_ONCE", 0)  # but four files of 64 pages
    first = Model(tmp_path, tmp_path / "kv", max_position_embeddings=8192)
    first.ask("long", long_prompt(0, 300), answer=1, chat="c")
    first.serving.close()
    again = Model(tmp_path, tmp_path / "kv", max_position_embeddings=8192)
    again.serving.add(again.request("again", long_prompt(0, 300), answer=1, chat="c"))
    found, counts = [0], again.model.memory.counts
    while again.serving.busy:
        again.serving.work(elsewhere)
        if counts.restored_pages > found[-1]:
            found.append(counts.restored_pages)
    assert found[-1] == 299
    assert len(found) - 1 == turns
