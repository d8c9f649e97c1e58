"""The SSD tier after its process was killed while it deleted a chat: at each of its system calls."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from engine.kv.page_data import ROOT_KEY, SpilledRun
from tests.engine.kv.spilled import assert_holds, owners_in, pages, read, spilled
from tests.engine.kv.ssd.tiers import opened, page_files, stored

SECRET, SHARED = frozenset({"secret"}), frozenset({"secret", "other"})


def killed(folder: Path, copies: Path) -> dict[int, Path]:
    """A copy of `folder` for each system call, at which a process died that deleted the chat in it."""
    command = [sys.executable, "-m", "tests.engine.kv.forgetting_child", "secret"]
    pipe, died = subprocess.PIPE, dict[int, Path]()
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for calls in count(1):
            copy = shutil.copytree(folder, copies / str(calls))
            process.stdin.write(f"{copy} {calls}\n")
            process.stdin.flush()
            ended = process.stdout.readline()
            if ended == "0\n":
                break
            assert ended == f"{-signal.SIGKILL}\n", "it ended in another way"
            died[calls] = copy
        process.stdin.close()
    assert process.returncode == 0
    return died


@pytest.mark.timeout(120)
def test_wherever_a_chat_s_end_is_cut_short_it_is_gone_and_nothing_else(tmp_path: Path) -> None:
    """The second has its beginning with another chat, which owns the third, too."""
    runs = [
        spilled(ROOT_KEY, pages(100, 2), (SECRET,) * 2),
        spilled(ROOT_KEY, pages(200, 4), (SHARED,) * 3 + (SECRET,)),
        spilled(ROOT_KEY, pages(300, 2), (SHARED,) * 2),
        spilled(ROOT_KEY, pages(400, 2), (frozenset({"other"}),) * 2),
    ]
    folder = tmp_path / "kv"
    tier = opened(folder)
    stored(tier, *runs)
    tier.close(10)
    is_noted = 0
    for calls, copy in killed(folder, tmp_path).items():
        has_begun = any(copy.glob("*.forgotten"))
        kept = [pages_found(copy, run) for run in runs]
        if has_begun:
            assert kept == [0, 3, 2, 2], f"killed at call {calls}"
            assert owners_in(copy) == {"other"}
            assert not any(copy.glob("*.forgotten"))
        is_noted += has_begun
    assert is_noted > 50


def pages_found(folder: Path, run: SpilledRun) -> int:
    """By the next process; each is what it was, and the sum of bytes is right."""
    tier = opened(folder)
    found = tier.count(run.keys)
    if found:
        assert_holds(read(tier, run.keys[:found], run.tokens[:found]), run.keys[:found])
    assert tier.quarantined_files == 0
    assert tier.usage.total_bytes == sum(path.stat().st_size for path in page_files(folder))
    tier.close(10)
    return found
