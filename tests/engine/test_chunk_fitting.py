"""Chunks between a layer of the most tokens and two, as a GPU's host and device would take them."""

from __future__ import annotations

from engine.pacing.chunking import ChunkSizer
from engine.pacing.ways import Mixing
from tests.engine.simulated_machine import fill


def on_an_h100() -> ChunkSizer:
    """That has met a prompt and a chat of TinyLlama's alone, in a slow hour of the host."""
    chunks = ChunkSizer(2048, 16, 22, 6144, lambda: Mixing({}))
    chunks.filled(2048, 1.0, 0.0007 * 22)
    for _ in range(5):
        chunks.decoded(1, 0.00195)
    return chunks


def seconds_on_an_h100(tokens: int, layers: int, is_mixed: bool) -> float:
    """The slower one of host and device."""
    assert not is_mixed
    return max(0.0023 + 0.0004 * layers, 0.0008 + 0.0014 * tokens * layers / 4096)


def test_between_a_layer_of_the_most_tokens_and_two_there_are_two_of_fewer() -> None:
    steps = list(fill(on_an_h100(), 10 * 16384, seconds_on_an_h100, all_layers=22))[-200:]
    assert {(step.tokens, step.layers) for step in steps} == {(4096, 2)}


def test_a_chunk_goes_on_in_slices_of_as_much_work() -> None:
    chunks = on_an_h100()
    while chunks.next(0, 16384, 1) != 6144:
        tokens = chunks.next(0, 16384, 1)
        chunks.filled(tokens, 1 / 22, seconds_on_an_h100(tokens, 1, False), 1)
    while chunks.layers(4096, 22, 1) == 1:
        assert chunks.layers(6144, 22, 1) == 1
        chunks.filled(6144, 1 / 22, seconds_on_an_h100(6144, 1, False), 1)
    assert chunks.layers(6144, 22, 1) == 1
    assert chunks.next(0, 16384, 1) == 4096
    assert chunks.next(6144, 16384, 1) == 6144  # where none of 4,096 begins


def test_a_few_tokens_of_which_a_layer_was_slow_once_get_more_layers_again() -> None:
    chunks = on_an_h100()
    for _ in range(9):
        chunks.filled(512, 1 / 22, 0.0045, 1)
    assert chunks.layers(512, 22, 1) == 1
    for _ in range(9):
        chunks.filled(512, chunks.layers(512, 22, 1) / 22, 0.0019 + 0.0002 * chunks.layers(512, 22, 1), 1)
    assert chunks.layers(512, 22, 1) > 4
