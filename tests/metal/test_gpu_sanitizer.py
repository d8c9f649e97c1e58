"""The GPU harness itself: what it would run, and how it reads what the tools say; no GPU is needed."""

from __future__ import annotations

import argparse

import pytest

from metal.source import KERNELS
from tests.metal.gpu_sanitizer import CLEAN, CORPUS, PLANTED, Run, command, few, judged

FOUND = "========= ERROR SUMMARY: 3 errors\n"
NOTHING = "20 variants agree\n========= ERROR SUMMARY: 0 errors\n"
RACE = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"


@pytest.mark.parametrize(
    ("run", "text", "code", "is_right"),
    [
        (Run("memcheck", "overrun_write"), FOUND, 1, True),
        (Run("memcheck", "overrun_write"), NOTHING, 0, False),
        (Run("racecheck", "race"), RACE, 0, True),
        (Run("memcheck", "clean"), NOTHING, 0, True),
        (Run("memcheck", "clean"), "20 variants agree\n" + FOUND, 0, False),
        (Run("memcheck", "clean"), NOTHING, 1, False),
        (Run("synccheck", "clean"), "========= ERROR SUMMARY: 0 errors\n", 0, False),
        (Run("racecheck", "clean"), "20 variants agree\n" + RACE, 0, False),
        (Run("racecheck", "clean"), "Traceback", 1, False),
    ],
)
def test_a_run_is_right_when_the_tool_finds_what_there_is(
    run: Run, text: str, code: int, is_right: bool
) -> None:
    assert judged(run, text, code)[1] is is_right


def test_every_kernel_runs_under_every_tool_and_only_they_are_watched() -> None:
    named = {name for variant in few(1) for name in str(variant["kernel"]).split(", ")}
    assert named | {"attention_reduce"} == {path.stem for path in KERNELS.glob("*.metal")}
    options = argparse.Namespace(sanitizer="compute-sanitizer", watched="kns=custom_kernel", each=2)
    for run in (*PLANTED, *CLEAN):
        line = command(run, options)
        assert line[:5] == ["compute-sanitizer", "--tool", run.tool, "--kernel-name", "kns=custom_kernel"]
        assert not run.must_find or (CORPUS / f"{run.work}.metal").exists()
    assert {run.tool for run in CLEAN} == {"memcheck", "racecheck", "synccheck"}
