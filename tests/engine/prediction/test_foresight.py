"""What is learned of a machine is kept, whoever else learns of it at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from engine.pacing.ways import Way
from engine.prediction.foresight import Foresight
from engine.requests.request import Sequence
from engine.rest.tidying import SPILL_AFTER
from engine.steps.batch import Sent, Slice
from tests.engine.served_model import Model
from tests.engine.speculation.machine import answering


def foresight(file: Path, about: str = "here") -> Foresight:
    return Foresight(file, about, page_bytes=1000, page_size=16)


def learn(learning: Foresight, seconds: float) -> None:
    for tokens in (100, 400, 1600):
        learning.answered(tokens, 0, 1, tokens * seconds)


def first_token(learning: Foresight, tokens: int) -> float | None:
    return learning.first_token(tokens, 0, 0, (), 1, 0, 0)


def test_a_long_chat_is_read_back_where_only_short_prompts_were_computed(tmp_path: Path) -> None:
    learning = foresight(tmp_path / "model.json")
    for tokens in (20, 30, 25, 35, 40):
        learning.answered(tokens, 0, 1, 0.02)
    learning.restored(1600, 0.5)
    assert learning.should_restore(1600, 0, 1600, 0)


@pytest.mark.parametrize(("seconds", "is_quicker"), [(1.0, True), (3.0, False)])
def test_pages_are_read_back_where_that_is_quicker(seconds: float, is_quicker: bool, tmp_path: Path) -> None:
    learning = foresight(tmp_path / "model.json")
    learn(learning, 0.001)
    learning.restored(1600, seconds)
    assert learning.should_restore(1600, 0, 1600, 0) == is_quicker  # computing takes 1.6


def test_nothing_is_told_behind_a_prompt_of_which_nothing_is_known(tmp_path: Path) -> None:
    learning = foresight(tmp_path / "model.json")
    learn(learning, 0.001)
    known, more, too_long = answering(range(400), 3), answering(range(600), 3), answering(range(30_000), 3)
    everybody = [], [known], [known, more], [known, too_long]
    told = [learning.first_token(800, 0, 0, ahead, 1, 0, 0) for ahead in everybody]
    assert told[:3] == [pytest.approx(seconds, rel=0.1) for seconds in (0.8, 1.2, 1.8)]
    assert told[3] is None


def test_what_is_read_back_waits_for_new_memory_and_for_what_that_takes_once(tmp_path: Path) -> None:
    learning = foresight(tmp_path / "model.json")
    learn(learning, 0.001)
    learning.restored(1600, 0.5)
    learning.met(10**6, 0.3)
    learning.grew(10**6, 2.0)
    asked = [(0, 0, 0), (1600, 0, 0), (1600, 0, 10**6), (0, 0, 10**6), (1600, 10**6, 10**6)]
    told = [learning.first_token(2000, 1600, read, (), 1, grown, met) for read, grown, met in asked]
    assert told == [pytest.approx(0.4 + more, rel=0.1) for more in (0.0, 0.5, 0.8, 0.0, 2.8)]
    assert learning.should_restore(600, 0, 1600, 0)  # computing takes 0.6
    assert not learning.should_restore(600, 0, 1600, 10**6)


def step(
    sequence: Sequence, begin: int, share: float, *, ends: bool, answers: int = 0, way: Way = Way.APART
) -> Sent:
    """Some layers of a chunk of 400 tokens."""
    none = cast(Any, None)
    piece = Slice(sequence, begin, 400, share, begin, way, ends, is_last=False)
    return Sent((), none, none, answers, piece, (), none)


def test_a_chunk_teaches_what_its_steps_took_together(tmp_path: Path) -> None:
    learning, alone = foresight(tmp_path / "model.json"), answering(range(4000), 3)
    alone.request.came_alone = True
    for begin in (400, *[0] * 5):  # it gave way now and then, and was read again
        learning.took(step(alone, begin, 0.25, ends=False), 0.05)
        learning.took(step(alone, begin, 0.5, ends=False), 0.1)
        learning.took(step(alone, begin, 0.25, ends=True), 0.05)
    told = first_token(learning, 400)
    assert told == pytest.approx(0.2, rel=0.1)
    learning.took(step(alone, 800, 1.0, ends=True, answers=1), 9.0)
    learning.took(step(alone, 800, 1.0, ends=True, way=Way.ASIDE), 9.0)
    learning.took(step(alone, 800, 0.25, ends=False), 9.0)  # its others were not measured
    learning.took(step(alone, 1200, 0.75, ends=True), 9.0)
    assert first_token(learning, 400) == told


def test_beside_others_a_chunk_teaches_that_was_computed_in_one_step(tmp_path: Path) -> None:
    learning, sequence = foresight(tmp_path / "model.json"), answering(range(4000), 3)
    for begin in range(0, 2400, 400):
        learning.took(step(sequence, begin, 0.5, ends=False), 9.0)
        learning.took(step(sequence, begin, 0.5, ends=True), 9.0)
    assert first_token(learning, 400) is None
    for begin in range(0, 2400, 400):
        learning.took(step(sequence, begin, 1.0, ends=True), 0.2)
    assert first_token(learning, 400) == pytest.approx(0.2, rel=0.1)


def test_what_two_processes_learn_is_kept_of_both(tmp_path: Path) -> None:
    file = tmp_path / "rates" / "model.json"
    one, other = foresight(file), foresight(file)
    learn(one, 0.001)
    other.restored(1600, 0.5)
    one.save()
    other.save()
    assert first_token(foresight(file), 800) == pytest.approx(0.8, rel=0.1)
    told = foresight(file).first_token(1601, 1600, 1600, (), 1, 0, 0)
    assert told is not None
    assert 0.5 <= told < 0.6
    assert [path.name for path in file.parent.iterdir()] == ["model.json"]


def test_what_is_saved_again_is_not_learned_twice(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    learning = foresight(file)
    learn(learning, 0.001)
    learning.save()
    kept = file.read_text()
    learning.save()
    assert file.read_text() == kept
    learning.restored(1600, 0.5)
    learning.save()
    again = foresight(file)
    assert first_token(again, 800) == first_token(foresight(file), 800) is not None
    assert file.read_text().count("0.4") == kept.count("0.4") == 1  # 400 tokens took 0.4 s, once


@pytest.mark.parametrize("damage", ["", "{", '{"version": 6, "about": "there"}', "\udcff"])
def test_a_file_of_no_use_gives_way_to_all_that_is_known(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    learning = foresight(file)
    learn(learning, 0.001)
    learning.save()
    file.write_text(damage, errors="surrogateescape")
    assert first_token(foresight(file), 800) is None
    learning.restored(1600, 0.5)
    learning.save()
    assert first_token(foresight(file), 800) == pytest.approx(0.8, rel=0.1)


def test_what_cannot_be_written_is_kept_for_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "rates" / "model.json"
    file.parent.write_text("no folder")
    learning = foresight(file)
    learn(learning, 0.001)
    learning.save()
    file.parent.unlink()
    learning.save()
    assert first_token(foresight(file), 800) == pytest.approx(0.8, rel=0.1)


def test_a_model_at_rest_keeps_what_it_has_learned(tmp_path: Path) -> None:
    """It outlives an app that is killed."""
    model = Model(tmp_path, tmp_path / "kv")
    for number in range(4):
        model.ask(f"r{number}", tuple(range(3 + number, 120 + number)))
    model.rest(SPILL_AFTER - 1)
    assert not list(tmp_path.glob("cache/rates/*"))
    model.rest(SPILL_AFTER)
    assert len(list(tmp_path.glob("cache/rates/*.json"))) == 1
    model.serving.close()
