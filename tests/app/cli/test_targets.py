"""Targets belong to one model on one kind of machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.rows import Target
from app.cli.targets import THE_GUIDE, Subject, targets_of

H200 = Subject("tinyllama-1.1b", "none", "CUDA", "NVIDIA H200")
GUIDE = Subject(THE_GUIDE, "none", "CPU", "some processor")


def test_the_shape_on_the_gpu_has_its_own() -> None:
    targets = targets_of(H200)
    assert targets["decode ratio", 2048] == Target("at least", 1.5)
    assert targets["decode ratio", 32768] == Target("at least", 1.2)
    assert targets["batch ratio", 32] == Target("at least", 1.5)
    assert targets["prefill ratio", 512] == Target("at least", 1.0)
    assert targets["prefill ratio", 5] == Target("at least", 1.2)
    assert targets["launches", 1] == Target("at most", 136)
    assert ("decode", 200) not in targets


def test_four_bits_promise_more() -> None:
    targets = targets_of(replace(H200, quant="q4"))
    assert targets["decode ratio", 128] == Target("at least", 2.0)
    assert targets["launches", 1] == Target("at most", 136)
    assert ("batch ratio", 8) not in targets


def test_the_guide_has_its_own_on_a_cpu() -> None:
    targets = targets_of(GUIDE)
    assert targets["decode", 200] == Target("at least", 150)
    assert targets["first token", 200] == Target("at most", 0.15)
    assert targets["decode ratio", 4000] == targets["prefill ratio", 200] == Target("at least", 0.95)


@pytest.mark.parametrize(
    "subject",
    [
        replace(H200, device_name="NVIDIA A100"),
        replace(H200, device="CPU"),
        replace(H200, model="llama-3.2-1b"),
        replace(H200, quant="q8"),
        replace(GUIDE, device="Metal"),
        replace(GUIDE, model=""),
    ],
)
def test_nothing_else_has_any(subject: Subject) -> None:
    assert targets_of(subject) == {}
