"""Slices of a prompt on hosts that are slow for a moment: thinner ones only where they help answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.pacing.slices import Pace, Size, SliceSizer

ALONE, TOKEN = 0.0017, 4.5e-7
"""Seconds of an answer's step, and of a layer of a prompt's token, logged on an H200."""
MOST = 4096

Added = Callable[[int], float]
"""What a slice of a layer of so many tokens adds to a step."""


def sizes() -> list[Size]:
    return [Size(1 << bits, 1) for bits in range(4, MOST.bit_length())]


def steps(sizer: SliceSizer, count: int, added: Added) -> list[int]:
    """The tokens of so many slices, each as it is done and learned from."""
    taken: list[int] = []
    for _ in range(count):
        size = sizer.next(ALONE, TOKEN)
        sizer.took(size, ALONE + added(size.tokens), ALONE, TOKEN)
        taken.append(size.tokens)
    return taken


def test_where_a_host_is_slow_whatever_is_in_a_slice_it_stays_thick() -> None:
    sizer = SliceSizer(sizes())
    assert steps(sizer, 100, lambda tokens: 0.0009)[-1] == MOST
    slow = steps(sizer, 200, lambda tokens: 0.0023)
    assert slow.count(MOST) >= 0.9 * len(slow)
    assert slow[-1] == MOST


def test_where_tokens_are_what_takes_long_it_gets_thinner_and_stays_so() -> None:
    sizer = SliceSizer(sizes())
    assert steps(sizer, 100, lambda tokens: 0.0009)[-1] == MOST
    slow = steps(sizer, 200, lambda tokens: 0.0003 + 1e-6 * tokens)
    assert set(slow[50:]) == {1024}


def test_a_prompt_alone_that_was_quicker_than_thought_makes_the_next_slices_thicker() -> None:
    sizer = SliceSizer(sizes())
    slow_token = 40 * TOKEN
    thin = sizer.next(ALONE, slow_token)
    for _ in range(20):
        sizer.took(thin, ALONE + 0.0013, ALONE, slow_token)
    assert sizer.next(ALONE, slow_token).tokens <= 64
    assert sizer.next(ALONE, TOKEN).tokens == 2048


def layers(seconds: Callable[[int], float], token: float, count: int = 300) -> list[int]:
    """The layers of so many slices that have taken `seconds` of their work, tokens times layers."""
    sizer = SliceSizer([*sizes(), *(Size(MOST, layers) for layers in range(2, 23))])
    taken: list[int] = []
    for _ in range(count):
        size = sizer.next(ALONE, token)
        sizer.took(size, seconds(size.work), ALONE, token)
        taken.append(size.layers)
    return taken


@pytest.mark.parametrize(
    ("tokens", "takes", "pace"),
    [
        (16, 1.04, Pace(16 / 1.04, fits=True)),
        (16, 1.06, Pace(0.0, fits=False)),  # nothing is thinner
        (64, 1.04, Pace(64 / 1.04, fits=True)),
        (64, 1.06, None),
        (64, 2.6, None),
        (64, 2.7, Pace(0.0, fits=False)),
    ],
)
def test_a_pace_is_known_by_steps_that_were_short_enough_or_hopeless(
    tokens: int, takes: float, pace: Pace | None
) -> None:
    """Of steps that may take a second, and took so long."""
    sizer = SliceSizer([Size(tokens, 1) for tokens in (16, 64)])
    assert sizer.pace(0.1, 1.0) is None
    for _ in range(5):
        sizer.took(Size(tokens, 1), takes, 0.1, 0.0)
    assert sizer.pace(0.1, 1.0) == (pace if pace is None else Pace(pytest.approx(pace.work), pace.fits))


def test_one_layer_that_cost_next_to_nothing_does_not_bring_many() -> None:
    """A GPU computes a layer while its host asks for the answers' tokens; two it does not."""
    sizer = SliceSizer([*sizes(), *(Size(MOST, layers) for layers in range(2, 23))])
    taken: list[int] = []
    for _ in range(200):
        size = sizer.next(ALONE, TOKEN)
        seconds = max(ALONE + 0.0001, 0.0001 + TOKEN * size.work)
        sizer.took(size, seconds, ALONE, TOKEN)
        taken.append(size.layers)
    assert max(taken) == 1


def test_layers_that_are_dealt_evenly_count_as_those_that_were_chosen() -> None:
    sizer, token = SliceSizer([*sizes(), *(Size(MOST, layers) for layers in range(2, 23))]), TOKEN / 20
    for _ in range(100):
        size = sizer.next(ALONE, token)
        sizer.took(size, ALONE + 0.0001 * size.layers, ALONE, token)
    most = sizer.next(ALONE, token).layers
    assert most >= 8
    for _ in range(12):  # of 22 layers never as many as that
        sizer.took(Size(MOST, most - 1), 10 * ALONE, ALONE, token)
    assert sizer.next(ALONE, token).layers <= most // 2


def test_before_anything_is_known_a_slice_is_as_thin_as_can_be() -> None:
    assert SliceSizer(sizes()).next(ALONE, 0.0) == sizes()[0]


@pytest.mark.parametrize(("alone", "may"), [(0.01, 0.019), (0.13, 0.247), (0.14, 0.25), (0.2, 0.25)])
def test_a_step_may_take_nearly_twice_as_long_and_no_longer_than_the_screen_waits(
    alone: float, may: float
) -> None:
    assert SliceSizer(sizes()).may(alone) == pytest.approx(may)


def test_a_short_chunk_goes_in_twice_the_layers_at_most_and_says_nothing_of_thick_slices() -> None:
    sizer = SliceSizer(sizes())
    assert steps(sizer, 100, lambda tokens: 0.0009)[-1] == MOST
    layers = [sizer.most_layers(8)]
    for _ in range(3):
        sizer.took(Size(8, layers[-1]), ALONE + 1e-6, ALONE, TOKEN)
        layers.append(sizer.most_layers(8))
    assert layers == [4, 8, 16, 32]
    for _ in range(30):
        sizer.took(Size(8, 32), 10 * ALONE, ALONE, TOKEN)
    assert sizer.most_layers(8) < 8
    assert sizer.next(ALONE, TOKEN) == Size(MOST, 1)
    assert sizer.pace(ALONE, 1.9 * ALONE) == Pace(pytest.approx(MOST / (ALONE + 0.0009)), fits=True)
