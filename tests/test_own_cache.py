"""Tests of engines begin on a machine of which nothing was measured; kernels are compiled once for all."""

from __future__ import annotations

import pytest

from engine import EngineSettings
from tests.conftest import COMPILED


@pytest.mark.parametrize("number", [1, 2])
def test_no_test_finds_what_another_has_left(number: int) -> None:
    left = EngineSettings().cache / "rates"
    assert not left.exists()
    left.mkdir()
    assert EngineSettings().cache == left.parent


def test_compiled_kernels_are_those_of_all_tests() -> None:
    assert (EngineSettings().cache / "emulated").resolve() == COMPILED.resolve()
