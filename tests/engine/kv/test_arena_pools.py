"""The arrays of some layers, by the numbers that these have in the model."""

from __future__ import annotations

import mlx.core as mx

from engine.kv.arena_pools import ArenaPools

LAYERS = 5


def pools_of(layers: int) -> ArenaPools:
    keys, values = ([mx.array(10 * kind + at) for at in range(layers)] for kind in range(2))
    return ArenaPools(keys, values, mx.arange(24).reshape(3, 8), mx.array(1))


def test_a_part_has_the_arrays_of_its_layers_and_hands_its_fence_on_by_itself() -> None:
    whole = pools_of(LAYERS)
    before = whole.fence
    part = ArenaPools.of(whole.part(range(2, 5)), first=2)
    for layer in range(2, 5):
        own, all_of_it = part.layer(layer), whole.layer(layer)
        assert (own.keys.item(), own.values.item()) == (layer, 10 + layer)
        assert own.keys is all_of_it.keys
        assert own.fence is before
    part.fence = mx.array(7)
    assert part.layer(3).fence is part.fence
    assert whole.fence is before
    inner = ArenaPools.of(part.part(range(3, 4)), first=3)
    assert inner.layer(3).fence is part.fence
    assert inner.layer(3).keys is whole.keys[3]


def test_what_is_traced_gets_a_fence_of_one_form() -> None:
    pools = pools_of(LAYERS)
    for fence in (pools.fence, mx.arange(8), mx.zeros((2, 4, 64))):
        pools.fence = fence
        assert ArenaPools.of(pools.arrays).fence.tolist() == fence.reshape(-1).tolist()[:8]
