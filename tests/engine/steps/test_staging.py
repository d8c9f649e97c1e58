"""What the device reads is what was handed on, however often the ring goes round."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.steps.staging import Staging, stays_with_host


def handed_on(staging: Staging, numbers: list[int], *, is_lent: bool) -> mx.array:
    if not is_lent:
        return staging.integers(numbers)
    # Evaluated where the ring waits for it, or at the end.
    size = 1 << max(0, len(numbers) - 1).bit_length()
    return staging.lend(numbers, size, lambda written: written[: len(numbers)] * 1, lambda read: read)


Numbers = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40)


@given(st.lists(st.tuples(Numbers, st.booleans()), min_size=1, max_size=30), st.sampled_from([0, 16, 64]))
def test_numbers_arrive(all_numbers: list[tuple[list[int], bool]], room: int) -> None:
    staging = Staging(room)
    arrays = [handed_on(staging, numbers, is_lent=is_lent) for numbers, is_lent in all_numbers]
    assert [array.tolist() for array in arrays] == [numbers for numbers, _ in all_numbers]
    assert all(array.dtype == mx.int32 for array in arrays)


@pytest.mark.parametrize("room", [0, 48])
def test_a_part_of_the_ring_is_written_again_when_it_was_read(room: int) -> None:
    staging, weight = Staging(room), mx.random.normal((1200, 1200))
    mx.eval(weight)
    busy = weight
    for _ in range(6):
        busy = busy @ weight * 0.01
    mx.async_eval(busy)  # what reads the ring comes behind it
    arrays = [staging.integers(np.full(16, number, np.int32)) for number in range(12)]
    assert [array.tolist() for array in arrays] == [[number] * 16 for number in range(12)]


def test_token_ids_are_of_the_type_that_steps_take() -> None:
    for staging in (Staging(), Staging(8)):
        ids = staging.token_ids((7, 0, 151_935))
        assert ids.dtype == mx.uint32
        assert ids.tolist() == [7, 0, 151_935]


def test_numbers_of_numpy_are_taken_as_they_are() -> None:
    for staging in (Staging(), Staging(8)):
        assert staging.integers(np.arange(5, dtype=np.int32)).tolist() == [0, 1, 2, 3, 4]


def test_where_no_memory_can_stay_arrays_are_new_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not stays_with_host(np.zeros(4096, np.int32))  # numpy's is no managed memory
    assert not Staging.for_device()._read
    assert not caplog.messages  # nothing is wrong with a CPU
    monkeypatch.setattr("engine.steps.staging.device_kind", lambda: "CUDA")
    monkeypatch.setattr("engine.steps.staging.stays_with_host", lambda _memory: False)
    staging = Staging.for_device()
    assert [staging.integers([number]).item() for number in range(3)] == [0, 1, 2]
    assert not staging._read
    assert "new arrays" in caplog.text
