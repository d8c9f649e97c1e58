"""The arrays of some layers, by the numbers that these have in the model."""

from __future__ import annotations

import mlx.core as mx

from engine.kv.arena_pools import ArenaPools

LAYERS = 5


def pools_of(layers: int) -> ArenaPools:
    keys, values, fences = ([mx.array(10 * kind + at) for at in range(layers)] for kind in range(3))
    return ArenaPools(keys, values, fences, mx.array(1))


def test_a_part_has_the_arrays_of_its_layers_and_hands_its_fences_on_by_itself() -> None:
    whole = pools_of(LAYERS)
    before = list(whole.fences)
    part = ArenaPools.of(whole.part(range(2, 5)), first=2)
    for layer in range(2, 5):
        own, all_of_it = part.layer(layer), whole.layer(layer)
        assert (own.keys.item(), own.values.item(), own.fence.item()) == (layer, 10 + layer, 20 + layer)
        assert own.keys is all_of_it.keys
    fence = mx.array(7)
    part.hand_on(3, fence)
    assert part.layer(3).fence is fence
    assert [part.layer(layer).fence is fence for layer in (2, 4)] == [False, False]
    assert all(old is new for old, new in zip(before, whole.fences, strict=True))
    ArenaPools.of(whole.arrays).hand_on(0, fence)
    assert whole.fences[0] is before[0]
    inner = ArenaPools.of(part.part(range(3, 4)), first=3)
    assert inner.layer(3).fence is fence
    assert inner.layer(3).keys is whole.keys[3]
