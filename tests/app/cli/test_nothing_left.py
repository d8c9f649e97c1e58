"""What is said in the terminal is not on disk when the command has ended, in whatever way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.paths import default_paths
from tests.app.cli.conftest import NO_END, PATIENCE, Run, StartTerminal, TerminalProcess

SECRET = "a page holds sixteen tokens and nobody is to read them " * 4
SHORT = ("--max-tokens", "12", *NO_END)


def pages_on_disk() -> list[Path]:
    """Files of pages; each holds the ids of the tokens they were computed from."""
    return list(default_paths().kv_cache.glob("*/*.safetensors"))


@pytest.fixture
def chat(terminal: StartTerminal, random_model: Path) -> TerminalProcess:
    """A conversation in which SECRET was said and answered."""
    chat = terminal("chat", "--model", random_model, *SHORT)
    chat.wait_for("> ")
    chat.type(f"{SECRET}\n")
    chat.wait_for("12 tokens")
    chat.wait_for("> ")
    return chat


@pytest.mark.parametrize(
    "arguments",
    [("chat", SECRET), ("generate", "--prompt", SECRET), ("generate", "--raw", "--prompt", SECRET, "--json")],
    ids=["chat", "generate", "raw"],
)
def test_a_command_leaves_no_pages(mlxr: Run, random_model: Path, arguments: tuple[str, ...]) -> None:
    done = mlxr(arguments[0], "--model", random_model, *SHORT, *arguments[1:])
    assert done.returncode == 0, done.stderr
    assert default_paths().kv_cache.is_dir()
    assert pages_on_disk() == []


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_chat_that_is_left_leaves_no_pages(chat: TerminalProcess, key: str) -> None:
    assert chat.leave_with(key) == 0
    assert pages_on_disk() == []


def test_a_new_chat_forgets_the_one_before(chat: TerminalProcess) -> None:
    chat.type("/new\n")
    chat.wait_for("a new chat")
    chat.type("something else\n")
    chat.wait_for("12 tokens")
    chat.type("/quit\n")
    assert chat.end() == 0
    assert pages_on_disk() == []


def test_an_answer_that_is_broken_off_leaves_no_pages(terminal: StartTerminal, random_model: Path) -> None:
    chat = terminal("chat", "--model", random_model, SECRET, *NO_END)
    chat.wait_for("reading the prompt")
    chat.wait_for("\x1b[K")
    chat.type("\x03\x03")
    assert chat.end() == 130
    assert pages_on_disk() == []


def test_a_closed_terminal_leaves_no_pages(chat: TerminalProcess) -> None:
    chat.hang_up()
    assert pages_on_disk() == []


def test_a_chat_that_was_killed_leaves_no_pages_behind_the_next_start(
    chat: TerminalProcess, mlxr: Run, random_model: Path
) -> None:
    until = time.monotonic() + PATIENCE
    while not pages_on_disk() and time.monotonic() < until:  # it rests, and pages are written
        time.sleep(0.1)
    assert pages_on_disk() != []
    beside = mlxr("generate", "--model", random_model, *SHORT, "--prompt", "something else")
    assert beside.returncode == 0, beside.stderr
    assert pages_on_disk() != []  # it lives
    chat.process.kill()
    chat.process.wait(PATIENCE)
    assert pages_on_disk() != []
    after = mlxr("generate", "--model", random_model, *SHORT, "--prompt", "something else")
    assert after.returncode == 0, after.stderr
    assert pages_on_disk() == []
    assert {path.name for path in default_paths().kv_cache.glob("*.*")} == {"ledger.json"}
