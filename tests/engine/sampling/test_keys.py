"""Keys of draws by their number, against published numbers of SplitMix64."""

import mlx.core as mx
import pytest

from engine.sampling.keys import Keys, categorical_rows

FROM_ZERO = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
"""SplitMix64's first outputs from state 0."""


def numbers(keys: mx.array) -> list[int]:
    return [high * 2**32 + low for high, low in keys.tolist()]


def test_keys_are_the_generators_outputs_in_order() -> None:
    assert numbers(Keys(0).take(3)) == FROM_ZERO


def test_a_key_depends_on_its_number_alone() -> None:
    together = numbers(Keys(5).take(6))
    keys = Keys(5)
    assert [numbers(keys.take(count)) for count in (1, 3, 2)] == [together[:1], together[1:4], together[4:]]
    assert keys.drawn == 6


def test_draws_that_came_to_nothing_are_made_again() -> None:
    keys = Keys(5)
    first = numbers(keys.take(6))
    keys.rewind(2)
    assert keys.drawn == 2
    assert numbers(keys.take(4)) == first[2:]


@pytest.mark.parametrize("drawn", [-1, 4])
def test_draws_to_come_cannot_be_taken_back(drawn: int) -> None:
    keys = Keys(5)
    keys.take(3)
    with pytest.raises(ValueError, match=f"3 draws were made; draw {drawn} "):
        keys.rewind(drawn)


def test_seeds_that_are_neighbours_share_no_key() -> None:
    seen = [key for seed in range(-20, 20) for key in numbers(Keys(seed).take(50))]
    assert len(set(seen)) == len(seen)


def test_without_a_seed_each_has_its_own() -> None:
    assert numbers(Keys(None).take(1)) != numbers(Keys(None).take(1))


@pytest.mark.parametrize("width", [1, 6, 33])
def test_each_row_is_drawn_as_if_alone(width: int) -> None:
    scores, keys = mx.random.normal((5, width), key=mx.random.key(1)), Keys(3).take(5)
    alone = [mx.random.categorical(row, key=key).item() for row, key in zip(scores, keys, strict=True)]
    assert categorical_rows(scores, keys).tolist() == alone
