"""Noise changes how a question is typed, not what it asks, and does so the same way for a seed."""

from __future__ import annotations

from random import Random

import pytest

from resources.guide.corpus import HERE
from resources.guide.noise import Noise, read_thesaurus

QUESTION = "how do i stop the answer"


@pytest.fixture(scope="module")
def noise() -> Noise:
    return Noise(HERE / "noise")


def test_the_same_seed_types_the_same(noise: Noise) -> None:
    def typed(seed: int) -> list[str]:
        random = Random(seed)
        return [noise.finish(noise.surround(QUESTION, random, True), random) for _ in range(50)]

    assert typed(3) == typed(3)
    assert len(set(typed(3))) > 20


def test_slips_change_at_most_a_few_letters(noise: Noise) -> None:
    random = Random(1)
    for _ in range(300):
        typed = noise.finish(QUESTION, random).lower().rstrip("?!. ")
        assert abs(len(typed) - len(QUESTION)) <= 2
        assert len(typed.split()) == len(QUESTION.split())


def test_the_apps_name_is_put_only_behind_questions_about_it(noise: Noise) -> None:
    random = Random(1)
    about = [noise.surround(QUESTION, random, about_app=True) for _ in range(500)]
    other = [noise.surround(QUESTION, random, about_app=False) for _ in range(500)]
    assert any("mlxr" in text.lower() for text in about)
    assert not any("mlxr" in text.lower() for text in other)


def test_a_thesaurus_word_never_stands_for_itself() -> None:
    others = read_thesaurus(HERE / "noise" / "thesaurus.txt")
    assert "halt" in others["stop"]
    assert "stop" in others["halt"]
    assert all(word not in group for word, group in others.items())
