"""What is told of a process whose test does not end."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest

from tests import stuck
from tests.stuck import TASKS, Watch, account, thread_states

pytestmark = pytest.mark.skipif(not TASKS.exists(), reason="threads are looked at in Linux's /proc")

MUCH = bytes(1 << 20)


@contextmanager
def thread_at(work: str) -> Generator[int]:
    """A thread that computes or waits until the block ends; its number."""
    done, number = threading.Event(), list[int]()
    started = threading.Event()

    def run() -> None:
        number.append(threading.get_native_id())
        started.set()
        while work == "computes" and not done.is_set():
            hashlib.sha256(MUCH)  # without Python's lock
        done.wait()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield number[0]
    finally:
        done.set()
        thread.join()


def test_a_thread_that_computes_is_told_from_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck.shutil, "which", lambda name: None)
    with thread_at("computes") as busy, thread_at("waits") as idle:

        def wait() -> None:
            until = thread_states()[busy].seconds + 0.05
            while thread_states()[busy].seconds < until:
                time.sleep(0.01)

        wait()  # the other one waits by then
        lines = account(wait).splitlines()
    told = {int(line.split()[0]): line for line in lines if line[0].isdigit()}
    assert os.getpid() in told
    assert "0.00 s and 0 switches" in told[idle]
    assert "0.00 s and" not in told[busy]
    assert lines[-1] == "no gdb here: no native stacks"


def test_a_test_that_lasts_is_told_of_once_and_one_that_ends_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stuck, "account", lambda: "the account")
    watch, printed = Watch(), ""
    watch.begin("test_short", 2.0)
    watch.end()
    watch.begin("test_long", 2.1)
    while printed.count("\n") < 2:
        time.sleep(0.01)
        printed += capsys.readouterr().err
    assert watch.told == ["test_long has lasted for 2.1 s", "the account"]
    assert printed == "test_long has lasted for 2.1 s\nthe account\n"


@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no debugger here")
def test_stacks_of_more_threads_than_a_pipe_holds_are_told() -> None:
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(thread_at("waits"))
        told = account(lambda: None)
    assert told.count("Thread 0x") > 100
    assert len(told) > 1 << 16
