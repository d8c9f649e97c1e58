"""The `mlxr` command as people meet it: a process of its own, behind pipes or behind a terminal."""

from __future__ import annotations

import logging
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.cache_speed import measure_cache
from app.cli.cache_speed_scene import CachePlan, Scene
from app.cli.rows import Row
from app.cli.targets import Subject, cache_targets
from app.command_line import main
from engine import EngineSettings
from tests.fakes.random_model import write_random_model

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 100.0
NO_END = ("--logit-bias", "2=-100")
"""Forbids the random model's end token, so that an answer goes on until it is stopped."""

SMALL = CachePlan(context=230, long_prompt=300, pairs=1, decoded=4, batches=(1, 3), requests=3, only=())
"""What is measured with --cache."""

_ENTER_TERMINAL = """
import os, sys
os.login_tty(int(sys.argv[1]))  # so that its Ctrl-C reaches the process
os.execv(sys.argv[2], sys.argv[2:])
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with a chat template and a context that takes minutes to fill."""
    return write_random_model(tmp_path_factory.mktemp("models") / "random", max_position_embeddings=200_000)


@pytest.fixture
def rows_of(random_model: Path, tmp_path: Path) -> Callable[..., dict[str, Row]]:
    """The rows of one part of `mlxr bench --cache`, measured of `model`, or the random one."""

    def rows(part: str, model: Path = random_model, **changes: Any) -> dict[str, Row]:
        scene = Scene(
            model=model,
            text_model=model,
            settings=EngineSettings(cache=tmp_path / "kernels", speculation=False),
            device="CPU",
            scratch=tmp_path,
            plan=replace(SMALL, only=(part,), **changes),
            targets=cache_targets(Subject("guide-like", "none", "CPU", "")),
            peer=None,
            say=lambda line: None,
        )
        return {row.what: row for row in measure_cache(scene)}

    return rows


@pytest.fixture
def mlxr() -> Run:
    """Run `mlxr` with arguments, standard input and changes to the environment (None removes)."""

    def run(
        *arguments: object, stdin: str | bytes = "", env: dict[str, str | None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            command(*arguments), input=data, env=environment(env), capture_output=True, timeout=PATIENCE
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        )

    return run


@pytest.fixture
def mlxr_here(capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """`mlxr` in this process, which is quicker: for runs that read no standard input and meet no signal."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        texts = command(*arguments)[3:]
        try:
            code = main(texts)
        except SystemExit as end:  # argparse, which has shown help
            code = end.code
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(texts, code, out, err)

    yield run
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def command(*arguments: object) -> list[str]:
    """The process's arguments."""
    texts = [os.fsdecode(part) if isinstance(part, bytes) else str(part) for part in arguments]
    return [sys.executable, "-m", "app", *texts]


def environment(changes: dict[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment with `changes`, and with MLXR found from any folder."""
    merged = {**os.environ, "PYTHONPATH": str(ROOT), **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}


def assert_ends_quietly(arguments: list[str]) -> None:
    """Where a reader goes away in the middle, a process ends as by SIGPIPE, without a word."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


class TerminalProcess:
    """`mlxr` behind a pseudo-terminal.

    Attributes:
        screen: every byte it wrote so far, decoded.
    """

    def __init__(self, *arguments: object, env: dict[str, str | None] | None = None) -> None:
        self.screen = ""
        self._read = b""
        self._seen = 0
        ours, theirs = pty.openpty()
        self._terminal = ours
        arguments_of_child = [sys.executable, "-c", _ENTER_TERMINAL, str(theirs), *command(*arguments)]
        self.process = subprocess.Popen(
            arguments_of_child, env=environment({"TERM": "xterm", **(env or {})}), pass_fds=[theirs]
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> str:
        """What was written since the last wait, up to and with `text`; the test fails when it stays away."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.screen.find(text, self._seen)) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not self._receive(left):
                raise AssertionError(
                    f"{text!r} did not come; the terminal shows {self.screen[self._seen :]!r}"
                )
        begin, self._seen = self._seen, found + len(text)
        return self.screen[begin : self._seen]

    def end(self) -> int:
        """The exit code once the process has ended; what it wrote until then is on `screen`."""
        while self._receive(PATIENCE):
            pass
        return self.process.wait(PATIENCE)

    def leave_with(self, key: str) -> int:
        """Press `key` at the prompt, again each second until the process has ended; its exit code.

        A Ctrl-C that strikes between readline's prompt and its wait for keys is heard only with the next key.
        """
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self.type(key)
            while self._receive(1.0):
                pass
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        return self.end()

    def hang_up(self) -> None:
        """Close the terminal and wait for the process, which hears of it by a signal or from the keyboard."""
        os.close(self._terminal)
        self._terminal = -1
        self.process.wait(PATIENCE)

    def close(self) -> None:
        """End what is left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._terminal >= 0:
            os.close(self._terminal)

    def _receive(self, patience: float) -> bool:
        if not select.select([self._terminal], [], [], patience)[0]:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # Linux's way of saying that the other side has closed
            return False
        self._read += data
        self.screen = self._read.decode("utf-8", errors="replace")
        return bool(data)


StartTerminal = Callable[..., TerminalProcess]


@pytest.fixture
def terminal() -> Iterator[StartTerminal]:
    """Start `mlxr` behind a pseudo-terminal; it is ended with the test."""
    started: list[TerminalProcess] = []

    def start(*arguments: object, env: dict[str, str | None] | None = None) -> TerminalProcess:
        started.append(TerminalProcess(*arguments, env=env))
        return started[-1]

    yield start
    for process in started:
        process.close()
