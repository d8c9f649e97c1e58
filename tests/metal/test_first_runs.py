"""A process that ends while kernels run for the first times is held against them, and only then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metal.first_runs import ENOUGH_STEPS, MOST_ENDS, REASON, FirstRuns, settle
from metal.selection import Selection
from metal.trial_cache import TrialCache
from metal.trial_record import CandidateRecord, OpRecord
from metal.trial_scope import Scope

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import os, signal, sys
from pathlib import Path
from metal.first_runs import FirstRuns

first = FirstRuns(Path(sys.argv[1]), sys.argv[2].split())
first.begin()
if sys.argv[3] == "wait":
    print("ready", flush=True)
    sys.stdin.read()
if sys.argv[3] == "rests":
    first.rest()
os.kill(os.getpid(), signal.SIGKILL)
"""


def start(folder: Path, digests: str, how: str = "") -> subprocess.Popen[str]:
    """A process that runs kernels of these digests for the first times."""
    command = [sys.executable, "-c", CHILD, str(folder), digests, how]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(folder: Path, digests: str, how: str = "") -> None:
    """One that ends so."""
    process = start(folder, digests, how)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL


def test_kernels_whose_process_ended_twice_are_named(tmp_path: Path) -> None:
    end(tmp_path, "a b")
    assert settle(tmp_path) == frozenset()
    assert settle(tmp_path) == frozenset()  # it is counted once
    end(tmp_path, "b c")
    assert settle(tmp_path) == {"b"}
    assert settle(tmp_path) == frozenset()


def test_who_ends_at_rest_or_lives_is_no_witness(tmp_path: Path) -> None:
    for _ in range(MOST_ENDS):
        end(tmp_path, "a", "rests")
    alive = start(tmp_path, "a", "wait")
    assert alive.stdout
    assert alive.stdout.readline() == "ready\n"
    try:
        for _ in range(MOST_ENDS):
            assert settle(tmp_path) == frozenset()
    finally:
        alive.kill()
        alive.communicate()


def test_after_enough_steps_they_are_sound_for_good(tmp_path: Path) -> None:
    first = FirstRuns(tmp_path, ["a"])
    marks = tmp_path / "first-runs"
    for steps in (ENOUGH_STEPS - 1, 1):
        first.begin()
        assert len(list(marks.glob("*.marks"))) == 1
        for _ in range(steps):
            first.went_well()
        first.rest()
        assert list(marks.glob("*.marks")) == []
    first.begin()
    FirstRuns(tmp_path, ["a"]).begin()
    assert list(marks.glob("*.marks")) == []
    end(tmp_path, "a b")
    end(tmp_path, "a b")
    assert settle(tmp_path) == {"b"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sound": 1, "ends": []}', "null"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "first-runs").mkdir()
    (tmp_path / "first-runs" / "known.json").write_text(content)
    (tmp_path / "first-runs" / "1-a.marks").write_text(content)
    assert settle(tmp_path) == frozenset()
    assert not (tmp_path / "first-runs" / "1-a.marks").exists()


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "first-runs").write_text("")
    first = FirstRuns(tmp_path, ["a"])
    first.begin()
    first.rest()
    assert settle(tmp_path) == frozenset()
    assert os.listdir(tmp_path) == ["first-runs"]  # noqa: PTH208


def test_a_disabled_kernel_gives_way_to_the_builtin_in_every_process(tmp_path: Path) -> None:
    scope = Scope("here", "1", "emulated")
    record = OpRecord(
        "op",
        "ours",
        (
            CandidateRecord("mlx", "", "slower", 0.0, 9.0, "slower than ours"),
            CandidateRecord("ours", "d", "chosen", 0.0, 3.0, "3 times as fast"),
            CandidateRecord("other", "e", "slower", 0.0, 5.0, "slower than ours"),
        ),
    )
    apart = OpRecord(
        "apart", "mlx", (CandidateRecord("mlx", "", "chosen"), CandidateRecord("x", "f", "slower"))
    )
    TrialCache(tmp_path, scope).update(lambda records: records.update({"op": record, "apart": apart}))
    selection = Selection(tmp_path, scope)
    selection.disable({"d"}, REASON)
    for table in (selection.table(), Selection(tmp_path, scope).table()):
        other, changed = table
        assert other == apart
        assert changed.chosen == "mlx"
        assert [one.status for one in changed.candidates] == ["chosen", "died", "slower"]
        assert changed.candidates[1].reason == REASON
        assert changed.is_settled
    assert json.loads((tmp_path / "kernels.json").read_text())["format"] == 1
